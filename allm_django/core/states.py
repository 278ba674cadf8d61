"""States of calls and runs, and the allowed transitions, as tables (H02, L05, S01)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from allm_django.errors import StateError


class CallState(StrEnum):
    """Where a call stands. Only ``settled`` has a result."""

    READY = "ready"
    PENDING = "pending"
    EXECUTING = "executing"
    ASKING = "asking"
    DELEGATED = "delegated"
    UNKNOWN = "unknown"
    SETTLED = "settled"


class Outcome(StrEnum):
    """How a call was settled."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ANSWERED = "answered"
    REJECTED = "rejected"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    INVALID = "invalid"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"


class RunState(StrEnum):
    """Where a run stands: ``waiting`` halted with something open, ``ended`` with nothing open."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    ENDED = "ended"


class HaltedReason(StrEnum):
    """Why a loop halted; a handler's own word may stand in its place. In order of precedence."""

    CANCELLED = "cancelled"
    ERROR = "error"
    ASK_USER = "ask_user"
    TOOL_ERROR = "tool_error"
    UNKNOWN_OUTCOME = "unknown_outcome"
    MANUAL_TOOL_CALLS = "manual_tool_calls"
    TERMINAL_TOOL = "terminal_tool"
    COMPLETED = "completed"
    HALT_WHEN = "halt_when"
    MAX_TURNS = "max_turns"
    LIMIT = "limit"


class SessionStatus(StrEnum):
    """A session's status, derived from its run (S01)."""

    IDLE = "idle"
    RUNNING = "running"
    AWAITING_USER = "awaiting_user"
    AWAITING_TOOLS = "awaiting_tools"
    COMPLETED = "completed"
    ERROR = "error"


_S, _O = CallState, Outcome

# (from, to) -> the outcomes it may carry; an empty set: the new state has none.
CALL_TRANSITIONS: dict[tuple[CallState, CallState], frozenset[Outcome]] = {
    (_S.READY, _S.EXECUTING): frozenset(),
    (_S.READY, _S.DELEGATED): frozenset(),
    (_S.READY, _S.SETTLED): frozenset({_O.CANCELLED, _O.SUPERSEDED, _O.UNAVAILABLE}),
    (_S.PENDING, _S.READY): frozenset(),
    (_S.PENDING, _S.SETTLED): frozenset({_O.ANSWERED, _O.REJECTED, _O.EXPIRED, _O.SUPERSEDED, _O.CANCELLED}),
    (_S.EXECUTING, _S.SETTLED): frozenset({_O.SUCCEEDED, _O.FAILED, _O.CANCELLED}),
    (_S.EXECUTING, _S.ASKING): frozenset(),
    (_S.EXECUTING, _S.UNKNOWN): frozenset(),
    (_S.EXECUTING, _S.READY): frozenset(),  # a crash of an idempotent call: again, with the same key (H07)
    (_S.ASKING, _S.SETTLED): frozenset({_O.ANSWERED, _O.EXPIRED, _O.SUPERSEDED, _O.CANCELLED}),
    (_S.DELEGATED, _S.SETTLED): frozenset({_O.SUCCEEDED, _O.FAILED, _O.CANCELLED, _O.SUPERSEDED}),
    (_S.DELEGATED, _S.EXECUTING): frozenset(),  # the recipe gave no plan: its direct handler does the work (R06)
    (_S.DELEGATED, _S.ASKING): frozenset(),  # its compose asks the user
    (_S.UNKNOWN, _S.SETTLED): frozenset({_O.ANSWERED, _O.REJECTED}),
    (_S.UNKNOWN, _S.READY): frozenset(),
}

RUN_TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.WAITING, RunState.ENDED}),
    RunState.RUNNING: frozenset({RunState.QUEUED, RunState.WAITING, RunState.ENDED}),
    RunState.WAITING: frozenset({RunState.QUEUED, RunState.ENDED}),
    RunState.ENDED: frozenset(),
}

OPEN_STATES = frozenset({_S.PENDING, _S.ASKING, _S.UNKNOWN})


def check_call_transition(old: CallState, new: CallState, outcome: Outcome | None) -> None:
    """Raise StateError unless a call may go from ``old`` to ``new`` with ``outcome`` (H02)."""
    allowed = CALL_TRANSITIONS.get((old, new))
    if allowed is None or (outcome is None) != (not allowed) or (outcome is not None and outcome not in allowed):
        what = f"{new}/{outcome}" if outcome else str(new)
        raise StateError(f"A call that is {old} can't become {what}.", state=str(old))


def check_run_transition(old: RunState, new: RunState) -> None:
    """Raise StateError unless a run may go from ``old`` to ``new``."""
    if new not in RUN_TRANSITIONS[old]:
        raise StateError(f"A run that is {old} can't become {new}.", state=str(old))


def session_status(
    run_state: RunState | None, halted_reason: str = "", open_states: Iterable[CallState] = ()
) -> SessionStatus:
    """The status of a session whose latest run is as given (S01)."""
    if run_state is None:
        return SessionStatus.IDLE
    if run_state in (RunState.QUEUED, RunState.RUNNING):
        return SessionStatus.RUNNING
    if run_state is RunState.WAITING:
        return SessionStatus.AWAITING_USER if CallState.ASKING in open_states else SessionStatus.AWAITING_TOOLS
    if halted_reason in (HaltedReason.ERROR, HaltedReason.TOOL_ERROR):
        return SessionStatus.ERROR
    return SessionStatus.COMPLETED
