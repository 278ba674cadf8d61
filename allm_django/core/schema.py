"""Validate a call's arguments against its tool's schema, in bounded time (T05, T21, security row 36).

``lint`` says which schemas are accepted, ``compile_schema`` makes a validator once, ``parse_arguments`` reads what
a model wrote. A validation has an allowance of work: what would take longer than about half a second is refused.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from allm_django.core.arguments import ArgumentProblem, not_json, parse_arguments
from allm_django.core.patterns import bounded
from allm_django.core.problems import MAX_PROBLEMS, problems_of
from allm_django.core.schema_lint import lint
from allm_django.core.types import JSONObject

__all__ = ["ArgumentProblem", "Validator", "compile_schema", "lint", "parse_arguments"]

ALLOWANCE = 50_000  # subschemas applied, list items and names looked at; each some microseconds
STEPS_PER_UNIT = 200  # steps of a pattern that cost as much

_work = threading.local()


class _TooMuchWorkError(Exception):
    pass


def _spend(units: float) -> None:
    _work.left -= units
    if _work.left < 0:
        raise _TooMuchWorkError


def _size(value: object) -> int:
    return len(value) if isinstance(value, (list, dict)) else 0


def _metered(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _spend(1 + _size(value) + _size(instance))
        return keyword(validator, value, instance, schema)

    return apply


def _matches(pattern: str, text: str) -> bool:
    compiled = bounded(pattern)
    _spend(compiled.cost(len(text)) / STEPS_PER_UNIT)
    return compiled.regex.search(text) is not None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError("pattern")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            for name in [name for name in instance if _matches(pattern, name)]:
                yield from validator.descend(instance[name], subschema, path=name, schema_path=pattern)


def extra_names(instance: JSONObject, schema: JSONObject) -> list[str]:
    """The names in ``instance`` that the schema speaks of neither as properties nor by a pattern."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [name for name in instance if name not in known and not any(_matches(p, name) for p in patterns)]


def _additional(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    for name in extra_names(instance, schema) if isinstance(instance, dict) else ():
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


_OWN = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
}
_CHEAP = {"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"} | {
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "const",
    "format",
    "multipleOf",
    "pattern",
}
_WORDS = {**Draft202012Validator.VALIDATORS, **_OWN}
_Draft = extend(
    Draft202012Validator, {word: check if word in _CHEAP else _metered(check) for word, check in _WORDS.items()}
)


@dataclass(frozen=True, slots=True)
class Validator:
    """A compiled schema. Get one from :func:`compile_schema`; safe to share between threads."""

    schema: JSONObject
    _compiled: Any

    def errors(self, arguments: JSONObject) -> list[ArgumentProblem]:
        """What is wrong with ``arguments``, at most a few problems; empty if they fit.

        A message says where, what and what is allowed, and never quotes a value (it may be sensitive).
        """
        _work.left = ALLOWANCE
        try:
            json.dumps(arguments, allow_nan=False)
            found = [*_first(self._compiled.iter_errors(arguments))]
            return problems_of(found)
        except (TypeError, ValueError) as error:
            return [not_json(arguments, error)]
        except (_TooMuchWorkError, RecursionError, ArithmeticError):
            return [ArgumentProblem("", "The arguments are too large or too deep to be checked; send less at a time.")]

    def is_valid(self, arguments: JSONObject) -> bool:
        """Whether ``arguments`` fit."""
        return not self.errors(arguments)


def _first(errors: Iterator[ValidationError]) -> Iterator[ValidationError]:
    for _, error in zip(range(MAX_PROBLEMS), errors, strict=False):
        yield error


def compile_schema(schema: JSONObject) -> Validator:
    """Lint ``schema`` and compile it; the same JSON text is compiled once. Raises SchemaError."""
    try:
        text = json.dumps(schema, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        lint(schema)
        raise
    return _compile(text)


@lru_cache(maxsize=1_024)
def _compile(text: str) -> Validator:
    schema = json.loads(text)
    lint(schema)
    return Validator(schema, cast(Any, _Draft)(schema, registry=Registry()))
