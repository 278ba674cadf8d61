"""Stored sessions with the real runner: verbs, waiting, cancelling at any moment, async twins (S02, L15, L01, H07)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction

from allm_django import runtime, sessions
from allm_django.core.history import check_history
from allm_django.errors import LoopContextError
from allm_django.models import Session
from allm_django.providers.scripted import ScriptedModel, call, hold, say
from allm_django.runtime.runner import runner
from allm_django.store import leases
from allm_django.store.history import load_history
from tests.integration.driving import call_of, session_of, tool, until

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("running")]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened after the test, so that nothing hangs on it."""
    made = threading.Event()
    yield made
    made.set()


def reason(session: Session) -> str:
    return session.runs.order_by("-created_at")[0].halted_reason


@pytest.mark.row("S02")
def test_a_message_is_answered_and_the_next_one_too() -> None:
    session = session_of(ScriptedModel([say("Hello."), say("Yes.")]))
    assert sessions.wait(session).status == "completed"
    sessions.reply(session, "And?")
    assert sessions.wait(session).status == "completed"
    assert [message.text for message in session.messages.order_by("position")] == ["Go on.", "Hello.", "And?", "Yes."]


def test_nothing_runs_before_the_outermost_transaction_commits() -> None:
    model = ScriptedModel([say("Hello.")])
    with transaction.atomic():
        session = session_of(model)
        assert model.requests == []
        with pytest.raises(LoopContextError, match="transaction"):
            sessions.wait(session)
    assert sessions.wait(session).status == "completed"


def test_waiting_gives_up_after_its_time(gate: threading.Event) -> None:
    session = session_of(ScriptedModel([hold(gate), say("Hello.")]))
    with pytest.raises(TimeoutError):
        sessions.wait(session, timeout=0.05)
    gate.set()
    assert sessions.wait(session).status == "completed"


def somebody_waits_for_a_lock() -> bool:
    """On SQLite nobody can tell; there, what follows holds without a moment to hit."""
    if connection.vendor == "sqlite":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def test_who_waited_for_the_sessions_lock_sees_the_run_that_was_made_meanwhile() -> None:
    session = session_of(ScriptedModel([say("Hello."), say("Yes.")]))
    sessions.wait(session)
    claimed: list[Any] = []

    def claim() -> None:
        claimed.append(leases.claim_run(session.pk, uuid4()))
        connections.close_all()

    worker = threading.Thread(target=claim)
    with transaction.atomic():
        sessions.reply(session, "And?")
        worker.start()
        until(somebody_waits_for_a_lock)
    worker.join()
    if claimed[0] is not None:
        leases.release_lease(claimed[0])
    assert sessions.wait(session).status == "completed"
    assert session.messages.order_by("position").last().text == "Yes."


@pytest.mark.parametrize("verb", ["approve", "reject", "answer"])
def test_a_decision_lets_the_runner_go_on(verb: str) -> None:
    def pay() -> str:
        """Pay."""
        return "paid"

    with tool(pay, manual=True):
        session = session_of(ScriptedModel([call("pay"), say("Done.")]))
        assert sessions.wait(session).status == "awaiting_tools"
        getattr(sessions, verb)(call_of(session), by=None)
        assert sessions.wait(session).status == "completed"
        assert reason(session) == "completed"


@pytest.mark.row("L15")
def test_a_cancel_in_mid_stream_keeps_what_came_and_the_thread_goes_on(gate: threading.Event) -> None:
    model = ScriptedModel([[say("Half an answer"), hold(gate), say("never")], say("Fresh.")])
    session = session_of(model)
    until(lambda: session.messages.filter(role="assistant", chunks__isnull=False).exists())
    sessions.cancel(session)
    assert sessions.wait(session).status == "completed"
    broken = session.messages.get(role="assistant")
    assert (broken.text, broken.complete, reason(session)) == ("Half an answer", False, "cancelled")
    sessions.reply(session, "Again?")
    assert sessions.wait(session).status == "completed"
    assert [message.content for message in model.requests[-1].messages] == ["Go on.", "Again?"]


def test_a_cancel_heard_of_late_does_not_disturb_the_next_run(gate: threading.Event) -> None:
    session = session_of(ScriptedModel([[hold(gate), say("Whole.")]]))
    until(lambda: session.messages.filter(role="assistant").exists())
    runner._cancel(session.pk, Session.objects.get(pk=session.pk).fence - 1)
    heard = threading.Event()
    runner._loop.call_soon_threadsafe(heard.set)
    heard.wait(20)
    gate.set()
    assert sessions.wait(session).status == "completed"
    assert not session.messages.exclude(broken="").exists()


