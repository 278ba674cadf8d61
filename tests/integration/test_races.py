"""People and workers that act at the same moment: one wins, the others are told, nothing is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from allm_django import sessions
from allm_django.core.states import CallState, HaltedReason, RunState
from allm_django.errors import AlreadyApprovedError, AlreadyDecidedError, StateError, VersionMismatchError
from allm_django.loop import points
from allm_django.models import Grant, Tool, ToolCall
from allm_django.providers.scripted import ScriptedModel, call, hold, say
from allm_django.runtime.runner import Runner
from allm_django.store import clock, expiry
from allm_django.store.tools import save_tool
from tests.integration.cast import person
from tests.integration.driving import at_once, call_of, session_of, tool, until

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("running"), pytest.mark.row("H02")]

APPROVERS = 50
ROUNDS = int(os.environ.get("ALLM_ROUNDS", "4"))  # make storm: many more


@pytest.fixture
def done() -> Iterator[list[str]]:
    """What the tools ``pay`` (waits for a person) and ``look`` (does not) have done."""
    effects: list[str] = []

    def pay(label: str = "") -> str:
        """Pay."""
        effects.append(label)
        return "paid"

    def look() -> str:
        """Look."""
        return "seen"

    with tool(pay, manual=True), tool(look, idempotent=True):
        yield effects


def asks_to_pay(label: str = "once") -> ScriptedModel:
    """A model that wants to pay, then is done."""
    return ScriptedModel([call("pay", {"label": label}), say("Done.")])


def approvers(number: int) -> list[User]:
    """People who may decide."""
    return [person(f"approver-{place}", "decide_toolcall") for place in range(number)]


def test_one_of_fifty_approvers_wins_and_the_others_are_told_who(done: list[str]) -> None:
    people = approvers(APPROVERS)
    model = asks_to_pay()
    session = session_of(model)
    seen = call_of(session, CallState.PENDING)
    results = at_once([partial(sessions.approve, seen, by=who, version=seen.version) for who in people])
    won = [result for result in results if isinstance(result, ToolCall)]
    lost = [result for result in results if isinstance(result, (AlreadyDecidedError, VersionMismatchError))]
    assert (len(won), len(lost)) == (1, APPROVERS - 1), [r for r in results if r not in (*won, *lost)]
    assert {error.info["call"].decided_name for error in lost} == {won[0].decided_name}
    assert sessions.wait(session).status == "completed"
    assert done == ["once"]
    assert seen.decisions.count() == 1


def test_of_an_approval_and_a_cancel_each_leaves_a_whole_story(done: list[str]) -> None:
    for round_ in range(ROUNDS):
        session = session_of(asks_to_pay(str(round_)))
        seen = call_of(session, CallState.PENDING)
        sessions.wait(session)
        approved, cancelled = at_once([partial(sessions.approve, seen, by=None), partial(sessions.cancel, session)])
        after = sessions.wait(session)
        seen.refresh_from_db()
        assert seen.state == CallState.SETTLED
        assert (str(round_) in done) == (seen.outcome == "succeeded")
        assert not isinstance(approved, Exception) or isinstance(approved, AlreadyDecidedError)
        assert not isinstance(cancelled, Exception) or isinstance(cancelled, StateError)
        assert after.status == "completed"


def test_of_two_sessions_exactly_one_has_the_last_use_of_a_grant(done: list[str]) -> None:
    row = Tool.objects.get(name="pay")
    row.grants = True
    save_tool(row)
    (boss,), owner = approvers(1), person("owner", "chat")
    terms = {"scope": "user", "match": "any", "seconds": 3600, "uses": 1}
    for round_ in range(ROUNDS):
        given = session_of(asks_to_pay(f"given {round_}"), owner)
        sessions.approve(call_of(given, CallState.PENDING), by=boss, grant=terms)
        sessions.wait(given)
        both = at_once([partial(session_of, asks_to_pay(f"{round_} {place}"), owner) for place in range(2)])
        assert sorted(sessions.wait(session).status for session in both) == ["awaiting_tools", "completed"]
    assert set(Grant.objects.values_list("uses_left", "used")) == {(0, 1)}
    assert len(done) == 2 * ROUNDS


def test_of_an_approval_and_a_superseding_message_exactly_one_wins(done: list[str]) -> None:
    for round_ in range(ROUNDS):
        model = ScriptedModel([call("pay", {"label": str(round_)}), say("Done."), say("Done.")])
        session = session_of(model, typing="supersede")
        seen = call_of(session, CallState.PENDING)
        sessions.wait(session)
        approved, replied = at_once(
            [partial(sessions.approve, seen, by=None), partial(sessions.reply, session, "Do not.")]
        )
        assert sessions.wait(session).status == "completed"
        seen.refresh_from_db()
        if isinstance(approved, Exception):
            assert isinstance(approved, AlreadyDecidedError)
            assert (seen.outcome, str(round_) in done) == ("superseded", False)
        else:
            assert (seen.outcome, str(round_) in done) == ("succeeded", True)
            assert not isinstance(replied, Exception) or isinstance(replied, StateError)


def test_of_an_approval_and_the_end_of_its_time_exactly_one_wins(done: list[str], settings: Any) -> None:
    """By the sweeper's hand or the approver's own, at the moment the time is up (H02, H11)."""
    settings.ALLM = settings.ALLM | {"SWEEPER": False}
    Tool.objects.filter(name="pay").update(expiry=timedelta(minutes=10))
    for round_ in range(ROUNDS):
        session = session_of(asks_to_pay(str(round_)))
        seen = call_of(session, CallState.PENDING)
        sessions.wait(session)
        approver = person(f"late-{round_}", "decide_toolcall")
        in_time = round_ % 2 == 0

        def approve(seen: ToolCall = seen, by: User = approver) -> ToolCall:
            return sessions.approve(seen, by=by, version=seen.version)

        def sweep(seen: ToolCall = seen) -> None:
            expiry.fire(seen.session_id)

        with clock.stopped_at(seen.expires_at - timedelta(seconds=1 if in_time else 0)):
            approved, *_ = at_once([approve, sweep, sweep])
        assert sessions.wait(session).status == "completed"
        seen.refresh_from_db()
        if in_time:
            assert (seen.outcome, str(round_) in done) == ("succeeded", True)
        else:
            assert isinstance(approved, AlreadyDecidedError)
            assert approved.info["call"].outcome == seen.outcome == "expired"
            assert str(round_) not in done
        assert seen.session.events.filter(kind="CallExpired").count() == (0 if in_time else 1)


def test_a_call_nobody_decides_expires_by_the_sweeper_and_the_run_goes_on(done: list[str]) -> None:
    Tool.objects.filter(name="pay").update(expiry=timedelta(minutes=10))
    session = session_of(asks_to_pay())
    seen = call_of(session, CallState.PENDING)
    sessions.wait(session)
    with clock.stopped_at(seen.expires_at):
        until(lambda: session.calls.filter(outcome="expired").exists())
        assert sessions.wait(session).status == "completed"
    assert done == []


def test_one_person_in_many_browsers_is_one_approval_and_two_people_are_two(done: list[str]) -> None:
    """Security row 18: nobody's second click counts, however fast, and the last needed one runs it once."""
    Tool.objects.filter(name="pay").update(quorum=3)
    session = session_of(asks_to_pay())
    seen = call_of(session, CallState.PENDING)
    sessions.wait(session)
    people = approvers(3)
    clicks = [partial(sessions.approve, seen, by=who, version=seen.version) for who in people[:2] * 4]
    results = at_once(clicks)
    assert sum(isinstance(result, ToolCall) for result in results) == 2
    assert all(isinstance(result, (ToolCall, AlreadyApprovedError)) for result in results), results
    assert done == []
    last = at_once([partial(sessions.approve, seen, by=people[2], version=seen.version)] * 4)
    assert sum(isinstance(result, ToolCall) for result in last) == 1
    assert sessions.wait(session).status == "completed"
    assert (done, seen.approvals.count()) == (["once"], 3)


