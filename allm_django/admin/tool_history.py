"""Versions of a tool, each with what it changed (M02)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from allm_django.admin.display import json_block
from allm_django.models import Tool, ToolVersion

MOST = 50


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field's value before and after, ready for a page."""

    label: str
    before: SafeString | str
    after: SafeString | str


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A version: its number, when and by whom it came, and what it changed."""

    number: int
    at: datetime
    who: str
    fields: tuple[FieldChange, ...]


def recent_versions(tool: Tool) -> list[VersionChange]:
    """The latest versions, newest first; one query."""
    versions = list(ToolVersion.objects.filter(tool=tool).order_by("-version")[: MOST + 1])
    changes = [_change(newer, older) for newer, older in pairwise(versions)]
    if versions and len(versions) <= MOST:
        changes.append(_change(versions[-1], None))
    return changes


def _change(version: ToolVersion, before: ToolVersion | None) -> VersionChange:
    fields = tuple(_field_changes(version.data, before.data)) if before is not None else ()
    return VersionChange(version.version, version.created_at, version.who, fields)


def _field_changes(after: dict[str, Any], before: dict[str, Any]) -> Iterator[FieldChange]:
    for name in sorted({*after, *before}):
        if after.get(name) != before.get(name):
            yield FieldChange(_label(name), json_block(before.get(name)), json_block(after.get(name)))


def _label(name: str) -> str:
    try:
        return str(capfirst(Tool._meta.get_field(name).verbose_name))  # type: ignore[union-attr]
    except FieldDoesNotExist:
        return name