@pytest.mark.row("L15")
def test_a_cancel_lets_calls_with_effects_end_and_starts_no_further_one(gate: threading.Event, settings: Any) -> None:
    settings.ALLM = {**settings.ALLM, "CANCEL_GRACE_SECONDS": 20.0, "MAX_PARALLEL": 1}
    begun = threading.Event()
    done: list[str] = []

    def pay(label: str) -> str:
        """Pay."""
        begun.set()
        gate.wait()
        done.append(label)
        return "paid"

    with tool(pay):
        session = session_of(ScriptedModel([[call("pay", {"label": "a"}), call("pay", {"label": "b"})], say("Bye.")]))
        begun.wait(20)
        sessions.cancel(session)
        until(lambda: session.calls.filter(outcome="cancelled").exists())
        gate.set()
        assert sessions.wait(session).status == "completed"
        outcomes = list(session.calls.order_by("position").values_list("outcome", flat=True))
        assert sorted(outcomes) == ["cancelled", "succeeded"]
        assert (len(done), reason(session)) == (1, "cancelled")
        sessions.reply(session, "And?")
        assert sessions.wait(session).status == "completed"
        check_history(load_history(session.pk))


@pytest.mark.row("L15")
def test_a_call_that_outlives_a_cancel_is_unknown_and_what_it_gives_is_kept(gate: threading.Event) -> None:
    begun = threading.Event()

    def pay() -> str:
        """Pay."""
        begun.set()
        gate.wait()
        return "paid after all"

    with tool(pay):
        session = session_of(ScriptedModel([call("pay"), say("Bye.")]))
        begun.wait(20)
        sessions.cancel(session)
        row = call_of(session, "unknown")
        assert sessions.wait(session).status == "awaiting_tools"
        gate.set()
        until(lambda: session.calls.filter(late_result__isnull=False).exists())
        row.refresh_from_db()
        assert (row.state, row.late_result["message"]) == ("unknown", "paid after all")
        sessions.answer(row, by=None, value="It was paid.")
        assert sessions.wait(session).status == "completed"
        assert reason(session) == "cancelled"


def test_a_clean_stop_in_mid_stream_breaks_off_and_another_runner_answers(gate: threading.Event) -> None:
    model = ScriptedModel([[say("Half"), hold(gate), say("never")], say("Whole.")])
    session = session_of(model)
    until(lambda: session.messages.filter(role="assistant").exists())
    runtime.shutdown()
    assert Session.objects.get(pk=session.pk).status == "running"
    runtime.wake(session.pk)
    assert sessions.wait(session).status == "completed"
    texts = session.messages.filter(role="assistant", complete=True).values_list("text", flat=True)
    assert list(texts) == ["Whole."]


async def _walk() -> None:
    session = await sync_to_async(session_of)(ScriptedModel([call("pay"), say("Done."), say("Bye.")]))
    with pytest.raises(LoopContextError, match="await_"):
        sessions.wait(session)
    assert (await sessions.await_(session)).status == "awaiting_tools"
    row = await sync_to_async(call_of)(session)
    await sessions.aapprove(row, by=None, version=row.version)
    assert (await sessions.await_(session)).status == "completed"
    await sessions.areply(session, "And?")
    assert (await sessions.await_(session)).status == "completed"
    await sync_to_async(connections.close_all)()


@pytest.mark.row("S02")
def test_the_async_twins_do_the_same() -> None:
    def pay() -> str:
        """Pay."""
        return "paid"

    with tool(pay, manual=True):
        asyncio.run(_walk())


def test_a_wake_up_that_comes_while_the_runner_stops_starts_no_other_one(gate: threading.Event) -> None:
    before = set(threading.enumerate())  # other tests' handlers may still hang
    session = session_of(ScriptedModel([hold(gate), say("Hello.")]))
    until(lambda: session.messages.filter(complete=False).exists())
    stop = threading.Thread(target=runtime.shutdown)
    stop.start()
    until(lambda: not runner.running)
    runner.wake(session.pk)
    began_another = runner.running
    gate.set()
    stop.join()
    assert not began_another
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("allm-")]