def test_two_workers_woken_for_one_run_drive_it_once(done: list[str]) -> None:
    others = [Runner(), Runner()]
    try:
        for _ in range(ROUNDS):
            model = ScriptedModel([call("look"), say("Done.")])
            session = session_of(model)
            at_once([partial(runner.wake, session.pk) for runner in others])
            assert sessions.wait(session).status == "completed"
            assert len(model.requests) == 2
            assert session.runs.get().claims == 1
    finally:
        for runner in others:
            runner.shutdown()


@pytest.mark.parametrize("moment", ["halt:before", "halt:after"])
def test_a_decision_at_the_moment_the_runner_lets_go_is_not_lost(done: list[str], moment: str) -> None:
    session = session_of(ScriptedModel([hold(begin := threading.Event()), call("pay", {"label": "x"}), say("Done.")]))
    approved = threading.Event()

    def approve() -> None:
        sessions.approve(call_of(session, CallState.PENDING), by=None)

    def hook(name: str) -> None:
        if name == moment and not approved.is_set():
            at_once([approve])
            approved.set()

    points.hook = hook
    begin.set()
    until(approved.is_set)
    assert sessions.wait(session).status == "completed"
    assert done == ["x"]


def test_decisions_made_while_the_runner_lets_go_are_never_lost(done: list[str], settings: Any) -> None:
    settings.ALLM = {"SWEEPER": False, "POLL_SECONDS": 60}
    for round_ in range(ROUNDS * 3):
        session = session_of(asks_to_pay(str(round_)))
        at_once([lambda session=session: sessions.approve(call_of(session, CallState.PENDING), by=None)])
        assert sessions.wait(session).status == "completed"
    assert done == [str(round_) for round_ in range(ROUNDS * 3)]


