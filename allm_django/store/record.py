"""The record of decisions: append-only, each chained by HMAC to the one before (H14)."""

from __future__ import annotations

from typing import Any

from django.utils.crypto import salted_hmac

from allm_django.conf import secret_key
from allm_django.core.encode import to_text
from allm_django.core.types import JSON, JSONObject
from allm_django.models import Decision, ToolCall
from allm_django.signals import call_decided
from allm_django.store.writing import Writing, alias

HMAC_SALT = "allm_django.decision"


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
) -> Decision:
    """Append a decision, chained to the session's previous one, and put who decided on the call."""
    previous = Decision.objects.using(alias()).filter(session=tx.session).order_by("-number").first()
    decision = Decision(
        session=tx.session,
        call=call,
        number=previous.number + 1 if previous else 1,
        call_version=call.version,
        user=by,
        who=name_of(by),
        verb=verb,
        name=call.name,
        arguments_before=call.arguments,
        arguments_after=arguments if arguments is not None else call.arguments,
        reason=reason,
        value=value,
        outcome=outcome,
        created_at=tx.now,
    )
    decision.hmac = decision_hmac(decision, previous.hmac if previous else "")
    decision.save(using=alias())
    call.decided_by, call.decided_name, call.decided_verb = by, decision.who, verb
    call.decided_at, call.decided_reason = tx.now, reason
    tx.send(call_decided, call, name=call.name, verb=verb)
    return decision


def decision_hmac(decision: Decision, previous: str) -> str:
    """The HMAC over a decision and the one before it: a row changed by SQL breaks the chain (H14)."""
    parts = [
        previous,
        str(decision.session_id),
        str(decision.call_id),
        decision.number,
        decision.call_version,
        decision.who,
        decision.verb,
        decision.name,
        decision.arguments_before,
        decision.arguments_after,
        decision.reason,
        decision.value,
        decision.outcome,
        decision.created_at.isoformat(),
    ]
    return salted_hmac(HMAC_SALT, to_text(parts), secret=secret_key(), algorithm="sha256").hexdigest()


def name_of(user: Any) -> str:
    """How a person is named on record; ``"the application"`` for trusted code."""
    if user is None:
        return "the application"
    full = user.get_full_name() if hasattr(user, "get_full_name") else ""
    return (full or user.get_username())[:200]
