"""Which JSON Schemas this project accepts (T05, security row 36): a bounded subset of 2020-12.

An object with ``type: object`` at the top, valid against the meta-schema. ``$ref`` points inside the schema
(``#`` or ``#/…``); nothing is ever fetched. ``format`` is checked for date, date-time, time and uuid, else an
annotation. Words that JSON Schema does not know are annotations too, as the specification has it.

Not accepted, since nothing bounds them or they reach outside: ``$id``, ``$anchor``, ``$dynamicRef``,
``$dynamicAnchor``, ``$recursiveRef``, ``$recursiveAnchor``, ``$vocabulary``; patterns without a bound
(``core.patterns``); references that go round without ever going into the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from allm_django.core.patterns import bounded
from allm_django.core.types import JSONObject
from allm_django.errors import SchemaError

MAX_DEPTH = 32
MAX_BYTES = 64 * 1024
MAX_NODES = 2_000
MAX_REFERENCES = 32  # references and combinations that follow each other without going into the arguments
MAX_CONST_VALUES = 200  # values inside lists and objects under enum and const, in all

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_ONE = IN_PLACE & {"not", "if", "then", "else"} | {
    "additionalProperties",
    "contains",
    "contentSchema",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
}
_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAP = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_REFUSED = (
    "$id",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
)

Place = tuple[str, ...]  # the tokens of a JSON pointer


def lint(schema: object, *, field: str = "schema") -> None:
    """Raise SchemaError, with the place as ``field`` + JSON pointer, unless ``schema`` is acceptable."""
    try:
        if not isinstance(schema, dict):
            raise _Finding((), f"{type(schema).__name__} given; a JSON object is needed.")
        _check_size(schema)
        if schema.get("type") != "object":
            raise _Finding(("type",), 'must be "object" at the top: the arguments of a tool are an object.')
        places = dict(_subschemas(schema))
        if len(places) > MAX_NODES:
            raise _Finding((), f"more than {MAX_NODES} subschemas; make it smaller.")
        for place, node in places.items():
            _check_node(place, node)
        _check_meta_schema(schema)
        _check_references(places)
        if sum(_nested_values(node) for node in places.values()) > MAX_CONST_VALUES:
            raise _Finding((), f"more than {MAX_CONST_VALUES} values inside lists and objects under enum or const.")
    except _Finding as finding:
        where = field + "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in finding.place)
        raise SchemaError(f"{where}: {finding}", field=where) from None


class _Finding(Exception):
    """Something wrong at a place of the schema."""

    def __init__(self, place: Place, message: str) -> None:
        self.place = place
        super().__init__(message)


def _check_size(schema: JSONObject) -> None:
    """Bound the depth before anything recurses, then the size; refuse what is not JSON."""
    waiting: list[tuple[Place, Any]] = [((), schema)]
    seen = 0
    while waiting:
        place, value = waiting.pop()
        seen += 1
        if len(place) > MAX_DEPTH:
            raise _Finding(place[:4], f"nested deeper than {MAX_DEPTH} levels; move parts to $defs.")
        if seen > MAX_BYTES:
            raise _Finding((), f"larger than {MAX_BYTES} bytes; make it smaller.")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise _Finding(place, f"the key {key!r} is {type(key).__name__}; keys are text.")
            waiting += [((*place, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, str(number)), item) for number, item in enumerate(value)]
        elif value is not None and not isinstance(value, (str, bool, int, float)):
            raise _Finding(place, f"{type(value).__name__} is not JSON.")
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except ValueError as error:
        raise _Finding((), f"not JSON: {error}.") from None
    if size > MAX_BYTES:
        raise _Finding((), f"larger than {MAX_BYTES} bytes; make it smaller.")


def _subschemas(schema: Any) -> Iterator[tuple[Place, Any]]:
    """Each place where a schema stands, with that schema."""
    waiting: list[tuple[Place, Any]] = [((), schema)]
    while waiting:
        place, node = waiting.pop()
        yield place, node
        if not isinstance(node, dict):
            continue
        for word, value in node.items():
            waiting += [((*place, *tokens), child) for tokens, child in _children(word, value)]


def _children(word: str, value: Any) -> Iterator[tuple[Place, Any]]:
    if word in _ONE:
        yield (word,), value
    elif word in _LIST and isinstance(value, list):
        yield from (((word, str(number)), child) for number, child in enumerate(value))
    elif word in _MAP and isinstance(value, dict):
        yield from (((word, key), child) for key, child in value.items())


def _check_node(place: Place, node: Any) -> None:
    if not isinstance(node, dict):
        return
    for word in _REFUSED:
        if word in node:
            raise _Finding((*place, word), "is not accepted here; use $defs and a local $ref such as #/$defs/item.")
    dialect = node.get("$schema", DIALECT)
    if place and "$schema" in node:
        raise _Finding((*place, "$schema"), "may only stand at the top.")
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        raise _Finding((*place, "$schema"), f"must be {DIALECT}, or left out.")
    if "patternProperties" in node and "unevaluatedProperties" in node:
        raise _Finding((*place, "unevaluatedProperties"), "can't stand beside patternProperties here.")
    patterns = node.get("patternProperties")
    for text in patterns if isinstance(patterns, dict) else ():
        _check_pattern((*place, "patternProperties", text), text)
    if isinstance(node.get("pattern"), str):
        _check_pattern((*place, "pattern"), node["pattern"])


def _check_pattern(place: Place, text: str) -> None:
    try:
        bounded(text)
    except SchemaError as error:
        raise _Finding(place, error.message) from None


def _check_meta_schema(schema: JSONObject) -> None:
    error = best_match(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema))
    if error is not None:
        raise _Finding(tuple(map(str, error.absolute_path)), f"not valid JSON Schema: {error.message[:300]}.")


def _target(place: Place, reference: str) -> Place:
    if not (reference == "#" or reference.startswith("#/")):
        raise _Finding(place, f"{reference[:100]!r} leaves the schema; only #/… is allowed, and nothing is fetched.")
    tokens = unquote(reference[1:]).split("/")[1:]
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


def _check_references(places: dict[Place, Any]) -> None:
    """Each ``$ref`` meets a schema, and no path goes on for long without going into the arguments."""
    steps: dict[Place, list[Place]] = {}
    for place, node in places.items():
        words = node if isinstance(node, dict) else {}
        steps[place] = [
            (*place, *tokens) for word in IN_PLACE & set(words) for tokens, _ in _children(word, words[word])
        ]
        if "$ref" in words:
            target = _target((*place, "$ref"), words["$ref"])
            if target not in places:
                raise _Finding((*place, "$ref"), f"{words['$ref'][:100]!r} points at no schema; see $defs.")
            steps[place].append(target)
    _check_lengths(steps)


def _check_lengths(steps: dict[Place, list[Place]]) -> None:
    """Depth-first with an own stack: a place met while it is open is a circle."""
    length: dict[Place, int] = {}
    opened: set[Place] = set()
    for root in steps:
        stack = [root]
        while stack:
            place = stack[-1]
            waiting = [step for step in steps[place] if step not in length]
            if place not in length and waiting:
                opened.add(place)
                if not opened.isdisjoint(waiting):
                    raise _Finding(place, "refers to itself without going into the arguments, so it would never end.")
                stack += waiting
                continue
            stack.pop()
            opened.discard(place)
            length[place] = 1 + max((length[step] for step in steps[place]), default=0)
            if length[place] > MAX_REFERENCES:
                raise _Finding(
                    place, f"more than {MAX_REFERENCES} references or combinations in a row; make it flatter."
                )


def _nested_values(node: Any) -> int:
    if not isinstance(node, dict):
        return 0
    members = [node["const"]] if "const" in node else []
    if isinstance(node.get("enum"), list):
        members += node["enum"]
    return sum(_count(member) for member in members if isinstance(member, (dict, list)))


def _count(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(_count(child) for child in children)