def test_a_decision_on_one_call_starts_it_while_another_still_runs(done: list[str]) -> None:
    going_on = threading.Event()

    def wait_long() -> str:
        """Wait."""
        going_on.wait()
        return "waited"

    with tool(wait_long):
        session = session_of(ScriptedModel([[call("wait_long"), call("pay", {"label": "meanwhile"})], say("Done.")]))
        until(lambda: session.calls.filter(state=CallState.EXECUTING).exists())
        sessions.approve(call_of(session, CallState.PENDING), by=None)
        until(lambda: done == ["meanwhile"])
        assert session.calls.get(name="wait_long").state == CallState.EXECUTING
        going_on.set()
        assert sessions.wait(session).status == "completed"


def test_a_call_decided_while_another_runs_in_another_process_starts_too(done: list[str], settings: Any) -> None:
    settings.ALLM = settings.ALLM | {"DISPATCH": "tests.integration.dispatches.Lost"}
    going_on = threading.Event()

    def wait_long() -> str:
        """Wait."""
        going_on.wait()
        return "waited"

    with tool(wait_long):
        session = session_of(ScriptedModel([[call("wait_long"), call("pay", {"label": "meanwhile"})], say("Done.")]))
        worker = Runner()
        try:
            worker.wake(session.pk)
            until(lambda: session.calls.filter(state=CallState.EXECUTING).exists())
            sessions.approve(call_of(session, CallState.PENDING), by=None)
            until(lambda: done == ["meanwhile"])
            going_on.set()
            assert sessions.wait(session).status == "completed"
        finally:
            going_on.set()
            worker.shutdown()


def test_a_resend_under_the_same_key_at_the_same_moment_is_one_decision(done: list[str]) -> None:
    session = session_of(asks_to_pay())
    seen = call_of(session, CallState.PENDING)
    results = at_once([partial(sessions.approve, seen, by=None, version=seen.version, key="once")] * 8)
    assert {getattr(result, "pk", result) for result in results} == {seen.pk}
    assert sessions.wait(session).status == "completed"
    assert (done, seen.decisions.count()) == (["once"], 1)


def test_a_message_resent_under_the_same_key_at_the_same_moment_is_one_message(done: list[str]) -> None:
    session = session_of(ScriptedModel([say("Hello."), say("Hello again.")]))
    sessions.wait(session)
    results = at_once([partial(sessions.reply, session, "And now?", key="once")] * 8)
    assert {getattr(result, "pk", result) for result in results} == {session.pk}
    assert sessions.wait(session).status == "completed"
    assert session.messages.filter(role="user").count() == 2


def test_messages_sent_at_once_make_one_run_and_the_others_are_refused(done: list[str]) -> None:
    session = session_of(ScriptedModel([say("Hello."), *[say("Hello again.")] * 8]))
    sessions.wait(session)
    results = at_once([partial(sessions.reply, session, f"message {place}") for place in range(8)])
    assert sessions.wait(session).status == "completed"
    taken = [result for result in results if not isinstance(result, Exception)]
    assert all(isinstance(result, StateError) for result in results if result not in taken)
    assert session.messages.filter(role="user").count() == 1 + len(taken) == session.runs.count()
    assert session.runs.exclude(state=RunState.ENDED, halted_reason=HaltedReason.COMPLETED).count() == 0
