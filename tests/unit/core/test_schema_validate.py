"""Validating arguments: plain words, JSON Schema's equalities, bounded work (T05, T21, security row 36)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from allm_django.core.schema import compile_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "name": {"type": ["string", "null"], "pattern": "^[a-z]+$"},
        "size": {"enum": ["small", "large"]},
        "price": {"type": "number", "multipleOf": 0.01},
        "day": {"type": "string", "format": "date"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"anyOf": [{"$ref": "#/$defs/item"}, {"type": "string", "minLength": 3}]},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 3, "uniqueItems": True},
    },
    "required": ["count"],
    "additionalProperties": False,
    "$defs": {
        "item": {
            "type": "object",
            "properties": {"price": {"type": "number"}, "part": {"$ref": "#/$defs/item"}},
            "required": ["price"],
            "additionalProperties": False,
        }
    },
}


def said(**arguments: Any) -> list[str]:
    return [problem.message for problem in compile_schema(SCHEMA).errors({"count": 1, **arguments})]


@pytest.mark.row("T21")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": "1"}, "count must be a whole number; text was given."),
        ({"count": 1.5}, "count must be a whole number; a number with a fraction was given."),
        ({"count": True}, "count must be a whole number; true or false was given."),
        ({"count": 0}, "count must be at least 1."),
        ({"name": "A"}, "name must match the pattern ^[a-z]+$."),
        ({"name": 3}, "name must be text or null; a number was given."),
        ({"size": "huge"}, 'size must be one of "small", "large".'),
        ({"price": 0.001}, "price must be a multiple of 0.01."),
        ({"day": "tomorrow"}, "day must be a valid date, as YYYY-MM-DD."),
        ({"day": "20240101"}, "day must be a valid date, as YYYY-MM-DD."),
        ({"maybe": "1"}, "maybe must be a whole number or null; text was given."),
        ({"either": "x"}, "either must have at least 3 characters."),
        ({"either": {"price": "1"}}, "either.price must be a number; text was given."),
        ({"items": [{"price": 1, "part": {}}]}, "items[0].part.price is required but missing."),
        ({"items": [{"price": 1}, {"price": 1.0}]}, "items must not hold the same item twice."),
        ({"items": [{"price": n} for n in range(4)]}, "items must have at most 3 items."),
        ({"price": float("nan")}, "price must be a finite number; NaN or infinity given."),
        ({"price": float("inf")}, "price must be a finite number; NaN or infinity given."),
        ({"name": object()}, "name is not JSON; object given."),
    ],
)
def test_a_problem_is_told_in_one_plain_sentence(arguments: dict[str, Any], message: str) -> None:
    assert said(**arguments) == [message]


def test_an_unknown_argument_is_told_with_the_known_ones_in_their_order() -> None:
    [message] = said(cuont=1)
    assert message.startswith("cuont is not an argument here; allowed: count, name, size")


@pytest.mark.row("T21")
def test_each_missing_argument_is_told_once() -> None:
    validator = compile_schema({"type": "object", "required": ["a", "b"]})
    assert [problem.path for problem in validator.errors({})] == ["a", "b"]


def test_a_few_problems_are_enough() -> None:
    assert len(said(**{f"unknown{number}": 1 for number in range(50)})) == 5


@pytest.mark.parametrize(
    "arguments",
    [
        {"count": 1.0},
        {"count": 10**30},
        {"price": 19.99},
        {"price": 0.07},
        {"name": None},
        {"items": [{"price": 1}, {"price": True and 2}]},
        {"day": "2024-02-29"},
    ],
)
def test_json_schemas_notion_of_numbers_holds(arguments: dict[str, Any]) -> None:
    assert said(**arguments) == []


def test_unique_items_tells_one_from_true() -> None:
    validator = compile_schema({"type": "object", "properties": {"x": {"uniqueItems": True}}})
    assert validator.is_valid({"x": [1, True, "1", [1], [True], {"a": 0}, {"a": False}]})
    assert not validator.is_valid({"x": [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}]})


@pytest.mark.row("T21", "T26")
def test_messages_never_quote_a_value() -> None:
    secret = "canary-4111"
    for arguments in (
        {"count": secret},
        {"size": secret},
        {"name": secret},
        {"either": {"price": secret}},
        {"day": secret},
    ):
        assert not any(secret in message for message in said(**arguments))


def test_the_same_schema_is_compiled_once() -> None:
    assert compile_schema({"type": "object", "title": "x"}) is compile_schema({"type": "object", "title": "x"})


def test_changing_a_schema_afterwards_changes_no_validator() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    before = compile_schema(schema)
    schema["properties"]["a"]["type"] = "integer"
    assert before.is_valid({"a": "x"})
    assert not compile_schema(schema).is_valid({"a": "x"})


def doubling(leaf: Any) -> dict[str, Any]:
    """2^14 ways to the same leaf."""
    steps = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(14)}
    return {"type": "object", "anyOf": [{"$ref": "#/$defs/a0"}], "$defs": {**steps, "a14": leaf}}


def deep(levels: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for _ in range(levels):
        arguments = {"x": arguments}
    return arguments


def one(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


BRANCHING = {"anyOf": [{"properties": {"x": {"$ref": "#/$defs/r"}}, "required": ["no"]}] * 2}
HOSTILE = {
    "doubling references": (doubling({"type": "string"}), {"x": ["y" * 10] * 2_000}),
    "doubling recursion": ({"type": "object", "$ref": "#/$defs/r", "$defs": {"r": BRANCHING}}, deep(30)),
    "a slow pattern on a long text": (one({"pattern": "^.*.*z"}), {"x": "a" * 30_000}),
    "a slow pattern on many texts": (one({"contains": {"pattern": ".*.*z"}}), {"x": ["a" * 200] * 150}),
    "many names and patterns": (
        {"type": "object", "patternProperties": {f"x{n}.*z": {} for n in range(1_000)}, "additionalProperties": False},
        {f"x{n}": 1 for n in range(3_000)},
    ),
}


@pytest.mark.row("T05")
@pytest.mark.parametrize(("schema", "arguments"), HOSTILE.values(), ids=HOSTILE.keys())
def test_what_would_take_too_long_is_refused(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    [problem] = compile_schema(schema).errors(arguments)
    assert "too large or too deep" in problem.message


def test_large_but_honest_arguments_pass() -> None:
    row = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    validator = compile_schema(one({"items": row}))
    assert validator.errors({"x": [{"a": number} for number in range(2_500)]}) == []


def test_a_used_up_allowance_does_not_touch_the_next_validation_or_another_thread() -> None:
    schema, arguments = HOSTILE["doubling recursion"]
    validator, seen = compile_schema(schema), []
    assert validator.errors(arguments)
    assert compile_schema(SCHEMA).errors({"count": 1}) == []
    other = threading.Thread(target=lambda: seen.append(compile_schema(SCHEMA).errors({"count": 1})))
    other.start()
    other.join()
    assert seen == [[]]


@pytest.mark.row("T05")
def test_deep_arguments_are_refused_rather_than_raise() -> None:
    validator = compile_schema({"type": "object", "properties": {"x": {"$ref": "#"}}})
    assert validator.is_valid(deep(30))
    [problem] = validator.errors(deep(400))
    assert problem.message
