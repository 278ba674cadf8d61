"""Which Django signals an event stands for. That a call was decided or settled is told where that is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db.models import Model
from django.dispatch import Signal

from allm_django import signals
from allm_django.core.kinds import EventKind
from allm_django.models import Message, Run, Session, ToolCall

Announcement = tuple[Signal, Model, dict[str, str]]

RUNS = {
    EventKind.RUN_STARTED: signals.run_started,
    EventKind.RUN_HALTED: signals.run_halted,
    EventKind.RUN_ENDED: signals.run_ended,
    EventKind.RUN_FAILED: signals.run_ended,
}
CALLS = {
    EventKind.CALL_PENDING: signals.call_pending,
    EventKind.CALL_ASKED: signals.call_asked,
    EventKind.CALL_ESCALATED: signals.call_escalated,
}


def of_event(
    kind: EventKind, session: Session, run: Run | None, messages: Sequence[Message], calls: Sequence[ToolCall]
) -> Iterator[Announcement]:
    """The signals for an event, each with the row it is about and its words."""
    if kind == EventKind.SESSION_STARTED:
        yield signals.session_started, session, {}
    elif kind == EventKind.MESSAGE_COMPLETED:
        for message in messages:
            yield signals.message_completed, message, {}
    elif kind in RUNS and run is not None:
        yield RUNS[kind], run, {} if kind == EventKind.RUN_STARTED else {"reason": run.halted_reason}
    elif kind in CALLS:
        for call in calls:
            yield CALLS[kind], call, {"name": call.name}
