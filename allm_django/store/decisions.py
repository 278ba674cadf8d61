"""Decisions of people on calls: one transaction each, one winner, all on record (H02–H05, H14)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from allm_django.core.encode import to_json
from allm_django.core.grants import GrantTerms, read_terms
from allm_django.core.kinds import EventKind
from allm_django.core.policy import check_arguments
from allm_django.core.schema import parse_arguments
from allm_django.core.settle import Settlement, settle_answered, settle_rejected
from allm_django.core.states import CallState
from allm_django.core.types import JSON, JSONObject
from allm_django.errors import (
    AlreadyDecidedError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    VersionMismatchError,
)
from allm_django.models import ToolCall
from allm_django.store import clock, keys
from allm_django.store.approvals import Counts, approve_version
from allm_django.store.calls import apply
from allm_django.store.deadlines import set_deadlines
from allm_django.store.drift import allowed_verbs, drift, gone
from allm_django.store.expiry import TIMED, expire_due
from allm_django.store.grants import give_grant
from allm_django.store.record import name_of, record, shown_of
from allm_django.store.rules import forbidden
from allm_django.store.tools import current_version
from allm_django.store.writing import Writing, alias, writing

TOO_LATE = "The time to decide this call has run out; it was closed."
LETS_RUN = ("approve", "edit", "retry")
DECIDABLE = (CallState.PENDING, CallState.UNKNOWN, CallState.ASKING)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asks for: the verb, the version they saw, and the verb's own field."""

    verb: str
    version: int
    arguments: JSONObject | None = None
    reason: str = ""
    value: JSON = None
    grant: JSONObject | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """What a verb does to a call: where it goes, what is told, and what stands on record."""

    settlement: Settlement
    kind: EventKind
    arguments: JSONObject | None = field(default=None)


def decide(
    session_id: UUID,
    call_id: UUID,
    wish: Wish,
    *,
    by: Any,
    key: str | None = None,
    check: Callable[[ToolCall], None] | None = None,
    counts: Counts,
    requeue: Callable[[Writing], None],
) -> ToolCall:
    """Decide one call, under its session's lock. ``check`` raises if ``by`` may not; ``counts`` tells of whom an
    earlier approval still counts.

    Raises AlreadyDecidedError (with the call as the winner left it, or as expired just now), VersionMismatchError,
    AlreadyApprovedError, InvalidInputError, ConflictError when the tool changed since the call was asked. Nothing is
    written then, but that the call has expired.
    """
    print_ = keys.fingerprint(
        "decide", call_id, wish.verb, wish.version, wish.arguments, wish.reason, wish.value, wish.grant
    )
    if keys.seen(by, key, print_):
        return _row(call_id)
    terms = _terms(wish)
    try:
        with writing(session_id) as tx:
            call = _row(call_id)
            if check is not None:
                check(call)
            moved = late = _expire(tx, call)
            if not late:
                keys.take(by, key, print_, call_id)
                _refuse_settled(call)
                _refuse_stale(call, wish)
                _refuse_verb(call, wish)
                shown = shown_of(call)
                move = MOVES[wish.verb](call, wish)
                if terms is not None:
                    give_grant(tx, call, terms, by)
                moved = _carry_out(tx, call, wish, _counted(tx, call, wish, move, by, counts), by, shown)
            if moved:
                requeue(tx)
    except keys.DuplicateRequestError:
        return _row(call_id)
    if late:
        raise AlreadyDecidedError(TOO_LATE, call=_row(call_id), state=CallState.SETTLED)
    return call


def _expire(tx: Writing, call: ToolCall) -> bool:
    """Whether the time of ``call`` has run out, sweeper or not: then it is closed here and now (H11)."""
    due = call.state in TIMED and call.expires_at is not None and call.expires_at <= tx.now
    return due and call.pk in [row.pk for row in expire_due(tx)]


def _counted(tx: Writing, call: ToolCall, wish: Wish, move: Move, by: Any, counts: Counts) -> Move:
    """``move``, or while more people have to approve: where the call stays (H10). An edit begins anew."""
    if wish.verb not in LETS_RUN:
        return move
    edited = move.arguments is not None
    if approve_version(call, call.version + edited, by, name_of(by), tx.now, counts):
        return move
    return Move(
        Settlement(CallState(call.state)), move.kind if edited else EventKind.CALL_PARTLY_APPROVED, move.arguments
    )


def _carry_out(tx: Writing, call: ToolCall, wish: Wish, move: Move, by: Any, shown: JSONObject) -> bool:
    """Write it all down; whether the call has gone on from where it was."""
    outcome = move.settlement.outcome or move.settlement.state
    stays = move.settlement.state == call.state
    record(
        tx,
        call,
        verb=wish.verb,
        by=by,
        outcome=outcome,
        arguments=move.arguments,
        reason=wish.reason,
        value=to_json(wish.value if wish.grant is None else {"grant": wish.grant}),
        shown=shown,
        decides=not stays,
    )
    if move.arguments is not None:
        call.arguments = move.arguments
    if not stays:
        apply(tx, call, move.settlement)
    else:
        if move.kind is not EventKind.CALL_PARTLY_APPROVED:
            call.version += 1
        call.save(using=alias())
        tx.inbox_changed = True
    tx.tell(move.kind, calls=[call])
    return not stays


