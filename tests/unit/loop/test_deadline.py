"""The end of a run's time in mid-turn: what is under way ends then, and nothing is guessed about (L10, T17)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import allm_django as allm
from allm_django.core.decide import CallView, DropCalls, ExecuteCalls, FormatAnswer, HaltRun, Snapshot, next_action
from allm_django.core.output import Output
from allm_django.core.states import CallState
from allm_django.core.types import Limits
from allm_django.loop.deadline import Deadline
from allm_django.providers.scripted import hold
from allm_django.testing import ScriptedModel, call, fail, say
from tests.deadlines import LIMITS, time_runs_out
from tests.unit.loop.twins import ANY, Loop, asking, tool_messages

pytestmark = pytest.mark.row("L10")


async def forever(arguments: Any) -> None:
    await asyncio.Event().wait()


def engine(*entries: Any, idempotent: bool = False, tool: Any = forever, **values: Any) -> allm.EngineSpec:
    tools = [allm.ToolSpec("work", "Works.", ANY, tool, idempotent=idempotent)]
    return allm.EngineSpec(ScriptedModel(entries), tools, limits=LIMITS, **values)


def limit(result: allm.ChatResult) -> tuple[Any, ...]:
    return result.halted_reason, result.metadata.get("limit")


@pytest.mark.parametrize("silent", [True, False])
def test_an_answer_that_outlives_the_time_is_broken_off(
    loop: Loop, silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_runs_out(monkeypatch, "begin_step:after")
    never = hold(asyncio.Event())
    given = engine([never] if silent else ["Half an ", never], say("never"))
    result = loop(given, asking())
    assert limit(result) == ("limit", "max_seconds")
    assert "Go on" in result.metadata["text"]
    assert [(m.content, m.complete) for m in result.messages[1:]] == ([] if silent else [("Half an ", False)])
    assert len(given.model.requests) == 1


def test_a_pause_before_another_attempt_ends_with_the_time(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    time_runs_out(monkeypatch, "begin_step:after")
    assert limit(loop(engine(fail(503, retry_after=20), say("never")), asking())) == ("limit", "max_seconds")


@pytest.mark.row("T17")
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_handler_that_outlives_the_time_is_a_timeout_that_tells_what_is_known(
    loop: Loop, idempotent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_runs_out(monkeypatch, "start_call:after")
    given = engine(call("work"), say("never"), idempotent=idempotent)
    result = loop(given, asking())
    assert limit(result) == ("limit", "max_seconds")
    told = tool_messages(result)[0]
    assert '"error":"timeout"' in told
    assert "time for this message was used up" in told
    assert ("may have taken effect" in told) is not idempotent
    assert len(given.model.requests) == 1


def test_a_call_that_has_not_started_by_then_is_not_run(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    time_runs_out(monkeypatch, "start_call:after")
    ran: list[Any] = []

    async def work(arguments: Any) -> None:
        ran.append(arguments)
        await asyncio.Event().wait()

    given = engine([call("work", {"n": 1}), call("work", {"n": 2})], say("never"), tool=work, max_parallel=1)
    result = loop(given, asking())
    assert (limit(result), ran) == (("limit", "max_seconds"), [{"n": 1}])
    assert "It was not run." in tool_messages(result)[1]


def test_a_handler_is_not_started_if_the_time_ends_while_its_start_is_recorded(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_runs_out(monkeypatch, "start_call:before", left=0)
    ran: list[Any] = []
    result = loop(engine(call("work"), say("never"), tool=lambda arguments: ran.append(arguments)), asking())
    assert (limit(result), ran) == (("limit", "max_seconds"), [])
    assert '"error":"timeout"' in tool_messages(result)[0]
    assert "It was not run." in tool_messages(result)[0]


def test_a_formatted_answer_that_outlives_the_time_is_done_without(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    time_runs_out(monkeypatch, "begin_output:after")
    given = engine(say("Four."), [hold(threading.Event())], response_schema={"type": "object"})
    result = loop(given, asking())
    assert (limit(result), result.text, result.output) == (("limit", "max_seconds"), "Four.", None)


def test_when_the_time_is_up_only_what_a_person_let_through_still_starts() -> None:
    ready, let_through = CallView("a", CallState.READY), CallView("b", CallState.READY, let_through=True)
    over = Snapshot(Limits(max_seconds=5), (ready, let_through), seconds=5.0)
    assert next_action(over) == DropCalls(("a",))
    assert next_action(Snapshot(over.limits, (let_through,), seconds=9.0)) == ExecuteCalls(("b",))
    assert next_action(Snapshot(over.limits, (ready, let_through), seconds=4.9)) == ExecuteCalls(("a", "b"))


def test_when_the_time_is_up_an_answer_is_not_formatted_any_more() -> None:
    answered = Snapshot(Limits(max_seconds=5), answered=True, turns=1, seconds=4.0, output=Output({"type": "object"}))
    assert next_action(answered) == FormatAnswer()
    over = next_action(Snapshot(answered.limits, answered=True, turns=1, seconds=5.0, output=answered.output))
    assert isinstance(over, HaltRun)
    assert (over.reason, over.metadata["limit"], over.waiting) == ("limit", "max_seconds", False)


def test_what_is_left_follows_the_loops_clock_and_never_grows() -> None:
    async def lefts() -> list[Any]:
        deadline, found = Deadline(), []
        for seconds in (4.0, 1.0, 5.0):
            deadline.look(Snapshot(Limits(max_seconds=5), seconds=seconds))
            found.append((deadline.left, deadline.is_over, deadline.keeps("a")))
        return found

    (first, *_), (second, *_), last = asyncio.run(lefts())
    assert 0 < second <= first <= 1
    assert last == (0.0, True, True)
