"""Rows as JSON, the same for every viewer: arguments masked. Events carry these; ``present`` adds the viewer's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from allm_django.core.encode import MASK, mask
from allm_django.core.headline import headline
from allm_django.core.states import CallState, HaltedReason
from allm_django.core.types import JSONObject
from allm_django.models import Message, Run, Session, ToolCall
from allm_django.store.approvals import approvals_shape, quorum_of

RESULT_SHOWN = 4_000
HALTED_TEXTS = {
    "cancelled": "Stopped.",
    "error": "Something went wrong. You can try again.",
    "ask_user": "Waiting for your answer.",
    "tool_error": "A tool failed, and this assistant stops on that. You can go on.",
    "unknown_outcome": "A tool may or may not have taken effect. Someone must look.",
    "manual_tool_calls": "Waiting for a decision.",
    "terminal_tool": "Done.",
    "completed": "",
    "halt_when": "Stopped as this assistant is set up to.",
    "max_turns": "The most turns for one message were used up. Go on, and it starts counting anew.",
    "limit": "A limit of this assistant was reached. You can go on.",
}


def session_shape(session: Session, run: Run | None) -> JSONObject:
    """What changes of a session while it runs."""
    return {
        "id": str(session.id),
        "title": session.title,
        "status": str(session.status),
        "run": run_shape(run) if run else None,
        "usage": session.usage,
        "waiting": session.waiting,
        "cancel_requested": session.cancel_requested,
        "event": session.event_count,
    }


def run_shape(run: Run) -> JSONObject:
    """A run; its error without what is for staff only."""
    error = run.error and {key: value for key, value in run.error.items() if key != "detail"}
    return {
        "id": str(run.id),
        "kind": str(run.kind),
        "request_id": run.request_id,
        "state": str(run.state),
        "halted_reason": run.halted_reason,
        "halted_text": halted_text(run),
        "turns": run.turns,
        "calls_used": run.calls_used,
        "seconds": round(run.seconds, 3),
        "limit": run.halted_metadata.get("limit"),
        "error": error,
        "output": (run.output or {}).get("value"),
        "usage": run.usage,
        "created_at": moment(run.created_at),
        "ended_at": moment(run.ended_at),
    }


def halted_text(run: Run) -> str:
    """Why a run stands still, in words."""
    if run.kind == Run.Kind.STEP and run.halted_reason == HaltedReason.MAX_TURNS:
        return "One step is done. You can go on."
    if run.halted_reason == HaltedReason.LIMIT and (text := run.halted_metadata.get("text")):
        return str(text)
    return HALTED_TEXTS.get(run.halted_reason, run.halted_reason.replace("_", " "))


def message_shape(message: Message, calls: Iterable[str] = ()) -> JSONObject:
    """A message; ``calls`` are the ids of its calls in order."""
    return {
        "id": str(message.id),
        "session": str(message.session_id),
        "run": message.run_id and str(message.run_id),
        "position": message.position,
        "role": str(message.role),
        "text": message.text,
        "thinking": message.thinking,
        "complete": message.complete,
        "streaming": message.streaming,
        "broken": message.broken,
        "model": message.model,
        "created_at": moment(message.created_at),
        "calls": list(calls),
    }


def call_shape(call: ToolCall, *, masked: bool = True) -> JSONObject:
    """A call. ``masked`` hides its sensitive fields (T26)."""
    data: dict[str, Any] = call.tool_version.data if call.tool_version else {}
    sensitive: Sequence[str] = data.get("sensitive", ()) if masked else ()
    arguments = masked_arguments(call.arguments, sensitive)
    title = data.get("title") or call.name
    template = str((data.get("metadata") or {}).get("headline", ""))
    required = data.get("schema", {}).get("required", ())
    return {
        "id": str(call.id),
        "session": str(call.session_id),
        "run": str(call.run_id),
        "message": str(call.message_id),
        "parent": call.parent_id and str(call.parent_id),
        "label": call.label,
        "position": call.position,
        "call_id": call.call_id,
        "name": call.name,
        "title": title,
        "headline": headline(title, arguments, template, required),
        "arguments": arguments,
        "asked_arguments": masked_arguments(call.asked_arguments, sensitive),
        "raw_arguments": MASK if sensitive else call.raw_arguments,
        "edited": call.arguments != call.asked_arguments,
        "state": str(call.state),
        "outcome": str(call.outcome),
        "version": call.version,
        "manual": bool(data.get("manual", False)),
        "why": call.why,
        "rule": call.rule,
        "question": call.question,
        "result": _result_shape(call),
        "error": call.error and {"code": call.error["code"], "message": call.error["message"]},
        "late_result": call.late_result,
        "decided": _decided_shape(call),
        "progress": call.progress,
        "attempt": call.attempt,
        "created_at": moment(call.created_at),
        "started_at": moment(call.started_at),
        "finished_at": moment(call.finished_at),
        "expires_at": moment(call.expires_at),
        "escalates_at": moment(call.escalates_at),
        "escalated": call.escalated,
        "quorum": quorum_of(call),
        "four_eyes": bool(data.get("four_eyes", False)),
        "approvals": approvals_shape(call),
    }


def masked_arguments(arguments: JSONObject | None, sensitive: Sequence[str]) -> Any:
    """``arguments`` with the named fields hidden."""
    return mask(arguments, sensitive) if arguments and sensitive else arguments


def moment(value: Any) -> str | None:
    """A time as ISO 8601, or None."""
    return value.isoformat().replace("+00:00", "Z") if value else None


def _result_shape(call: ToolCall) -> JSONObject | None:
    if call.state != CallState.SETTLED:
        return None
    return {"text": call.content[:RESULT_SHOWN], "truncated": len(call.content) > RESULT_SHOWN}


def _decided_shape(call: ToolCall) -> JSONObject | None:
    if not call.decided_verb:
        return None
    return {
        "by": call.decided_name,
        "verb": call.decided_verb,
        "at": moment(call.decided_at),
        "reason": call.decided_reason,
    }
