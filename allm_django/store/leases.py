"""Who works on a session: claiming, renewing and giving back the lease, and taking over from the dead (H07)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from allm_django.conf import conf
from allm_django.core.encode import to_text
from allm_django.core.kinds import EventKind
from allm_django.core.settle import after_crash
from allm_django.core.states import CallState, RunState
from allm_django.models import Message, MessageChunk, Session, ToolCall
from allm_django.models.session import RUNNING_SESSIONS
from allm_django.store.calls import apply, open_calls
from allm_django.store.streaks import stop_clock
from allm_django.store.writing import Lease, Writing, alias, writing

INTERRUPTED = "The server stopped in the middle of this answer."


def claim_run(session_id: UUID, worker: UUID) -> Lease | None:
    """The lease on a session that has something to run, or None. Mends first what a dead worker left."""
    with writing(session_id) as tx:
        session, run = tx.session, tx.run
        if run is None or not _claimable(tx):
            return None
        stop_clock(run, min(tx.now, session.lease_until or tx.now))  # a dead worker was at work no longer than that
        run.working_since = tx.now
        session.fence += 1
        session.lease_owner = worker
        session.lease_until = tx.db_now + timedelta(seconds=conf().LEASE_SECONDS)
        run.claims += 1
        run.started_at = run.started_at or tx.now
        run.state = RunState.RUNNING
        _take_over(tx)
        tx.derive_status()
        tx.tell(EventKind.RUN_STARTED, session=True)
        return Lease(session.id, run.id, session.fence, worker, run.request_id)


def _claimable(tx: Writing) -> bool:
    """Queued, left running, or cancelled with something still open; and nobody holds a lease."""
    session, run = tx.session, tx.run
    assert run is not None
    if session.lease_until is not None and session.lease_until > tx.db_now:
        return False
    return run.state in (RunState.QUEUED, RunState.RUNNING)


def renew_leases(worker: UUID, fences: Mapping[UUID, int]) -> set[UUID]:
    """Keep these leases, given as session → fence; returns the sessions that are no longer this worker's at that fence.

    The fence tells a lease that was lost from one that was given back and claimed again meanwhile.
    """
    held = Session.objects.using(alias()).filter(pk__in=fences, lease_owner=worker)
    held.update(lease_until=Now() + timedelta(seconds=conf().LEASE_SECONDS))
    now = dict(held.values_list("pk", "fence"))
    return {session_id for session_id, fence in fences.items() if now.get(session_id) != fence}


def sessions_to_attend(worker: UUID, session_ids: Collection[UUID]) -> tuple[set[UUID], set[UUID]]:
    """Of the sessions at work here: those to be cancelled, and those where a person has made a call ready."""
    rows = Session.objects.using(alias()).filter(pk__in=session_ids, lease_owner=worker)
    cancelled = set(rows.filter(cancel_requested=True).values_list("pk", flat=True))
    ready = ToolCall.objects.using(alias()).filter(session__in=session_ids, state=CallState.READY)
    return cancelled, set(ready.exclude(decided_verb="").values_list("session_id", flat=True))


def release_lease(lease: Lease) -> None:
    """Give a lease back with the run still to be driven (a clean stop)."""
    with writing(lease.session_id, lease) as tx:
        assert tx.run is not None
        tx.run.state = RunState.QUEUED
        stop_clock(tx.run, tx.now)
        tx.session.lease_owner, tx.session.lease_until = None, None
        tx.derive_status()


def sessions_to_run(limit: int = 100) -> list[UUID]:
    """Sessions with something to run that nobody works on: lost wake-ups and what the dead left, oldest first."""
    rows = Session.objects.using(alias()).filter(
        RUNNING_SESSIONS,
        Q(lease_until=None) | Q(lease_until__lt=Now()),
        active_run__state__in=(RunState.QUEUED, RunState.RUNNING),
    )
    return list(rows.order_by("updated_at").values_list("pk", flat=True)[:limit])


def _take_over(tx: Writing) -> None:
    """Mend what a worker that is gone left half done: answers broken off, calls that had been started."""
    mend_messages(tx)
    mend_calls(tx, again=True)


def mend_calls(tx: Writing, *, again: bool) -> None:
    """Calls that nobody runs any more: of unknown outcome, unless they may be run ``again`` without harm (H07)."""
    for call in list(open_calls(tx, (CallState.EXECUTING,))):
        settlement = after_crash(again and bool(call.tool_version and call.tool_version.data["idempotent"]))
        apply(tx, call, settlement)
        retried = settlement.state is CallState.READY
        tx.tell(EventKind.CALL_RETRIED if retried else EventKind.CALL_UNKNOWN, calls=[call])


def mend_messages(tx: Writing) -> None:
    """Break off answers that nobody is writing any more."""
    for message in tx.session.messages.filter(complete=False, broken=""):
        break_off(message, INTERRUPTED)
        tx.tell(EventKind.MESSAGE_BROKEN, messages=[(message, ())])


def break_off(message: Message, why: str, text: str | None = None, thinking: str = "") -> None:
    """Close a message whose stream broke; keep the text that came (L14)."""
    using = alias()
    if text is None:
        text = "".join(message.chunks.using(using).order_by("offset").values_list("text", flat=True))
    message.text, message.thinking, message.broken = text, thinking, to_text(why)[:300]
    message.save(using=using)
    MessageChunk.objects.using(using).filter(message=message).delete()
