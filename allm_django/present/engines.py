"""Engines on offer, with what their tools are."""

from __future__ import annotations

from collections.abc import Iterable

from allm_django import access
from allm_django.access import Person
from allm_django.conf import IN_PROCESS, conf
from allm_django.core.types import JSONObject
from allm_django.models import Engine, Tool


def engine_shapes(user: Person) -> list[JSONObject]:
    """The engines that ``user`` may use, by name; three queries, however many."""
    engines = list(access.usable_engines(user).prefetch_related("tools"))
    enabled = list(Tool.objects.filter(enabled=True)) if engines else []
    return [_shape(engine, [tool for tool in engine.tools.all() if tool.enabled], enabled) for engine in engines]


def _shape(engine: Engine, own: Iterable[Tool], enabled: Iterable[Tool]) -> JSONObject:
    """An engine without tools of its own offers all that are enabled."""
    tools = own if engine.tools.all() else enabled
    return {
        "name": engine.name,
        "title": engine.title or engine.name,
        "description": engine.description,
        "notice": engine.notice,
        "tools": [{"name": t.name, "title": t.title or t.name, "manual": _waits(engine, t)} for t in tools],
        "examples": engine.examples,
        "ready": not _lacks_key(engine),
    }


def _waits(engine: Engine, tool: Tool) -> bool:
    return tool.manual or engine.mode == Engine.Mode.MANUAL


def _lacks_key(engine: Engine) -> bool:
    """Whether the engine can't answer for want of a key; where other processes do the work, only they know."""
    from allm_django.providers.resolve import lacks_key  # not at every start of Django

    settings = conf()
    here = settings.DISPATCH == IN_PROCESS
    return here and lacks_key(engine.model, keys=settings.KEYS, api_key_env=engine.api_key_env)
