"""Bring the rows of tools up to what code registers; never looser, never over what an admin changed (M04)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.db import transaction

from allm_django.errors import ConfigurationError
from allm_django.models import Tool
from allm_django.store.tool_floor import seen_in, tighten
from allm_django.store.tools import write_tool
from allm_django.store.writing import alias
from allm_django.tools.registry import ToolDefinition, registry

Kind = Literal["created", "updated", "tightened", "disabled", "differs", "conflict"]

# What follows code for as long as an admin has not changed it.
FOLLOWS = ("title", "description", "schema", "timeout", "compact", "summary", "metadata")
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that ``sync_tools`` did or saw: the tool's name, what kind of thing, and in words."""

    tool: str
    kind: Kind
    text: str


@dataclass(slots=True)
class _Row:
    """A row while it is compared with code; ``dirty`` if it has to be written."""

    tool: Tool
    dirty: bool = False
    changes: list[Change] = field(default_factory=list)

    def note(self, kind: Kind, text: str) -> None:
        self.changes.append(Change(self.tool.name, kind, text))


def sync_tools(*, dry_run: bool = False) -> list[Change]:
    """Create rows for registered tools, let rows follow code, disable what lost its handler; report all of it.

    New rows are enabled, with code's manual flag. An existing row is never enabled and never made looser; a field
    that an admin changed stays. A schema that an admin changed, of a handler that changed since, disables the tool
    until someone looks (security row 7). ``dry_run``: report only. Raises ConfigurationError, and does nothing, when
    a resolver can't say what it offers.
    """
    if problems := registry.sources.problems():
        raise ConfigurationError("; ".join(f"{path}: {text}" for path, text in problems.items()))
    with transaction.atomic(using=alias()):
        rows = _compared()
        if not dry_run:
            for row in rows:
                _write(row)
    return [change for row in rows for change in row.changes]


def _compared() -> list[_Row]:
    """All rows, new ones first, as they should be."""
    rows = [_Row(tool) for tool in Tool.objects.select_for_update().order_by("name")]
    names = {row.tool.name for row in rows}
    known = {definition.key for definition in registry.all()}
    created: list[_Row] = []
    for definition in registry.all():
        mine = [row for row in rows if row.tool.handler == definition.key]
        for row in mine:
            _follow(row, definition)
        if not mine:
            created.append(_create(definition, names))
    for row in rows:
        if row.tool.handler and row.tool.handler not in known:
            _disable_orphan(row)
    return [*created, *rows]


def _write(row: _Row) -> None:
    if not row.dirty:
        return
    try:
        row.tool.full_clean()
    except ValidationError as error:
        problems = "; ".join(f"{name}: {texts[0]}" for name, texts in error.message_dict.items())
        row.changes = [Change(row.tool.name, "conflict", f"can't be written: {problems}")]
    else:
        write_tool(row.tool, who="sync_tools")


def _create(definition: ToolDefinition, names: set[str]) -> _Row:
    tool = Tool(
        name=definition.name,
        handler=definition.key,
        enabled=True,
        manual=definition.manual,
        idempotent=definition.idempotent,
        sensitive=list(definition.sensitive),
        synced=_as_code_has_it(definition),
        **{name: _value(definition, name) for name in FOLLOWS},
    )
    row = _Row(tool)
    if definition.name in names:
        row.note("conflict", f"another tool has this name; rename it, or choose {definition.key} as its handler.")
        return row
    names.add(definition.name)
    row.dirty = True
    row.note("created", f"runs {definition.key}{', manual' if definition.manual else ''}.")
    return row


def _follow(row: _Row, definition: ToolDefinition) -> None:
    before = dict(row.tool.synced)
    for name in FOLLOWS:
        _follow_field(row, name, _value(definition, name), before.get(name, _NOTHING))
    for name in tighten(row.tool, definition):
        row.dirty = True
        row.note("tightened", f"{name} is as strict as code now.")
    row.tool.synced = _as_code_has_it(definition)
    row.dirty = row.dirty or row.tool.synced != before


def _follow_field(row: _Row, name: str, code: Any, was: Any) -> None:
    """``code`` is what code says now, ``was`` what it said when last looked at."""
    if getattr(row.tool, name) == code:
        return
    if getattr(row.tool, name) == was:
        setattr(row.tool, name, code)
        row.dirty = True
        row.note("updated", f"{name} follows code.")
        return
    row.note("differs", f"{name} was changed in the admin; code says something else.")
    if name == "schema" and was is not _NOTHING and code != was and row.tool.enabled:
        _disable(row, "its handler changed, and the schema is the admin's own: compare them, then enable it again.")


def _disable_orphan(row: _Row) -> None:
    if row.tool.enabled:
        _disable(row, f"no code registers its handler {row.tool.handler!r} any more.")
    else:
        row.note("differs", f"no code registers its handler {row.tool.handler!r}.")


def _disable(row: _Row, text: str) -> None:
    row.tool.enabled = False
    row.dirty = True
    row.note("disabled", text)


def _as_code_has_it(definition: ToolDefinition) -> dict[str, Any]:
    return {name: _value(definition, name) for name in FOLLOWS} | seen_in(definition)


def _value(definition: ToolDefinition, name: str) -> Any:
    return json.loads(json.dumps(getattr(definition, name)))


def describe(changes: list[Change]) -> Iterator[str]:
    """The changes as lines of text."""
    for change in changes:
        yield f"{change.kind:<9} {change.tool}: {change.text}"
