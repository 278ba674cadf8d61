"""Leases: who lost one writes nothing more, who takes over mends what was left (H07)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from allm_django import runtime, sessions
from allm_django.core.states import CallState, RunState
from allm_django.errors import AllmError, LeaseLostError
from allm_django.models import MessageChunk, Session, ToolCall, Worker
from allm_django.providers.base import Finished
from allm_django.providers.scripted import ScriptedModel, call, hold, say
from allm_django.runtime.runner import Runner, runner
from allm_django.store import executing, leases, turns
from allm_django.store.chunks import Chunk, write_chunks
from allm_django.store.known import Known
from allm_django.store.writing import Lease, writing
from tests.integration.driving import session_of, tool, until

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("running")]
LOST = "tests.integration.dispatches.Lost"


@pytest.fixture
def lost_wakes(running: None, settings: Any) -> None:
    """No wake-up arrives, nothing is swept up, no lease is renewed: the test is the only one who acts."""
    settings.ALLM = settings.ALLM | {"DISPATCH": LOST, "SWEEPER": False, "RENEW_SECONDS": 3600}


def queued(*entries: Any) -> Session:
    """A session with a run that nobody has claimed."""
    return session_of(ScriptedModel(entries or [say("Hello.")]))


def nobody(user: Any, call: ToolCall) -> bool:
    """Nobody's grant counts here."""
    return False


def run_out(session: Session) -> None:
    """Let the session's lease be over."""
    Session.objects.filter(pk=session.pk).update(lease_until=Now() - timedelta(seconds=1))


def claimed(session: Session) -> Lease:
    """A lease of a worker of its own."""
    lease = leases.claim_run(session.pk, uuid.uuid4())
    assert lease is not None
    return lease


def overtaken(session: Session) -> tuple[Lease, Lease]:
    """The lease that was lost, and the one that is held now."""
    old = claimed(session)
    run_out(session)
    return old, claimed(session)


