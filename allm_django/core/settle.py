"""What becomes of a call that was started, closed or decided: its next state, outcome and the model's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from allm_django.core.decide import TOOL_ERROR_EFFECT, WORD_EFFECT
from allm_django.core.encode import model_copy, to_text
from allm_django.core.history import REJECTED
from allm_django.core.policy import error_result
from allm_django.core.states import CallState, Outcome
from allm_django.core.types import JSON, JSONObject, ToolResult

MAY_HAVE_RUN = "It did not end in time and may have taken effect. Do not simply call it again; check first."
NOT_AGAIN = "It was not run again; its first try may have taken effect."
STOPPED_AT_WORK = "The person cancelled while this call was running. It was stopped and may have done part of its work."
CLOSED_HALFWAY = "This call was stopped before its end. Some of its steps may have taken effect."
OUT_OF_TIME = "The time for this message was used up before this call was started. It was not run."
CUT_SHORT = "The time for this message was used up before the tool had finished."
NO_ENGINE = "The assistant could not go on. This call was not run."
NOT_ANSWERED = "Nobody answered the question in time."
CLOSED_TEXTS = {
    Outcome.CANCELLED: "The person cancelled. This call was not run.",
    Outcome.SUPERSEDED: "The person wrote on instead of deciding. This call was not run.",
    Outcome.EXPIRED: "Nobody decided in time. This call was not run.",
    Outcome.UNAVAILABLE: "This tool is no longer available as it was offered. The call was not run.",
}


@dataclass(frozen=True, slots=True)
class Settlement:
    """Where a call goes next. ``result`` is set exactly when ``state`` is settled."""

    state: CallState
    outcome: Outcome | None = None
    result: ToolResult | None = None
    effect: str = ""
    question: JSONObject | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a handler ended, stripped of how it was run."""

    kind: Literal["ok", "error", "ask", "halt", "timeout"]
    value: JSON = None
    content: str = ""
    code: str = ""
    message: str = ""
    detail: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    word: str = ""


def settle_ending(
    call_id: str, ending: Ending, *, idempotent: bool, stored: bool, halt_on_error: bool = False
) -> Settlement:
    """The settlement of a call whose handler ended so (T11–T17)."""
    if ending.kind == "ask":
        question: JSONObject = {"text": ending.question, "options": list(ending.options)}
        return Settlement(CallState.ASKING, question=question)
    if ending.kind in ("ok", "halt"):
        result = ToolResult(call_id, value=ending.value, content=ending.content)
        effect = WORD_EFFECT + ending.word if ending.kind == "halt" else ""
        return Settlement(CallState.SETTLED, Outcome.SUCCEEDED, result, effect)
    if ending.kind == "timeout" and not idempotent and stored:
        return Settlement(CallState.UNKNOWN)
    message = ending.message
    if ending.kind == "timeout" and not idempotent:
        message = f"{message} {MAY_HAVE_RUN}"
    result = error_result(call_id, ending.code or ending.kind, message, detail=ending.detail)
    return Settlement(CallState.SETTLED, Outcome.FAILED, result, TOOL_ERROR_EFFECT if halt_on_error else "")


def halting_word(effect: str) -> str:
    """The word of a handler's Halt in a call's effect, or ``""``."""
    return effect.removeprefix(WORD_EFFECT) if effect.startswith(WORD_EFFECT) else ""


def settle_closed(call_id: str, outcome: Outcome, message: str = "") -> Settlement:
    """The synthetic result of a call that never ran to its end (L15, H09, H11)."""
    return Settlement(CallState.SETTLED, outcome, error_result(call_id, str(outcome), message or CLOSED_TEXTS[outcome]))


def settle_too_late(call_id: str) -> Settlement:
    """A call whose start is on record, but whose handler was not started: the run's time was up by then (L10)."""
    return Settlement(CallState.SETTLED, Outcome.FAILED, error_result(call_id, "timeout", OUT_OF_TIME))


def settle_rejected(call_id: str, reason: str, *, may_have_run: bool = False) -> Settlement:
    """A person said no (H03); to a call of unknown outcome only that it shall not be run again (H07)."""
    words = "A person closed this call. It may have taken effect." if may_have_run else REJECTED
    words += f" Reason: {reason}" if reason else ""
    return Settlement(CallState.SETTLED, Outcome.REJECTED, error_result(call_id, "rejected", words))


def settle_answered(call_id: str, value: JSON) -> Settlement:
    """A person gave the result by hand (H03) or answered the question (T13)."""
    result = ToolResult(call_id, value=value, content=model_copy(to_text(value)))
    return Settlement(CallState.SETTLED, Outcome.ANSWERED, result)


def settle_delegated(call_id: str, outcome: Outcome, words: str = "") -> Settlement:
    """The synthetic result of a recipe that is closed before its end; some of its steps may have run."""
    return Settlement(CallState.SETTLED, outcome, error_result(call_id, str(outcome), words or CLOSED_HALFWAY))


def after_crash(idempotent: bool) -> Settlement:
    """A call whose worker died while it ran: again with the same key, or a person's matter (H07)."""
    return Settlement(CallState.READY if idempotent else CallState.UNKNOWN)


def tell_edit(content: str, before: JSONObject | None, after: JSONObject | None) -> str:
    """The model's copy of an edited call's result: it is told that a person changed the call, and to what (H05)."""
    note = {"note": "A person changed this call before it ran.", "asked": before, "ran_with": after}
    return to_text({**note, "result": content})
