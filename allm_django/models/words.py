"""States, outcomes and verbs in words for people: the choices of the fields that hold them."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from allm_django.core.states import CallState, HaltedReason, Outcome, RunState, SessionStatus

CALL_STATES = (
    (CallState.READY.value, _("about to run")),
    (CallState.PENDING.value, _("waiting for a decision")),
    (CallState.EXECUTING.value, _("running")),
    (CallState.ASKING.value, _("has a question")),
    (CallState.DELEGATED.value, _("running in steps")),
    (CallState.UNKNOWN.value, _("outcome unknown")),
    (CallState.SETTLED.value, _("settled")),
)
OUTCOMES = (
    (Outcome.SUCCEEDED.value, _("done")),
    (Outcome.FAILED.value, _("failed")),
    (Outcome.ANSWERED.value, _("answered by a person")),
    (Outcome.REJECTED.value, _("rejected")),
    (Outcome.EXPIRED.value, _("nobody decided in time")),
    (Outcome.SUPERSEDED.value, _("overtaken by a new message")),
    (Outcome.CANCELLED.value, _("cancelled")),
    (Outcome.INVALID.value, _("not run: wrong arguments")),
    (Outcome.DENIED.value, _("not run: a rule forbids it")),
    (Outcome.UNAVAILABLE.value, _("not run: tool not available")),
)
# What a decision led to: the call's end, or its way to it.
DECISION_OUTCOMES = (
    (CallState.READY.value, _("approved, to run")),
    (CallState.PENDING.value, _("waits on")),
    (CallState.UNKNOWN.value, _("waits on, outcome unknown")),
    *OUTCOMES,
)
DECISION_VERBS = (
    ("approve", pgettext_lazy("verb", "approve")),
    ("edit", pgettext_lazy("verb", "change and approve")),
    ("answer", pgettext_lazy("verb", "answer by hand")),
    ("reject", pgettext_lazy("verb", "reject")),
    ("retry", pgettext_lazy("verb", "try again")),
    ("reask", pgettext_lazy("verb", "ask again")),
    ("grant", pgettext_lazy("verb", "allowed beforehand")),
)
RULE_EFFECTS = (("deny", _("deny")), ("ask", _("ask a person")), ("allow", _("allow")))
GRANT_SCOPES = (("session", _("this conversation")), ("user", _("all conversations of this person")))
GRANT_MATCHES = (
    ("exact", _("exactly these arguments")),
    ("any", _("any arguments")),
    ("pattern", _("arguments that fit a schema")),
)
RUN_STATES = (
    (RunState.QUEUED.value, _("queued")),
    (RunState.RUNNING.value, _("running")),
    (RunState.WAITING.value, _("waits for people")),
    (RunState.ENDED.value, _("ended")),
)
SESSION_STATUSES = (
    (SessionStatus.IDLE.value, _("new")),
    (SessionStatus.RUNNING.value, _("running")),
    (SessionStatus.AWAITING_USER.value, _("waits for its owner")),
    (SessionStatus.AWAITING_TOOLS.value, _("waits for a decision")),
    (SessionStatus.COMPLETED.value, _("completed")),
    (SessionStatus.ERROR.value, _("ended with an error")),
)
# Not a field's choices: a handler's own word may stand there.
HALTED_REASONS = {
    HaltedReason.CANCELLED.value: _("cancelled"),
    HaltedReason.ERROR.value: _("error"),
    HaltedReason.ASK_USER.value: _("a tool asks the owner"),
    HaltedReason.TOOL_ERROR.value: _("a tool failed"),
    HaltedReason.UNKNOWN_OUTCOME.value: _("a call’s outcome is unknown"),
    HaltedReason.MANUAL_TOOL_CALLS.value: _("calls wait for a decision"),
    HaltedReason.TERMINAL_TOOL.value: _("terminal tool called"),
    HaltedReason.COMPLETED.value: _("completed"),
    HaltedReason.HALT_WHEN.value: _("the engine’s rule"),
    HaltedReason.MAX_TURNS.value: _("most turns reached"),
    HaltedReason.LIMIT.value: _("limit reached"),
}
