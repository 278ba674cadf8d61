"""Writes of engines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext as _

from allm_django.conf import provider_factories
from allm_django.errors import ConfigurationError, InvalidInputError, MissingExtraError, StateError
from allm_django.models import Engine, Tool
from allm_django.store.cleaning import check_row
from allm_django.store.writing import alias
from allm_django.tools.registry import FunctionKind, registry

KEY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Fields that name a registered function, and the words that may stand there instead.
FUNCTIONS: dict[FunctionKind, tuple[str, ...]] = {
    "on_tool_error": ("continue", "halt"),
    "halt_when": ("",),
    "encoder": ("",),
    "executor": ("",),
}


def save_engine(
    engine: Engine, *, tools: Iterable[Tool] | None = None, groups: Iterable[Group] | None = None
) -> Engine:
    """Write ``engine``; ``tools`` and ``groups`` replace what it has, None leaves them.

    Raises InvalidInputError, naming the field.
    """
    check_engine(engine)
    with transaction.atomic(using=alias()):
        engine.save()
        if tools is not None:
            engine.tools.set(tools)
        if groups is not None:
            engine.groups.set(groups)
    return engine


def check_engine(engine: Engine) -> None:
    """Raise InvalidInputError, naming the field, unless ``engine`` may be saved."""
    check_row(engine)
    check_references(engine)


def check_references(engine: Engine) -> None:
    """The part of :func:`check_engine` that looks at what the engine names: key variable, functions, model."""
    if engine.api_key_env and not KEY_NAME.fullmatch(engine.api_key_env):
        raise InvalidInputError(
            _("Write the name of an environment variable, such as OPENAI_API_KEY; never the key itself."),
            field="api_key_env",
        )
    for kind, words in FUNCTIONS.items():
        key = getattr(engine, kind)
        if key not in words and registry.function(kind, key) is None:
            raise InvalidInputError(_("“%(key)s” is not a function that code registered.") % {"key": key}, field=kind)
    check_model(engine)


def check_model(engine: Engine) -> None:
    """Raise InvalidInputError unless the model's id names a provider that we know.

    A provider whose library is not installed here is no error: the worker may have it. Nothing is asked of a server.
    """
    if engine.model.startswith("scripted:"):
        return  # lives in one process only, so it can't be looked up here
    from allm_django.providers.resolve import resolve_model  # not at every start of Django

    try:
        resolve_model(engine.model, base_url=engine.base_url or None, registry=provider_factories())
    except MissingExtraError:
        return
    except ConfigurationError as error:
        field = "base_url" if "base" in error.message else "model"
        raise InvalidInputError(error.message, field=field) from error


FROZEN = (
    "name",
    "model",
    "base_url",
    "api_key_env",
    "system",
    "params",
    "tool_choice",
    "mode",
    "typing",
    "max_turns",
    "limits",
    "on_tool_error",
    "halt_when",
    "encoder",
    "executor",
    "terminal_tool",
    "response_schema",
    "context",
)


def frozen_settings(engine: Engine) -> dict[str, Any]:
    """The copy of an engine's settings that a run is driven by; its tools are looked up as they stand (R10)."""
    return {name: getattr(engine, name) for name in FROZEN}


def delete_engine(engine: Engine) -> None:
    """Delete an engine that has no sessions. Raises StateError if it has."""
    try:
        engine.delete()
    except ProtectedError as error:
        raise StateError(f"Sessions use the engine {engine.name!r}. Disable it instead.", state="in use") from error
