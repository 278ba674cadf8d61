"""Which schemas are accepted, and what a refusal says (T05, security row 36)."""

from __future__ import annotations

from typing import Any

import pytest

from allm_django.core.schema import compile_schema, lint
from allm_django.errors import SchemaError


def with_property(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, **more}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema}
    return with_property(schema)


REFUSED = {
    "not an object": (["x"], "schema", "list given"),
    "no type at the top": ({}, "schema/type", '"object"'),
    "another type at the top": ({"type": ["object"]}, "schema/type", '"object"'),
    "an unknown type": (with_property({"type": "strin"}), "schema/properties/a/type", "strin"),
    "properties as a list": ({"type": "object", "properties": []}, "schema/properties", "not valid JSON Schema"),
    "a negative length": (with_property({"minLength": -1}), "schema/properties/a/minLength", "minimum"),
    "a remote reference": (
        with_property({"$ref": "https://x.test/s"}),
        "schema/properties/a/$ref",
        "nothing is fetched",
    ),
    "a file": (with_property({"$ref": "file:///etc/passwd"}), "schema/properties/a/$ref", "nothing is fetched"),
    "a relative reference": (with_property({"$ref": "other.json#/x"}), "schema/properties/a/$ref", "leaves the schema"),
    "a dangling reference": (with_property({"$ref": "#/$defs/no"}), "schema/properties/a/$ref", "points at no schema"),
    "a reference to no schema": (
        with_property({"enum": [{"type": "string"}]}, **{"$defs": {"b": {"$ref": "#/properties/a/enum/0"}}}),
        "schema/$defs/b/$ref",
        "points at no schema",
    ),
    "$id": (with_property({"$id": "https://x.test/s"}), "schema/properties/a/$id", "not accepted"),
    "$dynamicRef": (with_property({"$dynamicRef": "#x"}), "schema/properties/a/$dynamicRef", "not accepted"),
    "$anchor": (with_property({"$anchor": "x"}), "schema/properties/a/$anchor", "not accepted"),
    "another dialect": (
        {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"},
        "schema/$schema",
        "left out",
    ),
    "a reference to itself": ({"type": "object", "$ref": "#"}, "schema", "never end"),
    "a circle of references": (
        with_property(
            {"$ref": "#/$defs/a"}, **{"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}
        ),
        "schema/$defs/",
        "never end",
    ),
    "a long chain of references": (
        with_property(
            {"$ref": "#/$defs/a0"},
            **{"$defs": {**{f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(40)}, "a40": {}}},
        ),
        "schema",
        "in a row",
    ),
    "too deep": (nested(40), "schema/properties/a/items", "deeper than 32"),
    "too many subschemas": (with_property({"anyOf": [True] * 2_100}), "schema", "2000 subschemas"),
    "too large": (with_property({"description": "x" * 70_000}), "schema", "65536 bytes"),
    "heavy constants": (with_property({"const": [[0]] * 300}), "schema", "under enum or const"),
    "a hanging pattern": (with_property({"pattern": "^(a+)+$"}), "schema/properties/a/pattern", "too long"),
    "a hanging name pattern": (
        {"type": "object", "patternProperties": {"^(a|a)*$": {}}},
        "schema/patternProperties/^(a|a)*$",
        "too long",
    ),
    "a broken pattern": (with_property({"pattern": "("}), "schema/properties/a/pattern", "not a regular expression"),
    "patterns beside unevaluated": (
        {"type": "object", "patternProperties": {"^x": {}}, "unevaluatedProperties": False},
        "schema/unevaluatedProperties",
        "beside patternProperties",
    ),
    "NaN": (with_property({"default": float("nan")}), "schema", "not JSON"),
    "a date": (with_property({"default": object()}), "schema/properties/a/default", "object is not JSON"),
    "a key that is no text": ({"type": "object", 1: 2}, "schema", "keys are text"),
}


@pytest.mark.row("T05")
@pytest.mark.parametrize(("schema", "place", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refusal_names_the_place_and_the_reason(schema: Any, place: str, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        lint(schema)
    assert caught.value.field.startswith(place)
    assert words in caught.value.message


@pytest.mark.row("T05")
@pytest.mark.parametrize(("schema", "place", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_can_not_be_compiled_either(schema: Any, place: str, words: str) -> None:
    if words == "keys are text":
        return  # as JSON text it has such keys
    with pytest.raises(SchemaError):
        compile_schema(schema)


def test_the_place_starts_with_the_callers_field() -> None:
    with pytest.raises(SchemaError) as caught:
        lint({"type": "object", "properties": {"a/b~": {"type": "no"}}}, field="tools.refund.schema")
    assert caught.value.field == "tools.refund.schema/properties/a~1b~0/type"


@pytest.mark.row("T05")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "x", "x-order": [1]},
        {"type": "object", "properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
        {
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}},
        },
        {"type": "object", "properties": {"self": {"$ref": "#"}}},
        {"type": "object", "definitions": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/definitions/a"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}},
        {"type": "object", "properties": {"a b": {}}, "additionalProperties": {"$ref": "#/properties/a%20b"}},
        {"type": "object", "enum": [{"$ref": "https://x.test"}]},
        {"type": "object", "properties": {"a": {"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"}, "b": True, "c": False}},
    ],
)
def test_ordinary_schemas_pass(schema: dict[str, Any]) -> None:
    lint(schema)
    assert compile_schema(schema).schema == schema


@pytest.mark.row("T05")
def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the network was used")

    monkeypatch.setattr("socket.socket.connect", no_network)
    monkeypatch.setattr("urllib.request.urlopen", no_network)
    with pytest.raises(SchemaError):
        compile_schema({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}})