@pytest.mark.usefixtures("lost_wakes")
class TestWithoutAWorker:
    """What leases are, seen at the store."""

    def test_a_lease_is_given_to_one_worker_until_it_runs_out(self) -> None:
        session = queued()
        first = claimed(session)
        assert leases.claim_run(session.pk, uuid.uuid4()) is None
        assert leases.claim_run(session.pk, first.worker) is None
        run_out(session)
        assert claimed(session).fence == first.fence + 1

    def test_a_claim_in_vain_changes_nothing(self) -> None:
        session = queued()
        claimed(session)
        before = Session.objects.filter(pk=session.pk).values().get()
        assert leases.claim_run(session.pk, uuid.uuid4()) is None
        assert Session.objects.filter(pk=session.pk).values().get() == before

    def test_every_write_of_a_worker_that_lost_its_lease_is_refused(self) -> None:
        session = queued()
        lease = claimed(session)
        known = Known(asks=False)
        begun = turns.begin_step(lease, known, nudge=False)
        run_out(session)
        claimed(session)
        events = session.events.count()
        answer = turns.Answer(begun.message, Finished(text="Late."), chunks=False)
        for late in (
            lambda: turns.load(lease, known),
            lambda: turns.begin_step(lease, known, nudge=False),
            lambda: turns.complete_message(lease, known, answer, begun.offer, nobody),
            lambda: turns.break_message(lease, known, begun.message, "Late.", "", None, failed=False),
            lambda: executing.start_call(lease, known, "c", lambda _: ""),
            lambda: executing.close_calls(lease, known),
            lambda: turns.fail_run(lease, AllmError("late")),
            lambda: leases.release_lease(lease),
        ):
            with pytest.raises(LeaseLostError):
                late()
        assert session.events.count() == events
        assert session.messages.get(role="assistant").broken

    def test_text_of_a_worker_that_lost_its_lease_is_dropped_alone(self) -> None:
        stale, fine = queued(), queued()
        stale_lease, fine_lease = claimed(stale), claimed(fine)
        chunks = [
            Chunk(lease, turns.begin_step(lease, Known(asks=False), nudge=False).message.pk, 0, "text")
            for lease in (stale_lease, fine_lease)
        ]
        run_out(stale)
        claimed(stale)
        assert write_chunks(chunks) == [chunks[1]]
        assert MessageChunk.objects.get().message_id == chunks[1].message_id

    def test_renewal_tells_which_leases_are_lost_and_keeps_the_others(self) -> None:
        kept, lost, again = queued(), queued(), queued()
        mine = {session: leases.claim_run(session.pk, runner.worker_id) for session in (kept, lost, again)}
        run_out(lost)
        claimed(lost)
        run_out(again)
        leases.claim_run(again.pk, runner.worker_id)
        fences = {session.pk: lease.fence for session, lease in mine.items() if lease is not None}
        assert leases.renew_leases(runner.worker_id, fences) == {lost.pk, again.pk}
        until_before = Session.objects.get(pk=kept.pk).lease_until
        assert until_before is not None
        assert leases.renew_leases(runner.worker_id, {kept.pk: fences[kept.pk]}) == set()

    def test_a_cancel_takes_the_lease_from_a_worker_that_let_it_run_out(self) -> None:
        session = queued()
        lease = claimed(session)
        known = Known(asks=False)
        begun = turns.begin_step(lease, known, nudge=False)
        run_out(session)
        sessions.cancel(session)
        with pytest.raises(LeaseLostError):
            turns.complete_message(
                lease, known, turns.Answer(begun.message, Finished(text="Late."), chunks=False), begun.offer, nobody
            )
        assert sessions.wait(session).status == "completed"

    def test_a_cancel_leaves_what_had_started_to_who_takes_over(self) -> None:
        def act() -> str:
            """Act."""
            return "done"

        with tool(act):
            session = queued()
            lease, known = claimed(session), Known(asks=False)
            begun = turns.begin_step(lease, known, nudge=False)
            finished = Finished(calls=(raw_call("act"),))
            turns.complete_message(
                lease, known, turns.Answer(begun.message, finished, chunks=False), begun.offer, nobody
            )
            executing.start_call(lease, known, "c1", lambda _: "")
            run_out(session)
            sessions.cancel(session)
            with pytest.raises(LeaseLostError):
                turns.load(lease, known)
            claimed(session)
            assert session.calls.get().state == CallState.UNKNOWN

    @pytest.mark.parametrize("idempotent", [True, False])
    def test_who_takes_over_breaks_off_the_answer_and_settles_what_had_started(self, idempotent: bool) -> None:
        def act() -> str:
            """Act."""
            return "done"

        with tool(act, idempotent=idempotent):
            session = queued()
            lease, known = claimed(session), Known(asks=False)
            begun = turns.begin_step(lease, known, nudge=False)
            finished = Finished(calls=(raw_call("act"),))
            turns.complete_message(
                lease, known, turns.Answer(begun.message, finished, chunks=False), begun.offer, nobody
            )
            started = executing.start_call(lease, known, "c1", lambda _: "").call
            assert started is not None
            run_out(session)
            claimed(session)
            row = session.calls.get()
            assert row.state == (CallState.READY if idempotent else CallState.UNKNOWN)
            assert row.idempotency_key == started.idempotency_key

    def test_changes_by_others_between_two_writes_of_a_worker_are_seen(self) -> None:
        def act() -> str:
            """Act."""
            return "done"

        with tool(act, manual=True):
            session = queued()
            lease, known = claimed(session), Known(asks=False)
            begun = turns.begin_step(lease, known, nudge=False)
            finished = Finished(calls=(raw_call("act"),))
            turns.complete_message(
                lease, known, turns.Answer(begun.message, finished, chunks=False), begun.offer, nobody
            )
            assert executing.start_call(lease, known, "c1", lambda _: "").call is None
            sessions.approve(session.calls.get(), by=None)
            assert executing.start_call(lease, known, "c1", lambda _: "").call is not None

    def test_nothing_is_known_after_a_transaction_that_failed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def act() -> str:
            """Act."""
            return "done"

        with tool(act, idempotent=True):
            session = queued()
            lease, known = claimed(session), Known(asks=False)
            begun = turns.begin_step(lease, known, nudge=False)
            finished = Finished(calls=(raw_call("act"),))
            turns.complete_message(
                lease, known, turns.Answer(begun.message, finished, chunks=False), begun.offer, nobody
            )
            with monkeypatch.context() as patch:
                patch.setattr("allm_django.store.writing.Event", broken)
                with pytest.raises(ZeroDivisionError):
                    executing.start_call(lease, known, "c1", lambda _: "")
            started = executing.start_call(lease, known, "c1", lambda _: "").call
            assert started is not None
            assert started.attempt == 1

    def test_a_transaction_of_a_session_saves_what_changed_and_no_more(self, django_assert_num_queries: Any) -> None:
        session = queued()
        # BEGIN, SELECT, COMMIT; PostgreSQL reads the run once it has the lock
        with django_assert_num_queries(3 if connection.vendor == "sqlite" else 4), writing(session.pk):
            pass


def raw_call(name: str) -> Any:
    """A call as a provider gives it."""
    from allm_django.providers.base import RawCall

    return RawCall("c1", name, "{}")


def broken(*_: Any, **__: Any) -> None:
    """Fail."""
    raise ZeroDivisionError


