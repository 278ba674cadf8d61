"""Tools as a file that goes from one installation to another: versioned JSON (M04)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.duration import duration_iso_string
from django.utils.translation import gettext as _

from allm_django.core.types import JSONObject
from allm_django.errors import InvalidInputError
from allm_django.models import Tool

FORMAT, VERSION = "allm_django.tools", 1
MAX_TOOLS = 500
MAX_BYTES = 2 * 1024 * 1024
LEFT_OUT = {"enabled", "synced", "version"}  # a matter of the installation


def export_tools(tools: Iterable[Tool]) -> JSONObject:
    """``tools`` as one file. Groups are named, not numbered; whether a tool is enabled is not in it."""
    listed = list(tools)
    models.prefetch_related_objects(listed, *group_names())
    return {"format": FORMAT, "version": VERSION, "tools": [_entry(tool) for tool in listed]}


def group_names() -> list[str]:
    """The fields of a tool that hold groups."""
    return [field.name for field in Tool._meta.many_to_many if field.related_model is Group]


def read_file(data: Any) -> list[JSONObject]:
    """The entries of a file, each with known fields only. Raises InvalidInputError, naming the place."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidInputError(_("This is not an export of tools: “format” is not %(name)s.") % {"name": FORMAT})
    if data.get("version") != VERSION:
        raise InvalidInputError(_("“version” %(version)r is not known here.") % {"version": data.get("version")})
    entries = data.get("tools")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidInputError(_("“tools” has to be a list of objects."), field="tools")
    if len(entries) > MAX_TOOLS:
        raise InvalidInputError(_("“tools” has more than %(n)d entries.") % {"n": MAX_TOOLS}, field="tools")
    if unknown := set(data) - {"format", "version", "tools"}:
        raise InvalidInputError(_("“%(name)s” is no field of this format.") % {"name": min(unknown)})
    return entries


def values_of(entry: JSONObject) -> tuple[JSONObject, dict[str, list[Group]]]:
    """An entry's fields as the row holds them, and its groups. Raises InvalidInputError, naming the field."""
    known = {field.name: field for field in _fields()}
    groups = set(group_names())
    if unknown := set(entry) - set(known) - groups:
        raise InvalidInputError(_("There is no such field."), field=min(unknown))
    values = {name: _from_file(known[name], value) for name, value in entry.items() if name in known}
    return values, {name: _groups(name, entry[name]) for name in groups if name in entry}


def shown_values(tool: Tool) -> JSONObject:
    """A row's fields as they stand in a file, groups left out."""
    return {field.name: _to_file(field, getattr(tool, field.attname)) for field in _fields()}


def _entry(tool: Tool) -> JSONObject:
    groups = {name: sorted(group.name for group in getattr(tool, name).all()) for name in group_names()}
    return shown_values(tool) | groups


def _fields() -> Iterator[models.Field[Any, Any]]:
    """What of a tool goes into a file: all that an admin may set, but for what ties it to one installation."""
    for field in Tool._meta.concrete_fields:
        automatic = field.primary_key or getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False)
        if not automatic and field.name not in LEFT_OUT:
            yield field


def _to_file(field: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(field, models.DurationField):
        return None if value is None else duration_iso_string(value)
    return value


def _from_file(field: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(field, models.JSONField):
        return value
    if isinstance(field, models.BooleanField) and not isinstance(value, bool):
        raise InvalidInputError(_("true or false is needed."), field=field.name)
    if isinstance(field, (models.CharField, models.TextField)) and not isinstance(value, str):
        raise InvalidInputError(_("A text is needed."), field=field.name)
    try:
        return field.to_python(value)
    except ValidationError as error:
        raise InvalidInputError(error.messages[0], field=field.name) from error


def _groups(name: str, names: Any) -> list[Group]:
    """Groups by name. One that is missing is refused: without it, more people might decide than the file says."""
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise InvalidInputError(_("A list of the names of groups is needed."), field=name)
    found = {group.name: group for group in Group.objects.filter(name__in=names)}
    if missing := [each for each in names if each not in found]:
        raise InvalidInputError(
            _("There is no group “%(name)s” here; make it first.") % {"name": missing[0]}, field=name
        )
    return [found[each] for each in names]
