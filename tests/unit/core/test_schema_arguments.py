"""Reading arguments as models write them (T21)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allm_django.core.schema import parse_arguments


@pytest.mark.row("T21")
@pytest.mark.parametrize("raw", ["", "  \n", None, "null", "{}", {}])
def test_nothing_means_no_arguments(raw: Any) -> None:
    assert parse_arguments(raw) == ({}, "")


@pytest.mark.row("T21")
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("{", "break off"),
        ('{"a": 1', "break off"),
        ('{"a": "x', "break off"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1,}', "not valid JSON"),
        ("[1]", "are a list, but must be an object"),
        ('"{}"', "are text, but must be an object"),
        ("3", "are a number, but must be an object"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' occurs twice"),
        ('{"a":' * 40 + "1" + "}" * 40, "deeper than 32"),
        ("[" * 30_000, "deeper than 32"),
        ('{"a": "' + "x" * 33_000 + '"}', "larger than 32768 bytes"),
        ('{"a": "' + "é" * 17_000 + '"}', "larger than 32768 bytes"),
        (r'{"a": "\u0000"}', "can't be stored"),
        (r'{"a": ["\ud800"]}', "can't be stored"),
        (r'{"\u0000": 1}', "can't be stored"),
        ('{"a": ' + "9" * 5_000 + "}", "not JSON"),
        ({"a": float("nan")}, "not JSON"),
        ({"a": object()}, "not JSON"),
        ({1: 1, "1": 2}, "'1' occurs twice"),
    ],
)
def test_a_refusal_says_what_to_mend(raw: Any, words: str) -> None:
    arguments, message = parse_arguments(raw)
    assert arguments is None
    assert words in message
    assert message.endswith("Send the call again with one JSON object as its arguments.")


def test_arguments_that_came_as_an_object_are_copied() -> None:
    raw = {"a": [1, {"b": None}]}
    arguments, _ = parse_arguments(raw)
    assert arguments == raw
    assert arguments is not None
    assert arguments["a"] is not raw["a"]


def test_real_surrogate_pairs_are_ordinary_text() -> None:
    assert parse_arguments(r'{"a": "\ud83d\ude00"}') == ({"a": "😀"}, "")


@pytest.mark.row("T21")
@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_makes_it_raise(raw: str) -> None:
    arguments, message = parse_arguments(raw)
    assert (arguments is None) == bool(message)
