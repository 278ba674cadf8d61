"""System checks of tools: modules that failed to load, tools without description, rows that don't agree with code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.db.utils import DatabaseError

from allm_django import discovery
from allm_django.models import Tool
from allm_django.store.tool_floor import Condition, health_of, is_behind
from allm_django.tools.registry import registry


def check_tool_modules(**kwargs: Any) -> list[CheckMessage]:
    """E005: a module of tools, or a resolver, could not be loaded at the start."""
    return [
        Error(
            f"The tools of {name} could not be loaded: {text}",
            hint=f"{_way_out(name)} For the traceback: manage.py shell -c 'import {name}'.",
            id="allm_django.E005",
        )
        for name, text in discovery.failures().items()
    ]


def _way_out(name: str) -> str:
    if discovery.is_listed(name):
        return "Correct it, or take it out of ALLM['TOOL_MODULES'] or ALLM['RESOLVERS']."
    return "Correct the module."


def check_descriptions(**kwargs: Any) -> list[CheckMessage]:
    """W007: a tool of which the model is told no more than its title."""
    return [
        Warning(
            f"{definition.key} has no docstring: the model is told “{definition.title}” and no more.",
            hint="Say in the docstring, or in description=, what it does and when to use it.",
            id="allm_django.W007",
        )
        for definition in registry.functions()
        if definition.description == definition.title
    ]


def check_rows(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """E010, E011, W010–W012 (need ``--database``): tools whose rows don't agree with code.

    What newer code explains is a warning, so that ``migrate`` goes on and ``sync_tools`` can follow; what code never
    was is an error. Neither is offered.
    """
    if Tool.objects.db not in (databases or ()):
        return []
    try:
        tools = list(Tool.objects.order_by("name"))
    except DatabaseError:
        return []  # not migrated yet
    return [message for tool in tools for message in _row_messages(tool)]


def _row_messages(tool: Tool) -> Iterator[CheckMessage]:
    health = health_of(tool)
    text, hint = f"Tool {tool.name!r}: {health.text}", "Run manage.py sync_tools, or correct the tool in the admin."
    if health.condition is Condition.MISSING and tool.enabled:
        if is_behind(tool):
            yield Warning(text, hint=hint, id="allm_django.W011")
        else:
            yield Error(text, hint=hint, id="allm_django.E010")
    elif health.condition is Condition.LOOSER:
        if is_behind(tool):
            yield Warning(text, hint=hint, id="allm_django.W012")
        else:
            yield Error(text, hint=hint, id="allm_django.E011")
    elif health.condition is Condition.DRIFTED:
        yield Warning(text, hint=hint, id="allm_django.W010")
