"""Runs under the session's lock: queue, close what is open, halt."""

from __future__ import annotations

import uuid
from typing import Any

from allm_django import logs
from allm_django.core.kinds import EventKind
from allm_django.core.settle import NOT_AGAIN, settle_closed, settle_delegated
from allm_django.core.states import CallState, HaltedReason, Outcome, RunState, check_run_transition
from allm_django.core.types import Usage
from allm_django.loop.about import About
from allm_django.loop.telemetry import trace_of
from allm_django.models import Engine, Message, Run, Session, ToolCall
from allm_django.store.calls import apply, open_calls
from allm_django.store.engines import frozen_settings
from allm_django.store.streaks import stop_clock
from allm_django.store.writing import Writing, alias


def queue_run(tx: Writing, engine: Engine, kind: Run.Kind = Run.Kind.CHAT) -> Run:
    """Make the session's next run and ask for a worker."""
    settings, request_id = frozen_settings(engine), _request_id()
    if trace := trace_of(About(request_id, str(tx.session.id), engine.name)):
        settings["traceparent"] = trace
    run = Run(session=tx.session, kind=kind, request_id=request_id, settings=settings)
    run.save(force_insert=True, using=alias())
    tx.run = run
    tx.session.cancel_requested = False
    tx.derive_status()
    tx.tell(EventKind.RUN_QUEUED, session=True)
    tx.wake_after = True
    return run


def add_usage(run: Run, session: Session, used: Usage) -> None:
    """Count what an answer used for its run and session (L09)."""
    run.usage = (Usage.from_json(run.usage) + used).as_json()
    session.usage = (Usage.from_json(session.usage) + used).as_json()


def _request_id() -> str:
    """That of the HTTP request that asks for the run, else a new one."""
    now = logs.ids()
    return now.request_id if now.request_id and not now.session_id else uuid.uuid4().hex


def requeue_run(tx: Writing) -> None:
    """A waiting run has something to do again; one that is queued or at work hears of it."""
    if tx.run is not None:
        if tx.run.state == RunState.WAITING:
            check_run_transition(RunState.WAITING, RunState.QUEUED)
            tx.run.state = RunState.QUEUED
        tx.derive_status()
        tx.wake_after = True


def add_user_message(tx: Writing, text: str) -> Message:
    """Append a user's message."""
    message = append_message(tx, Message.Role.USER, text=text)
    tx.tell(EventKind.MESSAGE_ADDED, messages=[(message, ())], session=True)
    return message


def append_message(tx: Writing, role: Message.Role, **fields: Any) -> Message:
    """Append a message at the thread's end."""
    tx.session.message_count += 1
    message = Message(session=tx.session, run=tx.run, position=tx.session.message_count, role=role, **fields)
    message.save(force_insert=True, using=alias())
    return message


def close_open_calls(tx: Writing, outcome: Outcome, words: str = "") -> list[ToolCall]:
    """Give every call that has not started, and every recipe, its synthetic result (S06); ``words``: what the model
    is told of it.
    """
    states = (CallState.READY, CallState.PENDING, CallState.ASKING, CallState.DELEGATED)
    closed = list(open_calls(tx, states))
    for call in closed:
        if call.state == CallState.DELEGATED:
            apply(tx, call, settle_delegated(call.call_id, outcome))
            continue
        why = NOT_AGAIN if call.attempt and call.state == CallState.READY else words
        apply(tx, call, settle_closed(call.call_id, outcome, why))
    if closed:
        tx.tell(EventKind.CALL_CLOSED, calls=closed)
        tx.inbox_changed = True
    return closed


def end_if_closed(tx: Writing) -> None:
    """End a cancelled run that nobody works on, unless a call's outcome is still unknown."""
    assert tx.run is not None
    if open_calls(tx, (CallState.EXECUTING, CallState.UNKNOWN)).exists():
        tx.derive_status()
        return
    halt_run(tx, HaltedReason.CANCELLED, waiting=False)


def halt_run(tx: Writing, reason: str, *, waiting: bool, metadata: dict[str, Any] | None = None) -> None:
    """Halt the run: ``waiting`` for people, or ended; its lease is given back."""
    run = tx.run
    assert run is not None
    new = RunState.WAITING if waiting else RunState.ENDED
    check_run_transition(RunState(run.state), new)
    run.state, run.halted_reason, run.halted_metadata = new, reason, metadata or {}
    stop_clock(run, tx.now)
    if not waiting:
        run.ended_at = tx.now
        tx.session.cancel_requested = False
    tx.session.lease_owner, tx.session.lease_until = None, None
    tx.derive_status()
    kind = EventKind.RUN_HALTED if waiting else EventKind.RUN_FAILED if run.error else EventKind.RUN_ENDED
    tx.tell(kind, session=True)
