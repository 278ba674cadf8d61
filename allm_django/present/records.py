"""What stands on record of a session: its events and decisions."""

from __future__ import annotations

from allm_django.core.types import JSONObject
from allm_django.models import Decision, Session, ToolCall
from allm_django.runtime.news import event_frame
from allm_django.store.shapes import moment


def events_after(session: Session, number: int, limit: int) -> JSONObject:
    """At most ``limit`` events after ``number``, as the socket tells them; ``last``: the number to ask on from."""
    rows = list(session.events.filter(number__gt=number).order_by("number")[:limit])
    frames = [event_frame(session.pk, row.number, row.kind, row.created_at, row.data) for row in rows]
    return {"events": frames, "last": rows[-1].number if rows else number}


def latest_decision(call: ToolCall) -> JSONObject | None:
    """The last decision on ``call``, without the arguments that were shown."""
    row = call.decisions.order_by("-number").first()
    return decision_shape(row) if row is not None else None


def decision_shape(decision: Decision) -> JSONObject:
    """A decision: who, what, on which version, when."""
    return {
        "number": decision.number,
        "by": decision.who,
        "verb": decision.verb,
        "version": decision.call_version,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "at": moment(decision.created_at),
    }
