"""JSON Schema as this project checks it: metered, with bounded patterns, exact in decimals.

jsonschema walks the schema; here are the words that lead into it. A validation gets an allowance for its thread; each
subschema applied, item and name looked at and step of a pattern is charged to it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from allm_django.core.leaves import LEAVES, Check
from allm_django.core.patterns import bounded
from allm_django.core.types import JSONObject

ALLOWANCE = 50_000  # units of about ten microseconds
STEPS_PER_UNIT = 200  # steps of a pattern
MATCH = 0.2  # units of any match, however short
REFERENCE = 3  # units of following a $ref
BYTES_PER_UNIT = 2_000  # of what jsonschema quotes in errors that are then dropped

_work = threading.local()


class TooMuchWorkError(Exception):
    """A validation has used up its allowance."""


def allowance(size: int, share: int = 1) -> None:
    """Give this thread's next validation, of arguments of ``size`` bytes, its allowance, or a ``share`` of it."""
    _work.left = ALLOWANCE // share
    _work.size = size
    _work.failed = None


def _spend(units: float) -> None:
    _work.left -= units
    if _work.left < 0:
        raise TooMuchWorkError


def _size(value: object) -> int:
    return len(value) if isinstance(value, (list, dict)) else 0


def _metered(check: Check, units: int = 1) -> Check:
    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _spend(units + _size(value) + _size(instance))
        return check(validator, value, instance, schema)

    return apply


def _metered_quoting(check: Check) -> Check:
    """As above, for jsonschema's own words that may quote the whole instance in an error that nobody will read."""

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        size = _work.size if isinstance(instance, (list, dict)) else len(instance) if isinstance(instance, str) else 0
        _spend(1 + _size(value) + _size(instance) + size // BYTES_PER_UNIT)
        return check(validator, value, instance, schema)

    return apply


def _matches(pattern: str, text: str) -> bool:
    if _work.failed == (pattern, text):  # looked at again to tell what is wrong
        return False
    compiled = bounded(pattern)
    _spend(MATCH + compiled.cost(len(text)) / STEPS_PER_UNIT)
    if compiled.regex.search(text):
        return True
    _work.failed = (pattern, text)
    return False


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError("pattern")


def _fits(validator: Any, instance: Any, schema: Any) -> bool:
    """Whether ``instance`` surely fits: a short cut for schemas without subschemas, which most fields have.

    False means: look closer. It saves jsonschema a validator of its own for each field.
    """
    if not isinstance(schema, dict):
        return schema is True
    for word, value in schema.items():
        if word in _DESCENDING:
            return False
        check = _CHECKS.get(word)
        if check is not None and any(True for _ in check(validator, value, instance, schema) or ()):
            return False
    return True


def _errors(validator: Any, instance: Any, schema: Any, **where: Any) -> Iterator[ValidationError]:
    if not _fits(validator, instance, schema):
        yield from validator.descend(instance, schema, **where)


def _properties(validator: Any, properties: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for name, subschema in properties.items() if isinstance(instance, dict) else ():
        if name in instance:
            yield from _errors(validator, instance[name], subschema, path=name, schema_path=name)


def _items(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, list):
        for number in range(len(schema.get("prefixItems", ())), len(instance)):
            yield from _errors(validator, instance[number], subschema, path=number)


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            for name in [name for name in instance if _matches(pattern, name)]:
                yield from _errors(validator, instance[name], subschema, path=name, schema_path=pattern)


def _extra_names(instance: JSONObject, schema: JSONObject) -> list[str]:
    """The names in ``instance`` that the schema speaks of neither as properties nor by a pattern."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [name for name in instance if name not in known and not any(_matches(p, name) for p in patterns)]


def _additional(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for name in _extra_names(instance, schema) if isinstance(instance, dict) else ():
        if subschema is False:
            yield ValidationError("unexpected", path=(name,))
        else:
            yield from _errors(validator, instance[name], subschema, path=name)


def _dependent_required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for name in names if isinstance(instance, dict) else ():
        if name in instance:
            _spend(len(names[name]))
            if any(other not in instance for other in names[name]):
                yield ValidationError("dependentRequired")


def _any_of(validator: Any, subschemas: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    context: list[ValidationError] = []
    for number, subschema in enumerate(subschemas):
        errors = list(_errors(validator, instance, subschema, schema_path=number))
        if not errors:
            return
        context += errors
    yield ValidationError("anyOf", context=context)


def _one_of(validator: Any, subschemas: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    found = [list(_errors(validator, instance, each, schema_path=number)) for number, each in enumerate(subschemas)]
    if found.count([]) != 1:
        none_fits = [] not in found
        yield ValidationError("oneOf", context=[error for errors in found for error in errors] if none_fits else ())


def _not(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not any(True for _ in _errors(validator, instance, subschema)):
        yield ValidationError("not")


_LEADING: dict[str, Check] = {
    "additionalProperties": _additional,
    "anyOf": _any_of,
    "dependentRequired": _dependent_required,
    "items": _items,
    "not": _not,
    "oneOf": _one_of,
    "patternProperties": _pattern_properties,
    "properties": _properties,
}
_FOREIGN = ("$ref", "allOf", "dependentSchemas", "if", "prefixItems", "propertyNames")
_QUOTING = ("contains", "unevaluatedItems", "unevaluatedProperties")
_METERED_LEAVES = ("enum", "required", "uniqueItems")


def _checks() -> dict[str, Check]:
    known: dict[str, Check] = {**Draft202012Validator.VALIDATORS, **LEAVES, **_LEADING, "pattern": _pattern}
    known.pop("$dynamicRef")
    metered = {word: _metered(known[word]) for word in (*_LEADING, *_FOREIGN, *_METERED_LEAVES)}
    metered["$ref"] = _metered(known["$ref"], REFERENCE)
    return known | metered | {word: _metered_quoting(known[word]) for word in _QUOTING}


_CHECKS = _checks()
_DESCENDING = frozenset({*_LEADING, *_FOREIGN, *_QUOTING})
Draft: Any = extend(Draft202012Validator, _CHECKS)  # type: ignore[no-untyped-call]
