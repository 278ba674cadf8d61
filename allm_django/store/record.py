"""The record of decisions: append-only, each chained by HMAC to the one before (H14)."""

from __future__ import annotations

from typing import Any

from allm_django.core.types import JSON, JSONObject
from allm_django.models import Decision, ToolCall
from allm_django.signals import call_decided
from allm_django.store import chain
from allm_django.store.approvals import approvals_shape, quorum_of
from allm_django.store.writing import Writing, alias


def record(
    tx: Writing,
    call: ToolCall,
    *,
    verb: str,
    by: Any,
    outcome: str,
    arguments: JSONObject | None = None,
    reason: str = "",
    value: JSON = None,
    shown: JSONObject | None = None,
    decides: bool = True,
) -> Decision:
    """Append a decision, chained to the session's previous one; if it ``decides`` the call, put who did on it.

    ``shown`` is what :func:`shown_of` gave of the call as the person saw it; by default as it is now.
    """
    previous = Decision.objects.using(alias()).filter(session=tx.session).order_by("-number").first()
    decision = Decision(
        session=tx.session,
        call=call,
        call_version=call.version,
        user=by,
        who=name_of(by),
        who_id="" if by is None else str(by.pk),
        verb=verb,
        name=call.name,
        shown=shown if shown is not None else shown_of(call),
        arguments_before=call.arguments,
        arguments_after=arguments if arguments is not None else call.arguments,
        reason=reason,
        value=value,
        outcome=outcome,
        created_at=tx.now,
    )
    chain.append(tx.session, decision, previous)
    decision.save(using=alias())
    if decides:
        call.decided_by, call.decided_name, call.decided_verb = by, decision.who, verb
        call.decided_at, call.decided_reason = tx.now, reason
    tx.send(call_decided, call, name=call.name, verb=verb)
    return decision


def shown_of(call: ToolCall) -> JSONObject:
    """What a person saw of a call besides its name and arguments (security row 42)."""
    data = call.tool_version.data if call.tool_version else {}
    return {
        "state": str(call.state),
        "title": data.get("title", ""),
        "description": data.get("description", ""),
        "tool_version": call.tool_version.version if call.tool_version else None,
        "why": call.why,
        "question": call.question,
        "quorum": quorum_of(call),
        "approvals": approvals_shape(call),
    }


def name_of(user: Any) -> str:
    """How a person is named on record; ``"the application"`` for trusted code."""
    if user is None:
        return "the application"
    full = user.get_full_name() if hasattr(user, "get_full_name") else ""
    return (full or user.get_username())[:200]
