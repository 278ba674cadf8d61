"""Taking tools from a file: first a plan, then the plan carried out; what arrives is disabled and not looser (M04)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal

from django.contrib.auth.models import AbstractBaseUser, Group
from django.db import transaction
from django.utils.translation import gettext as _

from allm_django.core.types import JSONObject
from allm_django.errors import AllmError, InvalidInputError
from allm_django.models import Tool
from allm_django.store.tool_file import group_names, read_file, shown_values, values_of
from allm_django.store.tool_floor import check_tool, definition_of, tighten
from allm_django.store.tools import save_tool
from allm_django.store.writing import alias

Kind = Literal["create", "change", "same", "refuse"]


@dataclass(frozen=True, slots=True)
class Planned:
    """What importing one entry would do. ``fields``: a field's values before and after; ``problem`` in words."""

    name: str
    kind: Kind
    fields: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    problem: str = ""
    tool: Tool | None = field(default=None, compare=False, repr=False)
    groups: dict[str, list[Group]] = field(default_factory=dict, compare=False, repr=False)


def plan_import(data: Any) -> list[Planned]:
    """What importing this file would do; writes nothing. Raises InvalidInputError for what is no such file.

    Rows are found by name. A new or changed row is disabled, at least as strict as code, and manual if it was. An
    entry whose handler code did not register, whose groups are missing, or that is not valid is refused; others stay.
    """
    entries = read_file(data)
    names = [entry.get("name") for entry in entries]
    rows = {tool.name: tool for tool in Tool.objects.prefetch_related(*group_names()).filter(name__in=_texts(names))}
    return [_planned(entry, rows, names) for entry in entries]


def mark_of(plan: Iterable[Planned]) -> str:
    """A hash of a plan: what was looked at is what is carried out."""
    text = json.dumps([[p.name, p.kind, p.problem, p.fields] for p in plan], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def import_tools(data: Any, *, by: AbstractBaseUser | None = None, seen: str | None = None) -> list[Planned]:
    """Carry the plan out, all in one transaction; what it refuses is left alone. Returns the plan.

    Raises InvalidInputError when ``seen``, the :func:`mark_of` a plan, is given and the plan is another by now.
    """
    with transaction.atomic(using=alias()):
        list(Tool.objects.select_for_update().order_by("pk"))
        plan = plan_import(data)
        if seen is not None and seen != mark_of(plan):
            raise InvalidInputError(_("Tools were changed meanwhile. Look at the differences again."), field="seen")
        for each in plan:
            if each.tool is not None and each.kind in ("create", "change"):
                save_tool(each.tool, by=by, **each.groups)
    return plan


def _planned(entry: JSONObject, rows: dict[str, Tool], names: list[Any]) -> Planned:
    name = entry.get("name")
    if not isinstance(name, str) or names.count(name) > 1:
        return Planned(str(name), "refuse", problem=_("Each entry needs a name of its own."))
    try:
        return _compared(name, entry, rows.get(name))
    except AllmError as error:
        where = getattr(error, "field", "") or ""
        return Planned(name, "refuse", problem=f"{where}: {error.message.removeprefix(f'{where}: ')}".lstrip(": "))


def _compared(name: str, entry: JSONObject, row: Tool | None) -> Planned:
    values, groups = values_of(entry)
    tool = Tool(name=name) if row is None else copy(row)
    before = {} if row is None else shown_values(row) | _group_values(row)
    was_manual = row is not None and row.manual
    for field_name, value in values.items():
        setattr(tool, field_name, value)
    _keep_floor(tool, was_manual=was_manual)
    after = shown_values(tool) | {**_group_values(row), **{key: _names(chosen) for key, chosen in groups.items()}}
    changed = {key: (before.get(key), value) for key, value in after.items() if before.get(key) != value}
    if row is not None and not changed:
        return Planned(name, "same")
    tool.enabled = False
    check_tool(tool)  # without the stored row: a handler that is not registered is refused even for a disabled tool
    if row is not None and row.enabled:
        changed["enabled"] = (True, False)
    return Planned(name, "change" if row else "create", changed, "", tool, groups)


def _keep_floor(tool: Tool, *, was_manual: bool) -> None:
    definition = definition_of(tool)
    tool.manual = tool.manual or was_manual or not tool.handler
    if definition is not None:
        tighten(tool, definition)


def _group_values(row: Tool | None) -> JSONObject:
    return {name: _names(getattr(row, name).all()) if row is not None else [] for name in group_names()}


def _names(groups: Iterable[Group]) -> list[str]:
    return sorted(group.name for group in groups)


def _texts(names: list[Any]) -> list[str]:
    return [name for name in names if isinstance(name, str)]
