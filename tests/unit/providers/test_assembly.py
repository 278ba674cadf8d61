from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allm_django.errors import ProviderError
from allm_django.providers.assembly import Assembly
from allm_django.providers.base import CallDelta, Delta, Finished, RawCall, TextDelta, ThinkingDelta


def test_text_and_thinking_grow_apart() -> None:
    assembly = Assembly([ThinkingDelta("hm"), TextDelta("Hel"), ThinkingDelta("m"), TextDelta("lo")])
    assert (assembly.text, assembly.thinking) == ("Hello", "hmm")
    assembly.add(TextDelta("!"))
    assert assembly.text == "Hello!"


def test_interleaved_calls_are_kept_apart_in_the_order_they_began() -> None:
    deltas = [
        CallDelta(4, "b", "second"),
        CallDelta(1, "a", "first", "{"),
        CallDelta(4, arguments='{"x":'),
        CallDelta(1, arguments="}"),
        CallDelta(4, arguments="1}"),
    ]
    assert Assembly(deltas).calls == (RawCall("b", "second", '{"x":1}'), RawCall("a", "first", "{}"))


def test_an_answer_is_partial_until_its_end() -> None:
    pieces: list[Delta] = [TextDelta("Hi"), CallDelta(0, "a", "look", '{"q"')]
    assert Assembly(pieces).finished is None
    end = Finished(text="Hi", calls=(RawCall("a", "look", '{"q": 1}'),))
    assembly = Assembly([*pieces, end])
    assert assembly.finished is end
    assert assembly.calls == end.calls


def test_the_end_has_the_last_word_on_text() -> None:
    assert Assembly([TextDelta(" Hi"), Finished(text="Hi")]).text == "Hi"
    assert Assembly([TextDelta("Hi"), Finished()]).text == "Hi"


def test_nothing_may_follow_the_end() -> None:
    assembly = Assembly([Finished(text="Hi")])
    with pytest.raises(ProviderError, match="after the end"):
        assembly.add(TextDelta("!"))


def test_what_is_no_delta_is_refused_by_its_kind() -> None:
    with pytest.raises(ProviderError, match="sent a str"):
        Assembly(["Hi"])  # type: ignore[list-item]


def test_a_very_long_answer_reads_the_same_at_every_peek() -> None:
    assembly = Assembly()
    for number in range(60_000):
        assembly.add(TextDelta("x"))
        assembly.add(CallDelta(0, arguments="y"))
        if number % 10_000 == 0:
            assert len(assembly.text) == number + 1
    assert (len(assembly.text), len(assembly.calls[0].arguments)) == (60_000, 60_000)


@given(st.lists(st.text()))
def test_text_is_the_sum_of_its_deltas(pieces: list[str]) -> None:
    assembly = Assembly(map(TextDelta, pieces))
    assert assembly.text == "".join(pieces)
