"""Patterns that can't hang: which are accepted, and that their bound holds (security row 36)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allm_django.core.patterns import MAX_STEPS, USEFUL_LENGTH, bounded
from allm_django.errors import SchemaError

LINEAR = [
    r"^[a-z0-9]+(?:-[a-z0-9]+)*$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}$",
    r"^(ab|cd|ef)+$",
    r"^[\w.+-]+@[a-z]+$",
    r"^(?:[a-z]+,)+;$",
    r"^\S+$",
    r"^a{2,5}b",
]
POLYNOMIAL = [r"^.*foo.*$", r"[^x]+x", r"^[A-Z]{2,}[A-Z]*$", r"^a?a?a?$", r"foo", r"^[\w.-]+\.[\w]+$"]
REFUSED = [
    r"^(a+)+$",
    r"^(a|a)*$",
    r"(x+x+)+y",
    r"([a-z]+)*$",
    r"(a*)*",
    r"(^){100000}",
    r"(a{1,30}){1,30}",
    r"^([a-z]{2}[a-z]?)*$",
    r"(.*)(.*)(.*)(.*)(.*)(.*)x",
    "a?" * 30 + "a" * 30,
    r"(a)\1",
    r"(?=a)a",
    r"(?<!a)b",
    r"(?>a+)b",
    r"a*+b",
    r"(?i)abc",
    r"(?i:abc)",
    "x" * 1_001,
    "[",
]


@pytest.mark.parametrize("text", LINEAR)
def test_deterministic_patterns_are_linear(text: str) -> None:
    assert bounded(text).degree == 1


@pytest.mark.parametrize("text", POLYNOMIAL)
def test_ambiguous_patterns_are_accepted_while_their_bound_is_a_polynomial(text: str) -> None:
    assert bounded(text).cost(USEFUL_LENGTH) <= MAX_STEPS


def test_a_pattern_without_a_start_is_tried_from_each_place() -> None:
    assert bounded("[a-z]+-x").degree == bounded("^[a-z]+-x").degree + 1


@pytest.mark.row("T05")
@pytest.mark.parametrize("text", REFUSED)
def test_the_rest_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(SchemaError, match="pattern"):
        bounded(text)


@pytest.mark.row("T05")
@pytest.mark.parametrize("text", LINEAR)
def test_linear_patterns_stand_a_long_hostile_text(text: str) -> None:
    regex = bounded(text).regex
    for start in ("a", "A", "1", "-", "ab", "a-", "AA11 ", "a,"):
        assert regex.search(start * 8_000 + "!") is None or not text.endswith("$") or "S" in text


@pytest.mark.parametrize(
    ("text", "fits", "differs"),
    [
        ("^[a-z]+$", "abc", "abc\n"),
        (r"^\d+$", "12", "١٢"),
        ("^[$]$", "$", "x"),
        (r"^\$1$", "$1", "1"),
        ("^a$|^b$", "b", "b\n"),
        ("[]$]$", "]", "x"),
    ],
)
def test_the_dialect_is_that_of_json_schema(text: str, fits: str, differs: str) -> None:
    regex = bounded(text).regex
    assert regex.search(fits)
    assert not regex.search(differs)


ATOMS = st.sampled_from(["a", "b", "[ab]", ".", "[^a]", "ab", r"\d"])
REPEATS = st.sampled_from(["", "", "*", "+", "?", "{1,3}", "{2,}", "*?"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.lists(st.tuples(inner, REPEATS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"), min_size=1, max_size=3)
    return parts.map("".join) | st.lists(inner, min_size=2, max_size=3).map("|".join)


@pytest.mark.row("T05")
@settings(deadline=None)
@given(st.recursive(ATOMS, _grown, max_leaves=6), st.sampled_from(["a", "b", "ab", "ba", "1"]))
def test_whatever_is_accepted_ends_on_a_text_that_its_bound_lets_through(text: str, unit: str) -> None:
    """A wrong bound would make this test hang: the texts are as long as a validation would try."""
    try:
        pattern = bounded(f"^(?:{text})$")
    except SchemaError:
        return
    length = next(size for size in (4_000, 1_000, 250, 64) if pattern.cost(size) <= MAX_STEPS or size == 64)
    pattern.regex.search((unit * length)[:length] + "!")
