"""Canonical text of JSON values: the same whichever database gave them back (H14)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allm_django.core.canonical import canonical

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1e16, 10_000_000_000_000_000),
        (1e300, 10**300),
        (1.0, 1),
        (-0.0, 0),
        (1.5, 1.50),
        ({"a": 1, "b": [1e2]}, {"b": [100], "a": 1.0}),
    ],
)
def test_a_number_has_one_spelling_and_names_have_one_order(one: object, other: object) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 10), (1, True), (0, False), (1, "1"), (1, "1e0"), (2**60, 2**60 + 1), ([1, 2], [12]), ([], {}), ("", None)],
)
def test_what_differs_reads_differently(one: object, other: object) -> None:
    assert canonical(one) != canonical(other)


@given(VALUES)
def test_a_way_through_json_text_changes_nothing(value: object) -> None:
    assert canonical(json.loads(json.dumps(value))) == canonical(value)
