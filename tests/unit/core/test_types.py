"""Tools as plain values: what is needed, what is refused, and that all of it is JSON (T01–T03, T06)."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

import allm_django as allm
from allm_django.errors import ToolDefinitionError

ANY = {"type": "object"}


@pytest.mark.row("T01")
def test_name_description_and_schema_are_all_that_a_tool_needs() -> None:
    spec = allm.ToolSpec("look", "Looks.", ANY)
    assert (spec.handler, spec.manual, spec.metadata, spec.compact, spec.summary) == (None, False, {}, False, "")
    for missing in ({"description": "Looks.", "schema": ANY}, {"name": "look", "schema": ANY}, {"name": "look"}):
        with pytest.raises(TypeError):
            allm.ToolSpec(**missing)


@pytest.mark.row("T02")
@pytest.mark.parametrize("name", ["manual", "compact"])
@pytest.mark.parametrize("value", [None, 0, 1, "", "true", []])
def test_a_flag_that_is_no_boolean_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=f"^{name}: .*True or False") as caught:
        allm.ToolSpec("look", "Looks.", ANY, **{name: value})
    assert caught.value.field == name


@pytest.mark.row("T03")
@pytest.mark.parametrize("name", ["a", "A-z_09", "a" * 64])
def test_letters_digits_hyphens_and_underscores_make_a_name(name: str) -> None:
    assert allm.ToolSpec(name, "Looks.", ANY).name == name


@pytest.mark.row("T03")
@pytest.mark.parametrize("name", ["auto", "none", "required", "tool_help", "", "a b", "a\n", "é", "a" * 65, None, 5])
def test_no_other_name_and_no_reserved_one_is_accepted(name: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="name") as caught:
        allm.ToolSpec(name, "Looks.", ANY)
    assert caught.value.field == "name"


@pytest.mark.row("T06")
def test_every_value_but_the_handler_survives_a_json_round_trip() -> None:
    schema = {"type": "object", "properties": {"é": {"type": "number", "maximum": 1.5}}, "required": ["é"]}
    spec = allm.ToolSpec(
        "look", "Looks.", schema, manual=True, metadata={"a": [1, None, {"b": False}]}, compact=True,
        summary="Look.", timeout=2.5, idempotent=True, sensitive=("card",), title="Look it up",
    )  # fmt: skip
    values = {field.name: getattr(spec, field.name) for field in fields(spec) if field.name != "handler"}
    assert allm.ToolSpec(**json.loads(json.dumps(values))) == spec
