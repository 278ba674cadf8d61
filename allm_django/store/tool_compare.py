"""A tool's row beside what code says of it, field by field; and taking code's word for some of them (M04)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils.translation import gettext as _

from allm_django.errors import InvalidInputError
from allm_django.models import Tool
from allm_django.store.tool_floor import definition_of
from allm_django.store.tools import save_tool
from allm_django.store.writing import alias
from allm_django.tools.registry import ToolDefinition

# What follows code for as long as an admin has not changed it.
FOLLOWS = ("title", "description", "schema", "timeout", "compact", "summary", "metadata")
FLOORED = ("manual", "idempotent", "sensitive")  # what the row may be stricter in than code, never looser
COMPARED = (*FOLLOWS, *FLOORED)


class Changed(StrEnum):
    """Which side moved since row and code were last the same."""

    HERE = "here"
    CODE = "code"
    BOTH = "both"
    UNKNOWN = "unknown"  # what code said then was not kept


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that row and code don't agree on."""

    field: str
    row: Any
    code: Any
    changed: Changed


def code_value(definition: ToolDefinition, name: str) -> Any:
    """What code says of a field, as JSON would give it back."""
    return json.loads(json.dumps(getattr(definition, name)))


def differences(tool: Tool) -> list[Difference]:
    """The fields in which ``tool`` differs from its code; none without a registered handler. Makes no query."""
    definition = definition_of(tool)
    if definition is None:
        return []
    found = []
    for name in COMPARED:
        row, code = getattr(tool, name), code_value(definition, name)
        if row != code:
            found.append(Difference(name, row, code, _changed(tool, name, row, code)))
    return found


def take_code(tool: Tool, names: Iterable[str], *, by: AbstractBaseUser | None, seen_version: int) -> Tool:
    """Set the fields in ``names`` to what code says, and save.

    Raises InvalidInputError when one is no compared field, when nothing is registered, or when the tool is not at
    ``seen_version`` any more: what was looked at is what is changed.
    """
    chosen = list(names)
    if unknown := [name for name in chosen if name not in COMPARED]:
        raise InvalidInputError(_("“%(name)s” is not compared with code.") % {"name": unknown[0]}, field="fields")
    with transaction.atomic(using=alias()):
        locked = Tool.objects.select_for_update().get(pk=tool.pk)
        definition = definition_of(locked)
        if definition is None:
            raise InvalidInputError(_("No code is registered for this tool’s handler."), field="handler")
        if locked.version != seen_version:
            raise InvalidInputError(
                _("The tool was changed meanwhile. Look at it again; nothing was taken."), field="version"
            )
        for name in chosen:
            value = code_value(definition, name)
            setattr(locked, name, value)
            locked.synced = {**locked.synced, name: value}
        return save_tool(locked, by=by)


def _changed(tool: Tool, name: str, row: Any, code: Any) -> Changed:
    if name not in tool.synced:
        return Changed.HERE if name in FLOORED else Changed.UNKNOWN
    was = tool.synced[name]
    if was == code:
        return Changed.HERE
    return Changed.CODE if was == row else Changed.BOTH
