"""Our words of JSON Schema say what jsonschema's own say: compared on random schemas and arguments (T05)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from allm_django.core.schema import compile_schema
from allm_django.errors import SchemaError

LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        True,
        False,
        {"type": "integer"},
        {"type": ["number", "null"]},
        {"type": "string", "minLength": 1},
        {"enum": [1, "a", True, [1]]},
        {"const": {"a": 1}},
        {"maxItems": 1, "uniqueItems": True},
        {"minProperties": 1, "required": ["a"]},
        {"exclusiveMaximum": 3, "multipleOf": 2},
        {"pattern": "^a"},
        {"dependentRequired": {"a": ["b"]}},
        {"$ref": "#/$defs/x"},
    ]
)
LISTED = ["allOf", "anyOf", "oneOf", "prefixItems"]
SINGLE = [
    "not",
    "items",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
]


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    patterned = st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1)
    return (
        st.builds(lambda word, parts: {word: parts}, st.sampled_from(LISTED), st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda word, part: {word: part}, st.sampled_from(SINGLE), inner)
        | st.fixed_dictionaries({"if": inner, "then": inner, "else": inner})
        | st.fixed_dictionaries({"properties": named, "additionalProperties": inner, "patternProperties": patterned})
        | st.fixed_dictionaries({"prefixItems": st.lists(inner, min_size=1, max_size=2), "items": inner})
        | st.fixed_dictionaries({"dependentSchemas": named})
    )


SCHEMAS = st.recursive(LEAVES, _grown, max_leaves=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 5) | st.sampled_from([1.0, 2.5, "", "a", "ba"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.row("T05", "T21")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS, LEAVES, st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_arguments_fit_exactly_when_jsonschema_says_so(part: Any, shared: Any, arguments: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": part, "b": part}, "$defs": {"x": shared}}
    try:
        ours = compile_schema(schema)
    except SchemaError:
        return  # a reference to itself
    assert ours.is_valid(arguments) == Draft202012Validator(schema).is_valid(arguments)
