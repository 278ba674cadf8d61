"""Options of ``@tool`` that need a closer look; each error names its field (T02, T06)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from allm_django.core.encode import to_json
from allm_django.core.types import JSONObject
from allm_django.errors import EncodingError, ToolDefinitionError


def plain(value: Any, field_name: str) -> Any:
    """A copy that is JSON through and through (T06). Raises ToolDefinitionError naming the field."""
    try:
        return to_json(value)
    except EncodingError as error:
        raise ToolDefinitionError(f"{field_name}: {error.message}", field=field_name) from None


def sensitive_names(names: Iterable[str], schema: JSONObject) -> tuple[str, ...]:
    """``names`` as a tuple, each an argument of ``schema`` as far as it lists them (by name or dotted path)."""
    if not isinstance(names, (list, tuple, set, frozenset)):
        kind = type(names).__name__
        raise ToolDefinitionError(f"sensitive: {kind} given; a list of names is needed.", field="sensitive")
    listed = tuple(names)
    known = {name.casefold() for name in _properties(schema)}
    for name in listed:
        if not isinstance(name, str) or not name:
            raise ToolDefinitionError(f"sensitive: {name!r} is no name of an argument.", field="sensitive")
        unknown = any(part not in known for part in name.casefold().split("."))
        if unknown and name.casefold() not in known and schema.get("additionalProperties") is False:
            raise ToolDefinitionError(f"sensitive: there is no argument {name!r}.", field="sensitive")
    return listed


def _properties(schema: Any) -> set[str]:
    """The names of all properties, at any depth."""
    if isinstance(schema, list):
        return {name for item in schema for name in _properties(item)}
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties")
    inner = {name for value in schema.values() for name in _properties(value)}
    return inner | (set(own) if isinstance(own, dict) else set())
