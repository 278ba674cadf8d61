"""When the model fails, falls silent or is left (L12, L14, L15)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import allm_django as allm
from allm_django.core.types import ModelRequest
from allm_django.errors import ProviderError
from allm_django.providers.base import CallDelta, Delta, Finished, TextDelta
from allm_django.providers.scripted import ScriptedModel, call, cut, fail, hold, say
from tests.unit.loop.twins import ANY, Loop, asking


def engine(*entries: Any, **values: Any) -> allm.EngineSpec:
    return allm.EngineSpec(ScriptedModel(entries), **values)


@pytest.mark.row("L14")
@pytest.mark.parametrize("status", [429, 408, 500, 503, None])
def test_a_failure_that_may_pass_is_tried_again_before_the_first_delta(loop: Loop, status: int | None) -> None:
    given = engine(fail(status, retry_after=0), fail(status, retry_after=0), say("Here."))
    assert loop(given, asking()).text == "Here."
    assert len(given.model.requests) == 3


@pytest.mark.row("L05", "L14")
def test_a_failure_that_does_not_pass_ends_in_error_and_says_so(loop: Loop) -> None:
    given = engine(*[fail(503, retry_after=0, message="Too busy.")] * 5)
    result = loop(given, asking())
    assert (result.halted_reason, len(given.model.requests)) == ("error", 3)
    assert result.metadata["error"] == {"code": "provider", "message": "Too busy."}


@pytest.mark.row("L14")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_other_refusals_are_never_tried_again(loop: Loop, status: int) -> None:
    given = engine(fail(status, retry_after=0), say("never"))
    assert loop(given, asking()).halted_reason == "error"
    assert len(given.model.requests) == 1


@pytest.mark.row("L14")
def test_a_retry_after_above_the_cap_is_not_waited_for(loop: Loop) -> None:
    given = engine(fail(429, retry_after=3600), say("never"))
    assert loop(given, asking()).halted_reason == "error"
    assert len(given.model.requests) == 1


def test_the_turns_before_an_error_are_kept(loop: Loop) -> None:
    tools = [allm.ToolSpec("look", "Looks.", ANY, lambda arguments: "seen")]
    result = loop(engine([say("Hm."), call("look")], fail(400), tools=tools), asking())
    assert [(message.role, message.content) for message in result.messages] == [
        ("user", "Go."),
        ("assistant", "Hm."),
        ("tool", "seen"),
    ]
    assert (result.halted_reason, len(result.steps)) == ("error", 1)


@pytest.mark.row("L14")
@pytest.mark.parametrize("broken", [cut("Half an ans"), fail(503, after="Half an ans")])
def test_a_stream_that_breaks_is_not_tried_again_and_its_text_is_kept_and_marked(loop: Loop, broken: Any) -> None:
    given = engine(broken, say("never"))
    result = loop(given, asking())
    assert (result.halted_reason, result.metadata["error"]["code"]) == ("error", "stream_broken")
    assert [(message.content, message.complete) for message in result.messages[1:]] == [("Half an ans", False)]
    assert (result.text, len(given.model.requests)) == ("", 1)


class Odd:
    """A model that ends as told."""

    id = "odd:1"

    def __init__(self, *deltas: Delta, error: Exception | None = None) -> None:
        self.deltas, self.error, self.asked = deltas, error, 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.asked += 1
        for delta in self.deltas:
            yield delta
        if self.error is not None:
            raise self.error


def never(arguments: Any) -> Any:
    raise AssertionError("a call of an incomplete message ran")


@pytest.mark.row("L14")
@pytest.mark.parametrize("error", [None, ConnectionError("reset"), RuntimeError("bug")])
def test_no_call_of_an_incomplete_answer_runs(loop: Loop, error: Exception | None) -> None:
    model = Odd(TextDelta("Let me"), CallDelta(0, "c1", "work", "{}"), error=error)
    given = allm.EngineSpec(model, [allm.ToolSpec("work", "Works.", ANY, never)])
    result = loop(given, asking())
    assert result.halted_reason == "error"
    assert [(message.role, message.content, message.calls) for message in result.messages[1:]] == [
        ("assistant", "Let me", ())
    ]


def test_even_a_failure_that_may_pass_is_not_tried_again_once_something_came(loop: Loop) -> None:
    error = ProviderError("Too busy.", status=503, retryable=True, retry_after=0)
    model = Odd(TextDelta("Half an ans"), error=error)
    result = loop(allm.EngineSpec(model), asking())
    assert (result.halted_reason, model.asked) == ("error", 1)
    assert [message.content for message in result.messages] == ["Go.", "Half an ans"]


def test_a_models_own_bug_is_an_error_without_its_words(loop: Loop) -> None:
    result = loop(allm.EngineSpec(Odd(error=RuntimeError("key sk-123"))), asking())
    assert result.halted_reason == "error"
    assert "sk-123" not in repr(result)


def test_a_model_that_goes_on_after_its_end_is_an_error(loop: Loop) -> None:
    assert loop(allm.EngineSpec(Odd(Finished("x"), TextDelta("y"))), asking()).halted_reason == "error"


@pytest.mark.row("L12")
def test_empty_answers_are_asked_again_with_a_nudge_which_is_not_kept(loop: Loop) -> None:
    given = engine("", " \n", say("At last."))
    result = loop(given, asking())
    assert result.text == "At last."
    assert [request.messages[-1].role for request in given.model.requests] == ["user", "user", "user"]
    assert [len(request.messages) for request in given.model.requests] == [1, 2, 2]
    assert [message.content for message in result.messages if message.role == "user"] == ["Go."]


@pytest.mark.row("L12")
@pytest.mark.parametrize("blank", ["", " \n"])
def test_endless_empty_answers_end_in_a_clear_error(loop: Loop, blank: str) -> None:
    given = engine(*[blank] * 9)
    result = loop(given, asking())
    assert (result.halted_reason, result.metadata["error"]["code"]) == ("error", "blank_answers")
    assert len(given.model.requests) == 3


# -- closing the stream (L15) ---------------------------------------------------------------------------------------


class Watched:
    """A model that never ends, and knows when it was left."""

    id = "watched:1"

    def __init__(self) -> None:
        self.reached, self.left = asyncio.Event(), threading.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        try:
            yield TextDelta("One moment")
            self.reached.set()
            await asyncio.Event().wait()
        finally:
            self.left.set()


@pytest.mark.row("L15")
@pytest.mark.asyncio
async def test_closing_an_async_stream_stops_the_model() -> None:
    model = Watched()
    stream = allm.astream(allm.EngineSpec(model), asking())
    async for event in stream:
        if type(event).__name__ == "TextStreamed":
            break
    assert not model.left.is_set()
    await stream.aclose()
    assert model.left.is_set()


def test_closing_a_sync_stream_stops_the_model() -> None:
    model = Watched()
    stream = allm.stream(allm.EngineSpec(model), asking())
    assert next(event for event in stream if type(event).__name__ == "TextStreamed")
    stream.close()  # type: ignore[attr-defined]
    assert model.left.is_set()


@pytest.mark.asyncio
async def test_cancelling_the_task_stops_the_model_and_raises_nothing_else() -> None:
    model = Watched()
    task = asyncio.ensure_future(allm.achat(allm.EngineSpec(model), asking()))
    await model.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.left.is_set()


@pytest.mark.row("L15")
@pytest.mark.asyncio
async def test_closing_the_stream_starts_no_further_call_and_cancels_the_running_one() -> None:
    started: list[int] = []
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work(arguments: dict[str, Any]) -> None:
        started.append(arguments["n"])
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tools = [allm.ToolSpec("work", "Works.", ANY, work)]
    given = engine([call("work", {"n": n}) for n in (1, 2, 3)], say("never"), tools=tools)
    stream = allm.astream(given, asking(), max_parallel=1)
    async for event in stream:
        if type(event).__name__ == "CallStarted":
            break
    await begun.wait()
    await stream.aclose()
    await ended.wait()
    assert (started, len(given.model.requests)) == ([1], 1)


@pytest.mark.asyncio
async def test_a_reader_that_stops_reading_does_not_leave_tasks_behind() -> None:
    before = asyncio.all_tasks()
    gate = asyncio.Event()
    stream = allm.astream(engine([say("Wait"), hold(gate), say("never")]), asking())
    await anext(stream)
    await stream.aclose()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
