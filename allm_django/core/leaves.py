"""JSON Schema's words without subschemas: each looks at one value and quotes none (it may be large, or sensitive)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from fractions import Fraction
from operator import ge, le
from typing import Any, TypeAlias
from uuid import UUID

from jsonschema.exceptions import ValidationError

Check: TypeAlias = Callable[[Any, Any, Any, Any], Any]
"""(validator, the word's value, instance, schema) -> errors, or None."""

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


def _multiple_of(validator: Any, factor: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Exact in decimals: 19.99 is a multiple of 0.01, which binary floats would deny."""
    if _TYPES["number"](instance) and Fraction(repr(instance)) % Fraction(repr(factor)):
        yield ValidationError("multipleOf")


def _limit(word: str, kind: type, fits: Callable[[int, int], bool]) -> Check:
    def check(validator: Any, limit: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if isinstance(instance, kind) and not fits(len(instance), limit):  # type: ignore[arg-type]
            yield ValidationError(word)

    return check


def same(one: Any, two: Any) -> bool:
    """Equality as JSON Schema has it: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(value, two[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return isinstance(one, bool) == isinstance(two, bool) and bool(one == two)


def _enum(validator: Any, values: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not any(same(value, instance) for value in values):
        yield ValidationError("enum")


def _const(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not same(value, instance):
        yield ValidationError("const")


def _frozen(value: Any) -> Any:
    """A hashable twin that is equal where :func:`same` is."""
    if isinstance(value, dict):
        return "o", frozenset((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list):
        return "a", tuple(map(_frozen, value))
    return ("b", value) if isinstance(value, bool) else value


def _unique_items(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list) and len({_frozen(item) for item in instance}) < len(instance):
        yield ValidationError("uniqueItems")


# Those that a handler's own conversion would refuse, so that nobody is asked about a call that can't run.
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
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


LEAVES: dict[str, Check] = {
    "const": _const,
    "enum": _enum,
    "format": _format,
    "multipleOf": _multiple_of,
    "type": _type,
    "uniqueItems": _unique_items,
    "minItems": _limit("minItems", list, ge),
    "maxItems": _limit("maxItems", list, le),
    "minLength": _limit("minLength", str, ge),
    "maxLength": _limit("maxLength", str, le),
    "minProperties": _limit("minProperties", dict, ge),
    "maxProperties": _limit("maxProperties", dict, le),
}
