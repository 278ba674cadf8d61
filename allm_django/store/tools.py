"""Writes of tools and their versions. Whoever changes a tool comes through here, admin and commands alike."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, Group
from django.db import transaction

from allm_django.errors import NotFoundError
from allm_django.models import Tool, ToolVersion
from allm_django.store.tool_floor import check_tool, definition_of, seen_in
from allm_django.store.writing import alias


def save_tool(
    tool: Tool,
    *,
    by: AbstractBaseUser | None = None,
    approver_groups: Iterable[Group] | None = None,
    escalation_groups: Iterable[Group] | None = None,
) -> Tool:
    """Write ``tool``; a new version when anything that calls are judged by changed (H04, M02).

    ``approver_groups`` and ``escalation_groups`` replace the tool's groups; None leaves them. A save counts as
    having looked at what code says now. Raises InvalidInputError, naming the field, for what is invalid or below
    code's floor.
    """
    with transaction.atomic(using=alias()):
        stored = Tool.objects.select_for_update().filter(pk=tool.pk).first() if tool.pk else None
        check_tool(tool, stored)
        if (definition := definition_of(tool)) is not None:
            tool.synced = {**tool.synced, **seen_in(definition)}
        write_tool(tool, who=by.get_username() if by is not None else "")
        if approver_groups is not None:
            tool.approver_groups.set(approver_groups)
        if escalation_groups is not None:
            tool.escalation_groups.set(escalation_groups)
    return tool


def write_tool(tool: Tool, *, who: str) -> None:
    """Write ``tool`` as it stands, and its version if need be. The caller holds the row's lock, if there is a row."""
    latest = _latest(tool) if tool.pk else None
    tool.version = _next_version(tool, latest)
    tool.save()
    if latest is None or latest.version != tool.version:
        ToolVersion.objects.create(tool=tool, name=tool.name, version=tool.version, data=content(tool), who=who)


def current_version(tool: Tool) -> ToolVersion:
    """The version that equals the tool's present content; made if rows were changed behind our back (H04).

    One query when nothing changed. Else ``tool`` is read again, under its lock. Raises NotFoundError if it is gone.
    """
    latest = _latest(tool)
    if latest is not None and latest.version == tool.version and latest.data == content(tool):
        return latest
    with transaction.atomic(using=alias()):
        locked = Tool.objects.select_for_update().filter(pk=tool.pk).first()
        if locked is None:
            raise NotFoundError(f"The tool {tool.name!r} was deleted meanwhile.")
        write_tool(locked, who="")
        tool.refresh_from_db()
        return ToolVersion.objects.get(tool=locked, version=locked.version)


def delete_tool(tool: Tool) -> None:
    """Delete a tool. Its versions, and the calls judged by them, stay."""
    tool.delete()


def content(tool: Tool) -> dict[str, Any]:
    """All that makes a version, as JSON would give it back."""
    data: dict[str, Any] = json.loads(json.dumps(tool.versioned()))
    return data


def _latest(tool: Tool) -> ToolVersion | None:
    return ToolVersion.objects.filter(tool=tool).order_by("-version").first()


def _next_version(tool: Tool, latest: ToolVersion | None) -> int:
    if latest is None:
        return max(tool.version, 1)
    if latest.data == content(tool):
        return latest.version
    return latest.version + 1
