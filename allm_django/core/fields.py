"""Checks of fields of a document from outside: each takes a value and its place, and gives the value or refuses it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from allm_django.core.encode import to_json
from allm_django.core.ids import USABLE_ID
from allm_django.core.schema_lint import lint
from allm_django.core.types import JSON, JSONObject
from allm_django.core.usage import FIGURES, decimal
from allm_django.errors import EncodingError, InvalidInputError, SchemaError

Check: TypeAlias = Callable[[Any, str], Any]


def refused(where: str, words: str) -> InvalidInputError:
    """The error that names a place."""
    return InvalidInputError(f"{where or 'export'}: {words}", field=where)


def kind_of(value: Any, kind: type, words: str, where: str) -> Any:
    """``value``, if it is of this Python type."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise refused(where, f"{type(value).__name__} given; {words} is needed.")
    return value


def json_value(value: Any, where: str) -> JSON:
    """Any JSON that can be stored."""
    try:
        same = to_json(value) == value
    except EncodingError as error:
        raise refused(where, error.message) from error
    if not same:
        raise refused(where, "holds what can't be stored as JSON.")
    found: JSON = value
    return found


def text(longest: int | None = None) -> Check:
    """A text of at most ``longest`` characters."""

    def check(value: Any, where: str) -> str:
        given: str = kind_of(value, str, "text", where)
        if longest is not None and len(given) > longest:
            raise refused(where, f"{len(given)} characters; at most {longest} are allowed.")
        json_value(given, where)
        return given

    return check


def one_of(words: Collection[str]) -> Check:
    """One of these words."""

    def check(value: Any, where: str) -> str:
        if not isinstance(value, str) or value not in words:
            raise refused(where, f"{str(value)[:40]!r} is not one of {', '.join(filter(None, words))}.")
        return value

    return check


def whole(value: Any, where: str, most: int = 2**31 - 1) -> int:
    """A whole number that a column holds."""
    number: int = kind_of(value, int, "a whole number", where)
    if not 0 <= number <= most:
        raise refused(where, f"a whole number from 0 to {most} is needed.")
    return number


def flag(value: Any, where: str) -> bool:
    """True or false."""
    return bool(kind_of(value, bool, "true or false", where))


def mapping(value: Any, where: str) -> JSONObject:
    """Any JSON object."""
    json_value(kind_of(value, dict, "an object", where), where)
    found: JSONObject = value
    return found


def schema(value: Any, where: str) -> JSONObject:
    """A JSON Schema that tools may have."""
    found = mapping(value, where)
    try:
        lint(found)
    except SchemaError as error:
        raise refused(where, error.message) from error
    return found


def figures(value: Any, where: str) -> JSONObject:
    """What a provider counted: whole numbers, a cost as text, and the names of those that are partial."""
    found = mapping(value, where)
    for name, figure in found.items():
        place = f"{where}.{name}"
        if name == "partial":
            list_of(one_of(FIGURES))(figure, place)
        elif name == "cost":
            if not isinstance(figure, str) or decimal(figure) is None:
                raise refused(place, "a number as text is needed.")
        elif name in FIGURES:
            whole(figure, place, most=2**53)
        else:
            raise refused(place, "is not a figure of this format.")
    return found


def seconds(value: Any, where: str) -> float:
    """A length of time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
        raise refused(where, "a number of seconds is needed.")
    return float(value)


def moment(value: Any, where: str) -> datetime:
    """A time with its zone."""
    try:
        found = datetime.fromisoformat(kind_of(value, str, "a time as text", where).replace("Z", "+00:00"))
    except ValueError:
        found = datetime.min
    if found.tzinfo is None:
        raise refused(where, "no time in the form of ISO 8601 with its zone.")
    return found


def call_id(value: Any, where: str) -> str:
    """A call's id, as every provider takes it back."""
    if not isinstance(value, str) or not USABLE_ID.fullmatch(value):
        raise refused(where, "1 to 40 characters of A-Z a-z 0-9 _ - are needed.")
    return value


def step_id(value: Any, where: str) -> str:
    """The id of a recipe's step: its call's, and its place."""
    parent, slash, place = value.rpartition("/") if isinstance(value, str) else ("", "", "")
    if not (slash and USABLE_ID.fullmatch(parent) and place.isascii() and place.isdigit() and len(place) < 5):
        raise refused(where, "the id of the recipe's call, / and a number are needed.")
    return f"{parent}/{place}"


def maybe(check: Check) -> Check:
    """Null, or what ``check`` reads."""
    return lambda value, where: None if value is None else check(value, where)


def list_of(check: Check) -> Check:
    """A list of what ``check`` reads."""

    def read(value: Any, where: str) -> list[Any]:
        return [check(item, f"{where}.{place}") for place, item in enumerate(kind_of(value, list, "a list", where))]

    return read


def object_of(fields: Mapping[str, Check]) -> Check:
    """An object with exactly these fields."""

    def read(value: Any, where: str) -> JSONObject:
        given: JSONObject = kind_of(value, dict, "an object", where)
        prefix = f"{where}." if where else ""
        if unknown := sorted(set(map(str, given)) - set(fields)):
            raise refused(prefix + unknown[0][:64], "is not a field of this format.")
        if missing := [name for name in fields if name not in given]:
            raise refused(prefix + missing[0], "is missing.")
        return {name: check(given[name], prefix + name) for name, check in fields.items()}

    return read