@pytest.fixture
def other() -> Iterator[Runner]:
    """A second worker."""
    worker = Runner()
    yield worker
    worker.shutdown()


def test_a_worker_that_lost_its_lease_stops_streaming_and_leaves_the_answer_to_the_next(
    settings: Any, other: Runner
) -> None:
    settings.ALLM = settings.ALLM | {"RENEW_SECONDS": 3600, "SWEEPER": False}
    going_on = threading.Event()
    model = ScriptedModel([[say("First. "), hold(going_on), say("Never shown.")], say("Second.")])
    session = session_of(model)
    until(lambda: MessageChunk.objects.filter(message__session=session).exists())
    run_out(session)
    other.wake(session.pk)
    assert sessions.wait(session).status == "completed"
    going_on.set()
    until(lambda: not runner._drives)
    texts = list(session.messages.filter(role="assistant").order_by("position").values_list("text", "complete"))
    assert texts == [("First. ", False), ("Second.", True)]
    assert not MessageChunk.objects.exists()


def test_a_handler_that_outlives_its_lease_runs_once_and_a_person_settles_it(settings: Any, other: Runner) -> None:
    settings.ALLM = settings.ALLM | {"RENEW_SECONDS": 3600, "SWEEPER": False}
    going_on, done = threading.Event(), []

    def pay() -> str:
        """Pay."""
        done.append("paid")
        going_on.wait()
        return "paid"

    with tool(pay):
        session = session_of(ScriptedModel([call("pay"), say("Done.")]))
        until(lambda: done)
        run_out(session)
        other.wake(session.pk)
        row = until(lambda: session.calls.filter(state=CallState.UNKNOWN).first())
        going_on.set()
        assert sessions.wait(session).status == "awaiting_tools"
        late = until(lambda: session.calls.get().late_result)
        assert (late["kind"], late["value"]) == ("ok", "paid")
        sessions.answer(session.calls.get(), by=None, value="It was paid, I looked.")
        assert sessions.wait(session).status == "completed"
        row.refresh_from_db()
        assert (row.outcome, done) == ("answered", ["paid"])


def test_a_lost_lease_is_noticed_by_the_renewal_and_the_drive_is_dropped(settings: Any) -> None:
    settings.ALLM = settings.ALLM | {"SWEEPER": False}
    session = session_of(ScriptedModel([[say("First. "), hold(threading.Event())]]))
    until(lambda: MessageChunk.objects.filter(message__session=session).exists())
    Session.objects.filter(pk=session.pk).update(lease_owner=uuid.uuid4())
    until(lambda: not runner._drives)


def test_the_sweeper_takes_up_lost_wake_ups_and_what_the_dead_left(settings: Any) -> None:
    settings.ALLM = settings.ALLM | {"DISPATCH": LOST}
    forgotten, left = queued(), queued()
    claimed(left)
    run_out(left)
    runtime.ensure_started()
    assert [sessions.wait(session).status for session in (forgotten, left)] == ["completed", "completed"]


def test_a_clean_stop_gives_leases_back_and_the_next_process_goes_on(settings: Any) -> None:
    model = ScriptedModel([[say("First. "), hold(threading.Event())], say("Second.")])
    session = session_of(model)
    until(lambda: MessageChunk.objects.filter(message__session=session).exists())
    runtime.shutdown()
    row = Session.objects.get(pk=session.pk)
    assert (row.lease_owner, row.lease_until) == (None, None)
    assert row.active_run is not None
    assert row.active_run.state == RunState.QUEUED
    assert not Worker.objects.exists()
    runtime.ensure_started()
    assert sessions.wait(session).status == "completed"
    assert session.messages.filter(broken="").last().text == "Second."


def test_a_worker_tells_that_it_is_alive(settings: Any) -> None:
    runtime.ensure_started()
    row = until(Worker.objects.first)
    before = row.seen_at
    until(lambda: Worker.objects.get().seen_at > before)
    assert row.sessions == 0


@pytest.mark.usefixtures("lost_wakes")
def test_chunks_whose_commit_went_unheard_are_stored_once() -> None:
    session = queued()
    lease = claimed(session)
    message = turns.begin_step(lease, Known(asks=False), nudge=False).message
    first, second = Chunk(lease, message.pk, 0, "zwölf "), Chunk(lease, message.pk, 6, "Uhr")
    assert write_chunks([first]) == [first]
    assert write_chunks([first, second]) == [first, second]
    assert list(message.chunks.order_by("offset").values_list("offset", "text")) == [(0, "zwölf "), (6, "Uhr")]
    assert write_chunks([Chunk(lease, message.pk, 9, "!")], streaming=lambda _: False) == []
