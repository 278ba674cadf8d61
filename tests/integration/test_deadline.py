"""The end of a stored run's time in mid-turn: nothing is guessed about, and people's decisions stand (L10, T17)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from allm_django import sessions
from allm_django.providers.scripted import hold
from allm_django.store import clock
from allm_django.testing import call, say
from tests.deadlines import LIMITS, time_runs_out
from tests.integration.desk import Desk

pytestmark = [pytest.mark.django_db, pytest.mark.row("L10")]


async def forever(arguments: Any) -> None:
    await asyncio.Event().wait()


def halted(desk: Desk) -> tuple[str, Any, str]:
    return desk.reason, desk.last_run.halted_metadata.get("limit"), desk.last_run.state


@pytest.mark.parametrize("frozen", [False, True], ids=["clock_goes_on", "clock_stands_still"])
def test_an_answer_that_outlives_the_time_is_kept_and_marked_and_can_be_gone_on_from(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    time_runs_out(monkeypatch, "begin_step:after")
    if frozen:
        moment = clock.now()
        monkeypatch.setattr(clock, "now", lambda: moment)
    desk.run(["Half an ", hold(asyncio.Event())], say("A whole one."), limits=LIMITS)
    message = desk.session.messages.get(role="assistant")
    assert (message.text, message.complete, message.streaming) == ("Half an ", False, False)
    assert "time" in message.broken
    assert (halted(desk), desk.session.status) == (("limit", "max_seconds", "ended"), "completed")
    monkeypatch.undo()
    sessions.resume(desk.session)
    desk.drive()
    assert desk.reason == "completed"


@pytest.mark.row("T17")
def test_a_handler_with_effects_that_outlives_the_time_is_unknown_and_its_settling_ends_in_the_limit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_runs_out(monkeypatch, "start_call:after")
    desk.tool(forever)
    desk.run(call("work"), say("never"), limits=LIMITS)
    assert (halted(desk), desk.call().state) == (("unknown_outcome", None, "waiting"), "unknown")
    sessions.answer(desk.call(), by=None, value="I looked: it worked.")
    monkeypatch.undo()
    desk.drive()
    assert (halted(desk), len(desk.model.requests)) == (("limit", "max_seconds", "ended"), 1)


@pytest.mark.row("T17")
def test_an_idempotent_handler_that_outlives_the_time_is_a_tool_error(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_runs_out(monkeypatch, "start_call:after")
    desk.tool(forever, idempotent=True)
    desk.run(call("work"), say("never"), limits=LIMITS)
    assert (halted(desk), desk.call().outcome) == (("limit", "max_seconds", "ended"), "failed")
    assert (desk.call().error or {})["code"] == "timeout"


@pytest.mark.row("T17")
def test_a_handler_that_was_not_started_in_time_is_known_not_to_have_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_runs_out(monkeypatch, "start_call:before", left=0)
    desk.noted()
    desk.run(call("work"), say("never"), limits=LIMITS)
    assert (halted(desk), desk.call().outcome, desk.ran) == (("limit", "max_seconds", "ended"), "failed", [])
    assert "It was not run." in desk.call().content


def test_a_call_that_a_person_let_through_has_its_whole_time_and_others_are_not_started(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, late = clock.now, timedelta()
    monkeypatch.setattr(clock, "now", lambda: real() + late)

    def slow(arguments: Any) -> list[Any]:
        nonlocal late
        late += timedelta(seconds=10)
        return [arguments]

    desk.noted(result=slow)
    desk.noted(name="refund", manual=True)
    desk.run([call("work"), call("refund")], [call("work")], say("never"), limits={"max_seconds": 10})
    assert desk.reason == "manual_tool_calls"
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    assert (halted(desk), len(desk.ran)) == (("limit", "max_seconds", "ended"), 2)


def test_ready_calls_are_closed_when_the_time_is_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real, late = clock.now, timedelta()
    monkeypatch.setattr(clock, "now", lambda: real() + late)

    def answer(_request: Any) -> Any:
        nonlocal late
        late += timedelta(seconds=10)
        return [call("work"), call("refund")]

    desk.noted()
    desk.noted(name="refund", manual=True)
    desk.run(answer, say("never"), limits={"max_seconds": 5})
    assert (desk.reason, len(desk.open())) == ("manual_tool_calls", 1)
    sessions.reject(desk.open()[0], by=None)
    desk.drive()
    assert (halted(desk), desk.ran) == (("limit", "max_seconds", "ended"), [])
    assert [row.outcome for row in desk.calls()] == ["unavailable", "rejected"]
    assert "not run" in desk.calls()[0].content
