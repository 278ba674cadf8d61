"""New calls: their ids and verdicts; and whether one that was let through may still start."""

from __future__ import annotations

import uuid
from dataclasses import replace

from allm_django.core.encode import to_text
from allm_django.core.ids import usable_ids
from allm_django.core.policy import Verdict, judge
from allm_django.core.settle import NOT_AGAIN
from allm_django.core.states import CallState
from allm_django.models import Message, Tool, ToolCall
from allm_django.providers.base import RawCall
from allm_django.signals import call_settled
from allm_django.store.deadlines import set_deadlines
from allm_django.store.drift import drift, gone
from allm_django.store.offers import StoredOffer
from allm_django.store.rules import rules_now
from allm_django.store.writing import Writing, alias


def new_calls(tx: Writing, message: Message, offer: StoredOffer, raw_calls: tuple[RawCall, ...]) -> list[ToolCall]:
    """The calls of an answer, in order, each with its id and its verdict by the rules of this moment; not saved yet."""
    judged_by = replace(offer.offer, rules=rules_now()) if raw_calls else offer.offer
    offer = replace(offer, offer=judged_by)
    return [_new_call(tx, message, offer, place, given) for place, given in enumerate(_with_ids(tx, raw_calls))]


def _with_ids(tx: Writing, raw_calls: tuple[RawCall, ...]) -> list[tuple[str, RawCall]]:
    given = [to_text(raw.id) for raw in raw_calls]
    rows = ToolCall.objects.using(alias()).filter(session=tx.session, call_id__in=given)
    taken = set(rows.values_list("call_id", flat=True)) if raw_calls else set()
    return list(zip(usable_ids(given, taken, lambda: f"call_{uuid.uuid4().hex[:24]}"), raw_calls, strict=True))


def _new_call(tx: Writing, message: Message, offer: StoredOffer, place: int, given: tuple[str, RawCall]) -> ToolCall:
    call_id, raw = given
    verdict = judge(call_id, raw.name, raw.arguments, offer.offer)
    call = ToolCall(
        session=tx.session,
        run=tx.run,
        message=message,
        position=place,
        call_id=call_id,
        provider_id=to_text(raw.id)[:255],
        name=to_text(raw.name)[:255],
        tool_version=offer.versions.get(raw.name),
        raw_arguments=to_text(raw.arguments),
        asked_arguments=verdict.arguments,
        arguments=verdict.arguments,
        why=verdict.why,
        rule=verdict.rule,
        shadow=list(verdict.shadow) or None,
        state=verdict.state,
        outcome=verdict.outcome or "",
        effect=verdict.effect,
        created_at=tx.now,
    )
    give_verdict(tx, call, verdict)
    return call


def give_verdict(tx: Writing, call: ToolCall, verdict: Verdict) -> None:
    """Put a verdict's result on a new call, or the times until which it waits."""
    result = verdict.result
    if result is not None:
        call.result, call.content, call.finished_at = result.value, result.content, tx.now
        call.error = {"code": result.code, "message": result.message, "detail": ""} if result.code else None
        tx.send(call_settled, call, name=call.name, outcome=str(call.outcome))
    if verdict.state is CallState.PENDING:
        set_deadlines(call, tx.now)


def stale(call: ToolCall) -> str:
    """Why a ready call may not run any more, or ``""``. The session's lock does not hold the tool: read it now."""
    _read_tool(call)
    changed = drift(call)
    return f"{changed} {NOT_AGAIN if call.attempt else 'The call was not run.'}" if changed else ""


def lost(call: ToolCall) -> str:
    """Why a recipe may not go on, or ``""``: its tool is gone. One that only changed goes on; its plan is checked."""
    _read_tool(call)
    return gone(call)


def _read_tool(call: ToolCall) -> None:
    version = call.tool_version
    if version is not None and version.tool_id is not None:
        version.tool = Tool.objects.using(alias()).filter(pk=version.tool_id).first()
