"""The words of JSON Schema as this project checks them: metered, exact in decimals, with bounded patterns.

jsonschema walks the schema; here are the checks that could take long, or that cost most (``type``). A validation gets
an allowance for its thread; each subschema applied, item and name looked at and step of a pattern is charged to it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from fractions import Fraction
from typing import Any
from uuid import UUID

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from allm_django.core.patterns import bounded
from allm_django.core.types import JSONObject

ALLOWANCE = 50_000  # units of about ten microseconds
STEPS_PER_UNIT = 200  # steps of a pattern
MATCH = 0.2  # units of any match, however short
BYTES_PER_UNIT = 2_000  # of what jsonschema quotes in the errors of alternatives, which are then dropped

_work = threading.local()


class TooMuchWorkError(Exception):
    """A validation has used up its allowance."""


def allowance(size: int) -> None:
    """Give this thread's next validation, of arguments of ``size`` bytes, its allowance."""
    _work.left = ALLOWANCE
    _work.size = size


def _spend(units: float) -> None:
    _work.left -= units
    if _work.left < 0:
        raise TooMuchWorkError


def _size(value: object) -> int:
    return len(value) if isinstance(value, (list, dict)) else 0


def _metered(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _spend(1 + _size(value) + _size(instance))
        return keyword(validator, value, instance, schema)

    return apply


def _metered_choice(keyword: Callable[..., Any]) -> Callable[..., Any]:
    """As above, for words whose subschemas may fail in vain, each failure quoting the instance."""

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        size = _work.size if isinstance(instance, (list, dict)) else len(instance) if isinstance(instance, str) else 0
        _spend((1 + _size(value)) * (1 + size // BYTES_PER_UNIT) + _size(instance))
        return keyword(validator, value, instance, schema)

    return apply


def _matches(pattern: str, text: str) -> bool:
    compiled = bounded(pattern)
    _spend(MATCH + compiled.cost(len(text)) / STEPS_PER_UNIT)
    return compiled.regex.search(text) is not None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError("pattern")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            for name in [name for name in instance if _matches(pattern, name)]:
                yield from validator.descend(instance[name], subschema, path=name, schema_path=pattern)


def _extra_names(instance: JSONObject, schema: JSONObject) -> list[str]:
    """The names in ``instance`` that the schema speaks of neither as properties nor by a pattern."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [name for name in instance if name not in known and not any(_matches(p, name) for p in patterns)]


def _additional(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for name in _extra_names(instance, schema) if isinstance(instance, dict) else ():
        if subschema is False:
            yield ValidationError("unexpected", path=(name,))
        else:
            yield from validator.descend(instance[name], subschema, path=name)


def _multiple_of(validator: Any, factor: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Exact in decimals: 19.99 is a multiple of 0.01, which binary floats would deny."""
    if validator.is_type(instance, "number") and Fraction(repr(instance)) % Fraction(repr(factor)):
        yield ValidationError("multipleOf")


def _frozen(value: Any) -> Any:
    """A hashable twin that is equal exactly where JSON is: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return "o", frozenset((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list):
        return "a", tuple(map(_frozen, value))
    return ("b", value) if isinstance(value, bool) else value


def _unique_items(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list) and len({_frozen(item) for item in instance}) < len(instance):
        yield ValidationError("uniqueItems")


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _type(validator: Any, types: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not any(_TYPES[name](instance) for name in ([types] if isinstance(types, str) else types)):
        yield ValidationError("type")


def _dependent_required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for name in names if isinstance(instance, dict) else ():
        if name in instance:
            _spend(len(names[name]))
            if any(other not in instance for other in names[name]):
                yield ValidationError("dependentRequired")


_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# Those that a handler's own conversion would refuse, so that nobody is asked about a call that can't run.
_FORMATS: dict[str, Callable[[str], object]] = {
    "date": lambda text: date.fromisoformat(text) and _DATE.fullmatch(text),
    "date-time": lambda text: datetime.fromisoformat(text) and len(text) > 10,
    "time": lambda text: time.fromisoformat(text) is not None,
    "uuid": UUID,
}


def _format(validator: Any, name: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str) or name not in _FORMATS:
        return
    try:
        fits = _FORMATS[name](instance)
    except ValueError:
        fits = False
    if not fits:
        yield ValidationError("format")


_OWN: dict[str, Callable[..., Any]] = {
    "additionalProperties": _additional,
    "dependentRequired": _dependent_required,
    "format": _format,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "type": _type,
    "uniqueItems": _unique_items,
}
_WALKING = {
    "$ref",
    "additionalProperties",
    "allOf",
    "dependentRequired",
    "dependentSchemas",
    "enum",
    "items",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "uniqueItems",
}
_CHOOSING = {"anyOf", "oneOf", "not", "if", "contains", "unevaluatedItems", "unevaluatedProperties"}


def _bounded_words() -> Iterator[tuple[str, Callable[..., Any]]]:
    for word, check in {**Draft202012Validator.VALIDATORS, **_OWN}.items():
        if word in _CHOOSING:
            yield word, _metered_choice(check)
        elif word in _WALKING:
            yield word, _metered(check)
        else:
            yield word, check


Draft: Any = extend(Draft202012Validator, dict(_bounded_words()))  # type: ignore[no-untyped-call]
