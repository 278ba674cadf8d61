"""Bring the rows of tools up to what code registers; never looser, never over what an admin changed (M04)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from allm_django.core.encode import visible
from allm_django.errors import ConfigurationError
from allm_django.models import Tool
from allm_django.store.tool_compare import FLOORED, FOLLOWS, code_value
from allm_django.store.tool_floor import seen_in, tighten
from allm_django.store.tools import write_tool
from allm_django.store.writing import alias
from allm_django.tools.registry import ToolDefinition, registry

Kind = Literal["created", "updated", "tightened", "disabled", "differs", "conflict"]

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that ``sync_tools`` did or saw: the tool's name, what kind of thing, and in words.

    ``before`` and ``after``: a field's value in the row and in code, as JSON text; both empty where there is no pair.
    """

    tool: str
    kind: Kind
    text: str
    before: str = ""
    after: str = ""


@dataclass(slots=True)
class _Row:
    """A row while it is compared with code; ``dirty`` if it has to be written."""

    tool: Tool
    dirty: bool = False
    changes: list[Change] = field(default_factory=list)

    def note(self, kind: Kind, text: str, *values: Any) -> None:
        self.changes.append(Change(self.tool.name, kind, text, *(_as_text(value) for value in values)))


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
        row.changes = [
            Change(row.tool.name, "conflict", _("It can’t be written: %(problems)s") % {"problems": problems})
        ]
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
        **{name: code_value(definition, name) for name in FOLLOWS},
    )
    row = _Row(tool)
    if definition.name in names:
        row.note(
            "conflict",
            _("Another tool has this name; rename it, or choose %(key)s as its handler.") % {"key": definition.key},
        )
        return row
    names.add(definition.name)
    row.dirty = True
    words = _("Runs %(key)s, manual.") if definition.manual else _("Runs %(key)s.")
    row.note("created", words % {"key": definition.key})
    return row


def _follow(row: _Row, definition: ToolDefinition) -> None:
    before = dict(row.tool.synced)
    for name in FOLLOWS:
        _follow_field(row, name, code_value(definition, name), before.get(name, _NOTHING))
    stood = {name: getattr(row.tool, name) for name in FLOORED}
    for name in tighten(row.tool, definition):
        row.dirty = True
        row.note(
            "tightened",
            _("%(field)s is as strict as code now.") % {"field": name},
            stood[name],
            getattr(row.tool, name),
        )
    row.tool.synced = _as_code_has_it(definition)
    row.dirty = row.dirty or row.tool.synced != before


def _follow_field(row: _Row, name: str, code: Any, was: Any) -> None:
    """``code`` is what code says now, ``was`` what it said when last looked at."""
    present = getattr(row.tool, name)
    if present == code:
        return
    if present == was:
        setattr(row.tool, name, code)
        row.dirty = True
        row.note("updated", _("%(field)s follows code.") % {"field": name}, present, code)
        return
    row.note(
        "differs", _("%(field)s was changed in the admin; code says something else.") % {"field": name}, present, code
    )
    if name == "schema" and was is not _NOTHING and code != was and row.tool.enabled:
        _disable(row, _("Its handler changed, and the schema is the admin’s own: compare them, then enable it again."))


def _disable_orphan(row: _Row) -> None:
    if row.tool.enabled:
        _disable(row, _("No code registers its handler “%(key)s” any more.") % {"key": row.tool.handler})
    else:
        row.note("differs", _("No code registers its handler “%(key)s”.") % {"key": row.tool.handler})


def _disable(row: _Row, text: str) -> None:
    row.tool.enabled = False
    row.dirty = True
    row.note("disabled", text)


def _as_code_has_it(definition: ToolDefinition) -> dict[str, Any]:
    return {name: code_value(definition, name) for name in FOLLOWS} | seen_in(definition)


def describe(changes: list[Change]) -> Iterator[str]:
    """The changes as lines of text, values as a diff."""
    for change in changes:
        yield f"{change.kind:<9} {change.tool}: {change.text}"
        if change.before or change.after:
            lines = unified_diff(change.before.splitlines(), change.after.splitlines(), lineterm="", n=2)
            yield from (f"          {visible(line)}" for line in list(lines)[2:] if not line.startswith("@@"))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