def _terms(wish: Wish) -> GrantTerms | None:
    """What is to be allowed beforehand; only with a plain approval, so that the person has seen what they allow."""
    if wish.grant is None:
        return None
    if wish.verb != "approve":
        raise InvalidInputError(f"grant: goes with approve only, not with {str(wish.verb)[:40]!r}.", field="grant")
    return read_terms(wish.grant)


def _approve(call: ToolCall, wish: Wish) -> Move:
    _refuse_unrunnable(call)
    return Move(Settlement(CallState.READY), EventKind.CALL_APPROVED)


def _edit(call: ToolCall, wish: Wish) -> Move:
    """Replace the arguments, then approve; validated against the schema that was shown, and by the rules (H05, H12)."""
    _refuse_unrunnable(call)
    arguments, problem = parse_arguments(wish.arguments)
    if arguments is None or wish.arguments is None:
        raise InvalidInputError(f"arguments: {problem or 'the new arguments are missing.'}", field="arguments")
    assert call.tool_version is not None
    problem = check_arguments(call.tool_version.data["schema"], arguments) or forbidden(call.name, arguments)
    if problem:
        raise InvalidInputError(f"arguments: {problem}", field="arguments")
    return Move(Settlement(CallState.READY), EventKind.CALL_EDITED, arguments)


def _reject(call: ToolCall, wish: Wish) -> Move:
    settlement = settle_rejected(call.call_id, wish.reason, may_have_run=call.state == CallState.UNKNOWN)
    return Move(settlement, EventKind.CALL_REJECTED)


def _answer(call: ToolCall, wish: Wish) -> Move:
    return Move(settle_answered(call.call_id, to_json(wish.value)), EventKind.CALL_ANSWERED)


def _retry(call: ToolCall, wish: Wish) -> Move:
    _refuse_unrunnable(call)
    return Move(Settlement(CallState.READY), EventKind.CALL_RETRIED)


def _reask(call: ToolCall, wish: Wish) -> Move:
    """The tool changed since: freeze it as it is now, if the arguments still fit, and ask again from now on (H04)."""
    version = call.tool_version
    if version is None or version.tool is None or gone(call):
        raise ConflictError(f"{drift(call)} It can only be rejected or answered by hand.", call=call, state=call.state)
    now = current_version(version.tool)
    if problem := check_arguments(now.data["schema"], call.arguments or {}):
        raise ConflictError(
            f"The tool was changed and these arguments no longer fit. {problem}", call=call, state=call.state
        )
    call.tool_version = now
    set_deadlines(call, clock.now())
    return Move(Settlement(CallState.PENDING), EventKind.CALL_REASKED)


MOVES: dict[str, Callable[[ToolCall, Wish], Move]] = {
    "approve": _approve,
    "edit": _edit,
    "reject": _reject,
    "answer": _answer,
    "retry": _retry,
    "reask": _reask,
}


def _row(call_id: UUID) -> ToolCall:
    rows = ToolCall.objects.using(alias()).select_related("tool_version__tool", "session", "message")
    call = rows.filter(pk=call_id).first()
    if call is None:
        raise NotFoundError("There is no such call.")
    return call


def _refuse_settled(call: ToolCall) -> None:
    if call.state not in DECIDABLE:
        who = f" by {call.decided_name} ({call.decided_verb})" if call.decided_verb else ""
        raise AlreadyDecidedError(
            f"This call was already settled{who}; it is {call.outcome or call.state} now.", call=call, state=call.state
        )


def _refuse_stale(call: ToolCall, wish: Wish) -> None:
    if isinstance(wish.version, bool) or not isinstance(wish.version, int):
        raise InvalidInputError("version: the version of the call that you saw is needed.", field="version")
    if wish.version != call.version:
        raise VersionMismatchError(call=call, state=call.state)


def _refuse_verb(call: ToolCall, wish: Wish) -> None:
    if wish.verb not in MOVES:
        known = ", ".join(MOVES)
        raise InvalidInputError(f"verb: {str(wish.verb)[:40]!r} is not one of {known}.", field="verb")
    verbs = allowed_verbs(call)
    if wish.verb in verbs:
        return
    if wish.verb in ("approve", "edit") and (changed := drift(call)):
        raise ConflictError(f"{changed} Ask again or reject.", code="changed_since_asked", call=call, state=call.state)
    offered = ", ".join(verbs) or "nothing"
    words = f"verb: {wish.verb!r} is not possible while the call is {call.state}; {offered} is."
    raise InvalidInputError(words, field="verb", state=call.state)


def _refuse_unrunnable(call: ToolCall) -> None:
    if call.tool_version is None:
        raise ConflictError(
            "There is no tool that could run this; answer by hand or reject.", call=call, state=call.state
        )
