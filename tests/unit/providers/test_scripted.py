from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import aclosing
from typing import Any

import pytest

from allm_django.core.types import Message, ModelRequest, Usage
from allm_django.errors import InvalidInputError, ProviderError, StreamBrokenError
from allm_django.providers.assembly import Assembly
from allm_django.providers.base import CallDelta, Delta, Model, RawCall, TextDelta
from allm_django.providers.scripted import (
    ScriptedModel,
    call,
    cut,
    fail,
    find_scripted,
    hold,
    raw_call,
    say,
    think,
    usage,
)


def request(text: str = "hi") -> ModelRequest:
    return ModelRequest((Message("user", text),))


async def read(model: Model, asked: ModelRequest | None = None) -> Assembly:
    assembly = Assembly()
    async for delta in model.stream(asked or request()):
        assembly.add(delta)
    return assembly


def ask(model: Model, asked: ModelRequest | None = None) -> Assembly:
    return asyncio.run(read(model, asked))


@pytest.mark.row("L18")
def test_entries_answer_one_request_each_and_requests_are_kept() -> None:
    model = ScriptedModel([say("one"), "two"])
    first, second = request("a"), request("b")
    assert [ask(model, first).text, ask(model, second).text] == ["one", "two"]
    assert model.requests == [first, second]


def test_running_out_of_entries_says_so() -> None:
    model = ScriptedModel([say("one")], id="short")
    ask(model)
    with pytest.raises(ProviderError, match="'scripted:short' has no answer for request 2: its script has 1") as caught:
        ask(model)
    assert not caught.value.retryable


def test_a_looping_script_starts_over() -> None:
    model = ScriptedModel(["a", "b"], loop=True)
    assert [ask(model).text for _ in range(5)] == ["a", "b", "a", "b", "a"]


@pytest.mark.row("L18")
def test_a_list_is_one_answer_of_several_parts() -> None:
    model = ScriptedModel([[think("hm"), say("Look: "), call("look", {"q": "ü"}), call("save"), say("done")]])
    answer = ask(model)
    assert (answer.thinking, answer.text) == ("hm", "Look: done")
    assert answer.calls == (RawCall("call_1", "look", '{"q": "ü"}'), RawCall("call_2", "save", "{}"))
    assert answer.finished is not None
    assert answer.finished.finish_reason == "tool_calls"


@pytest.mark.row("L18")
def test_deltas_are_small_and_add_up_to_the_end() -> None:
    async def deltas() -> list[Delta]:
        model = ScriptedModel([[say("abcdefgh"), call("look", {"q": "x"})]], chunk_size=3)
        return [delta async for delta in model.stream(request())]

    pieces = asyncio.run(deltas())
    assert [d.text for d in pieces if isinstance(d, TextDelta)] == ["abc", "def", "gh"]
    assert [d.arguments for d in pieces if isinstance(d, CallDelta)] == ["", '{"q', '": ', '"x"', "}"]
    partial = Assembly(pieces[:-1])
    whole = Assembly(pieces)
    assert (partial.text, partial.calls) == (whole.text, whole.calls)


def test_calls_are_numbered_over_all_answers_of_a_model() -> None:
    model = ScriptedModel([call("a"), [call("b"), call("c")]])
    ids = [c.id for answer in (ask(model), ask(model)) for c in answer.calls]
    assert ids == ["call_1", "call_2", "call_3"]


@pytest.mark.row("L18")
def test_ids_and_arguments_may_be_as_bad_as_a_servers() -> None:
    model = ScriptedModel([[call("a", id=""), call("b", id="x"), raw_call("c", '{"q": ', id="x"), raw_call("d", "")]])
    assert ask(model).calls == (
        RawCall("", "a", "{}"),
        RawCall("x", "b", "{}"),
        RawCall("x", "c", '{"q": '),
        RawCall("call_1", "d", ""),
    )


def test_a_function_answers_what_it_was_asked() -> None:
    model = ScriptedModel([lambda asked: [say(asked.messages[-1].content.upper()), call("look")]])
    answer = ask(model, request("hi"))
    assert answer.text == "HI"
    assert len(answer.calls) == 1


