"""Say in plain words what is wrong with a call's arguments: where, what was given, what is allowed.

A value is never quoted, only its kind: it may be sensitive, and messages go to events and logs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jsonschema.exceptions import ValidationError

from allm_django.core.arguments import ArgumentProblem, kind_of, path_text

MAX_PROBLEMS = 5

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


_FORMATS = {
    "date": "date, as YYYY-MM-DD",
    "date-time": "date and time, as YYYY-MM-DDThh:mm:ss",
    "time": "time, as hh:mm:ss",
    "uuid": "UUID",
}


def problems_of(errors: Iterable[ValidationError]) -> list[ArgumentProblem]:
    """The first few problems, each once."""
    found: dict[ArgumentProblem, None] = {}
    for error in errors:
        for problem in _problems(error):
            found[problem] = None
    return list(found)[:MAX_PROBLEMS]


def _problems(error: ValidationError) -> Iterator[ArgumentProblem]:
    path = list(error.absolute_path)
    word = error.validator
    if word in ("required", "dependentRequired"):
        for name in _missing(error):
            yield _problem([*path, name], "is required but missing")
    elif word == "additionalProperties" and error.validator_value is False:
        yield _problem(path, f"is not an argument here; allowed: {_names(error.schema)}")
    elif word in ("anyOf", "oneOf") and error.context:
        yield from _of_branches(error, path)
    elif word == "propertyNames":
        yield _problem(path, "is not an allowed name")
    else:
        yield _problem(path, _said(error))


def _problem(path: list[Any], what: str) -> ArgumentProblem:
    text = path_text(path)
    return ArgumentProblem(text, f"{text or 'The arguments object'} {what}.")


def _missing(error: ValidationError) -> list[str]:
    given: Any = error.instance
    wanted: Any = error.validator_value
    if isinstance(wanted, dict):
        wanted = [name for when, names in wanted.items() if when in given for name in names]
    return [name for name in dict.fromkeys(wanted) if name not in given][:MAX_PROBLEMS]


def _names(schema: Any) -> str:
    names = [*schema.get("properties", {}), *(f"names like {p}" for p in schema.get("patternProperties", {}))]
    return _listed(names) or "none"


def _listed(words: list[str]) -> str:
    more = len(words) - 12
    return ", ".join(word[:60] for word in words[:12]) + (f" and {more} more" if more > 0 else "")


def _of_branches(error: ValidationError, path: list[Any]) -> Iterator[ArgumentProblem]:
    """One sentence if all alternatives want another type; else what the alternative that fits best lacks."""
    branches: list[ValidationError] = list(error.context or ())
    kinds = [branch.validator_value for branch in branches if branch.validator == "type" and not branch.path]
    if len(kinds) == len(branches):
        yield _problem(path, f"must be {_types(kinds)}; {kind_of(error.instance)} was given")
        return
    right_type = [branch for branch in branches if branch.validator != "type" or branch.path] or branches
    best = max(right_type, key=lambda branch: len(branch.path))
    if best.context is not None and best.parent is error:
        yield from _problems(best)


def _types(kinds: Any) -> str:
    flat = [kind for item in kinds for kind in (item if isinstance(item, list) else [item])]
    return " or ".join(dict.fromkeys(_TYPES.get(kind, str(kind)) for kind in flat))


def _amount(what: str) -> Callable[[Any], str]:
    return lambda limit: f"must have {what.format(limit)}"


_SENTENCES: dict[str, Callable[[Any], str]] = {
    "minimum": lambda limit: f"must be at least {limit}",
    "maximum": lambda limit: f"must be at most {limit}",
    "exclusiveMinimum": lambda limit: f"must be more than {limit}",
    "exclusiveMaximum": lambda limit: f"must be less than {limit}",
    "multipleOf": lambda factor: f"must be a multiple of {factor}",
    "minLength": _amount("at least {} characters"),
    "maxLength": _amount("at most {} characters"),
    "minItems": _amount("at least {} items"),
    "maxItems": _amount("at most {} items"),
    "minProperties": _amount("at least {} fields"),
    "maxProperties": _amount("at most {} fields"),
    "uniqueItems": lambda _: "must not hold the same item twice",
    "pattern": lambda pattern: f"must match the pattern {pattern[:200]}",
    "format": lambda name: f"must be a valid {_FORMATS.get(name, name)}",
    "const": lambda value: f"must be {_short(value)}",
    "enum": lambda values: f"must be one of {_listed([_short(value) for value in values])}",
    "contains": lambda _: "lacks an item of the required kind",
    "not": lambda _: "has a form that is not allowed",
    "oneOf": lambda _: "fits more than one of the allowed forms; only one may fit",
    "anyOf": lambda _: "fits none of the allowed forms",
    "unevaluatedProperties": lambda _: "has a field that is not allowed",
    "unevaluatedItems": lambda _: "has an item that is not allowed",
}


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]


def _said(error: ValidationError) -> str:
    if error.validator == "type":
        return f"must be {_types([error.validator_value])}; {_given(error)} was given"
    sentence = _SENTENCES.get(str(error.validator))
    return sentence(error.validator_value) if sentence else "is not allowed here"


def _given(error: ValidationError) -> str:
    if isinstance(error.instance, float) and "integer" in str(error.validator_value):
        return "a number with a fraction"
    return kind_of(error.instance)
