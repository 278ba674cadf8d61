"""Moving calls along their states. Every move goes through :func:`apply`."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import QuerySet

from allm_django.core.settle import Settlement
from allm_django.core.states import CallState, check_call_transition
from allm_django.models import ToolCall
from allm_django.signals import call_settled
from allm_django.store.writing import Writing, alias

# Of a call's row, what may change after the model has asked.
CHANGING = (
    "arguments",
    "tool_version",
    "why",
    "state",
    "outcome",
    "effect",
    "question",
    "result",
    "content",
    "error",
    "progress",
    "version",
    "attempt",
    "approved_version",
    "expires_at",
    "escalates_at",
    "wake_at",
    "worker",
    "started_at",
    "finished_at",
    "decided_by",
    "decided_name",
    "decided_verb",
    "decided_at",
    "decided_reason",
)


def open_calls(tx: Writing, states: Collection[CallState]) -> QuerySet[ToolCall]:
    """The session's calls in these states, in the order in which they were made."""
    rows = ToolCall.objects.using(alias()).select_related("tool_version", "message")
    return rows.filter(session=tx.session, state__in=list(states)).order_by("message__position", "position")


def apply(tx: Writing, call: ToolCall, settlement: Settlement) -> None:
    """Take ``call`` to where ``settlement`` says, and save it. Raises StateError if it may not go there (H02)."""
    check_call_transition(CallState(call.state), settlement.state, settlement.outcome)
    call.state, call.outcome = settlement.state, settlement.outcome or ""
    call.effect = settlement.effect
    if settlement.question is not None:
        call.question = settlement.question
    if settlement.result is not None:
        write_result(call, settlement)
        call.finished_at = tx.now
        tx.send(call_settled, call, name=call.name, outcome=str(call.outcome))
    call.progress = None
    call.version += 1
    call.save(using=alias(), update_fields=CHANGING)


def write_result(call: ToolCall, settlement: Settlement) -> None:
    """Put a settlement's result on the call's row."""
    result = settlement.result
    assert result is not None
    call.result, call.content = result.value, result.content
    call.error = {"code": result.code, "message": result.message, "detail": result.detail} if result.code else None