@pytest.mark.row("L18")
@pytest.mark.parametrize(
    ("status", "retryable"), [(429, True), (500, True), (503, True), (408, True), (None, True), (400, False)]
)
def test_failures_say_whether_to_try_again(status: int | None, retryable: bool) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(ScriptedModel([fail(status=status, retry_after=3, message="No.")]))
    error = caught.value
    assert (error.status, error.retryable, error.retry_after, error.message) == (status, retryable, 3, "No.")
    assert not isinstance(error, StreamBrokenError)


@pytest.mark.row("L18")
@pytest.mark.parametrize("entry", [cut("Hel"), fail(status=503, after="Hel"), [say("Hel"), fail(503)]])
def test_what_breaks_in_mid_stream_is_a_broken_stream_after_its_text(entry: Any) -> None:
    model, assembly = ScriptedModel([entry]), Assembly()

    async def interrupted() -> None:
        async for delta in model.stream(request()):
            assembly.add(delta)

    with pytest.raises(StreamBrokenError) as caught:
        asyncio.run(interrupted())
    assert not caught.value.retryable
    assert (assembly.text, assembly.finished) == ("Hel", None)


@pytest.mark.row("L09", "L18")
def test_usage_is_unknown_unless_told() -> None:
    def used(model: ScriptedModel) -> Usage:
        finished = ask(model).finished
        assert finished is not None
        return finished.usage

    assert used(ScriptedModel(["a"])) == Usage()
    assert used(ScriptedModel(["a"], usage=Usage(1, 2))) == Usage(1, 2)
    assert used(ScriptedModel([["a", usage(input_tokens=5, cost=0.5)]], usage=Usage(1, 2))) == Usage(5, cost=0.5)


@pytest.mark.parametrize("entry", ["", [], say("")])
def test_a_blank_answer_still_ends(entry: Any) -> None:
    answer = ask(ScriptedModel([entry]))
    assert answer.finished is not None
    assert (answer.text, answer.calls, answer.finished.finish_reason) == ("", (), "stop")


def test_what_is_no_part_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="int given"):
        ask(ScriptedModel([7]))  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="chunk_size"):
        ScriptedModel([], chunk_size=0)


def test_models_are_found_by_id_while_they_live() -> None:
    named, other = ScriptedModel([], id="mine"), ScriptedModel([])
    assert named.id == "scripted:mine"
    assert ScriptedModel([], id="scripted:theirs").id == "scripted:theirs"
    assert find_scripted(named.id) is named
    assert find_scripted(other.id) is other
    assert named.id != other.id
    del named
    gc.collect()
    assert find_scripted("scripted:mine") is None


def test_many_threads_get_one_entry_each() -> None:
    model = ScriptedModel([str(n) for n in range(40)])
    texts: list[str] = []

    def work() -> None:
        texts.extend(ask(model).text for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts, key=int) == [str(n) for n in range(40)]


def test_a_held_stream_can_be_left_and_goes_on_when_let() -> None:
    async def run() -> str:
        gate = asyncio.Event()
        model = ScriptedModel([[say("Hel"), hold(gate), say("lo")]], loop=True)
        async with aclosing(model.stream(request())) as left:
            assert await anext(left) == TextDelta("Hel")
        async with aclosing(model.stream(request())) as stream:
            text = Assembly([await anext(stream)])
            gate.set()
            async for delta in stream:
                text.add(delta)
        return text.text

    assert asyncio.run(run()) == "Hello"


def test_another_thread_lets_a_held_stream_go_on() -> None:
    gate = threading.Event()
    model = ScriptedModel([[say("Hel"), hold(gate), say("lo")]])
    thread = threading.Thread(target=gate.set)
    thread.start()
    assert ask(model).text == "Hello"
    thread.join()


def test_a_stream_without_delay_lets_others_run() -> None:
    async def run() -> bool:
        model = ScriptedModel(["x" * 10_000], chunk_size=1)
        reading = asyncio.create_task(read(model))
        turns = 0
        while not reading.done():
            turns += 1
            await asyncio.sleep(0)
        return turns > 10

    assert asyncio.run(run())


@pytest.mark.row("L18")
def test_a_delay_comes_before_each_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", nap)
    ask(ScriptedModel(["abc"], delay=0.5, chunk_size=1))
    assert naps.count(0.5) == 3
