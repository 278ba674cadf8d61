"""Results to JSON and text, caps, masks, hidden characters (T11, T15, T24, T26, security row 20)."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, field_serializer

from allm_django.core.encode import MASK, mask, model_copy, to_json, to_text, visible
from allm_django.errors import EncodingError


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Line:
    price: Decimal
    when: date | None = None


class Order(BaseModel):
    lines: list[Line]
    wait: timedelta


class Broken(BaseModel):
    a: int

    @field_serializer("a")
    def _fails(self, value: int) -> int:
        raise ValueError("secret")


Pair = namedtuple("Pair", "x y")


@pytest.mark.row("T11")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (Decimal("1.10"), "1.10"),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05+00:00"),
        (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),
        (date(2024, 1, 2), "2024-01-02"),
        (time(3, 4), "03:04:00"),
        (timedelta(days=1, hours=2, microseconds=5), "P1DT2H0M0.000005S"),
        (timedelta(seconds=-90), "-P0DT0H1M30S"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Line(Decimal("2.5")), {"price": "2.5", "when": None}),
        (Order(lines=[Line(Decimal(1))], wait=timedelta(1)), {"lines": [{"price": "1", "when": None}], "wait": "P1D"}),
        (gettext_lazy("Save"), "Save"),
        (lazystr("x"), "x"),
        (mark_safe("<b>"), "<b>"),
        ((1, Pair(2, 3)), [1, [2, 3]]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": range(2)}), {"a": [0, 1]}),
        (
            {1: "a", UUID(int=1): "b", Colour.RED: "c", None: "d"},
            {"1": "a", str(UUID(int=1)): "b", "red": "c", "null": "d"},
        ),
        ("a\x00b\ud800", "a\ufffdb\ufffd"),
    ],
)
def test_what_handlers_return_becomes_json(value: Any, expected: Any) -> None:
    encoded = to_json(value)
    assert encoded == expected
    assert json.loads(json.dumps(encoded)) == encoded
    assert type(encoded) in (type(None), bool, int, float, str, list, dict)


def itself() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100):
        value = [value]
    return value


class Hostile(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("secret")


@pytest.mark.row("T15")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: {"a": [b"x"]}, "at ['a'][0] is bytes"),
        (lambda: float("nan"), "is nan"),
        (lambda: [Decimal("Infinity")], "is Infinity"),
        (lambda: (n for n in range(3)), "generator"),
        (lambda: object(), "object"),
        (lambda: Line, "type"),
        (lambda: {(1, 2): 3}, "has a key that is tuple"),
        (lambda: {1: "a", "1": "b"}, "occurs twice"),
        (itself, "contains itself"),
        (deep, "deeper than 64"),
        (lambda: range(10**9), "more than 200000 values"),
        (lambda: 1 << 5_000, "too large"),
        (lambda: Broken(a=1), "Broken that can't be dumped"),
        (lambda: Hostile(a=1), "could not be read (RuntimeError)"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(EncodingError) as caught:
        to_json(make())
    assert words in caught.value.message
    assert "secret" not in caught.value.message


def test_a_value_used_twice_is_not_a_circle() -> None:
    shared = {"a": 1}
    assert to_json([shared, shared]) == [{"a": 1}, {"a": 1}]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON_VALUES)
def test_json_is_left_as_it_is(value: Any) -> None:
    plain = json.loads(json.dumps(value).replace("\\u0000", ""))
    assert to_json(plain) == plain


@pytest.mark.row("T11")
def test_text_is_verbatim_and_all_else_compact_json() -> None:
    assert to_text('{"a":  1}') == '{"a":  1}'
    assert to_text({"é": [1, None]}) == '{"é":[1,null]}'


@pytest.mark.row("T24")
@settings(deadline=None)
@given(st.text(max_size=300), st.integers(60, 200))
def test_a_models_copy_never_exceeds_its_cap_and_counts_what_is_missing(text: str, cap: int) -> None:
    copy = model_copy(text, cap)
    assert len(copy) <= max(cap, 60)
    if len(text) <= cap:
        assert copy == text
    else:
        kept, marker = copy.split("\n… [cut: ")
        assert text.startswith(kept)
        assert marker == f"{len(text) - len(kept)} of {len(text)} characters left out]"


@pytest.mark.row("T24")
def test_the_cut_never_falls_inside_a_surrogate_pair() -> None:
    copies = [model_copy("\ud83d\ude00" * 100, cap) for cap in (70, 71)]
    assert all(copy.split("\n")[0].endswith("\ude00") for copy in copies)


@pytest.mark.row("T26")
def test_sensitive_fields_are_masked_by_name_and_by_path() -> None:
    arguments = {"Card": {"number": 1}, "deep": [{"CARD": 1}], "items": [{"pin": 1, "n": 2}], "pin": 3, "note": None}
    shown = mask(arguments, ["card", "items.pin"])
    assert shown == {"Card": MASK, "deep": [{"CARD": MASK}], "items": [{"pin": MASK, "n": 2}], "pin": 3, "note": None}
    assert arguments["Card"] == {"number": 1}


@pytest.mark.row("T26")
def test_text_that_could_not_be_parsed_is_masked_whole() -> None:
    assert mask('{"card": 4111', ["card"]) == MASK
    assert mask('{"card": 4111', []) == '{"card": 4111'
    assert mask(None, ["card"]) is None


@pytest.mark.row("T26")
@settings(deadline=None)
@given(JSON_VALUES)
def test_nothing_sensitive_survives_at_any_depth(value: Any) -> None:
    shown = json.dumps(mask({"a": value, "deep": [{"x": {"secret": "canary-7"}}]}, ["secret"]))
    assert "canary-7" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("größer 中文 😀\u00a0", "größer 中文 😀\u00a0"),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("a\u200bb\u2066", "a⟦U+200B⟧b⟦U+2066⟧"),
        ("\x00\x1b\r\x7f", "⟦U+0000⟧⟦U+001B⟧⟦U+000D⟧⟦U+007F⟧"),
        ("\u3164\u2800\u115f", "⟦U+3164⟧⟦U+2800⟧⟦U+115F⟧"),
        ("x\U000e0041\ufe0f", "x⟦U+E0041⟧⟦U+FE0F⟧"),
        ("\u2028\ud800", "⟦U+2028⟧⟦U+D800⟧"),
        ("⟦U+202E⟧", "⟦U+27E6⟧U+202E⟧"),
    ],
)
def test_hidden_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@settings(deadline=None)
@given(st.text(), st.text())
def test_different_texts_are_never_shown_alike(one: str, two: str) -> None:
    assert (visible(one) == visible(two)) == (one == two)
