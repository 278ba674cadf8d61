"""The loop's only brain: what happens next, from a snapshot of where things stand.

Pure: the same snapshot always gives the same action. Whoever drives the loop (stateless or stored) loads a
snapshot, asks here, does the one thing and looks again, so a crash anywhere just means asking once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from allm_django.core.limits import reached, tokens_of
from allm_django.core.output import Output
from allm_django.core.states import OPEN_STATES, CallState, HaltedReason
from allm_django.core.streaks import Streaks
from allm_django.core.types import JSONObject, Limits, Usage

MAX_BLANK_ANSWERS = 2
TOOL_ERROR_EFFECT = "tool_error"
TERMINAL_EFFECT = "terminal_tool"
WORD_EFFECT = "halt:"
BOUNDS = ("", HaltedReason.MAX_TURNS, HaltedReason.LIMIT)  # what comes after halt_when, so the step is checked first


@dataclass(frozen=True, slots=True)
class CallView:
    """What the brain sees of a call. ``effect`` is what its result asks of the loop, if it was made in this
    run: ``""``, ``"tool_error"``, ``"terminal_tool"`` or ``"halt:<word>"``. ``parent``: the recipe whose step it is.
    ``let_through``: a person has decided that it runs.
    """

    id: str
    state: CallState
    effect: str = ""
    parent: str = ""
    let_through: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a run stands. ``calls`` are those of the thread's last complete assistant message, in order, with the
    steps of those that are recipes.

    ``turns`` counts model round trips of this run; ``blanks`` the empty answers at the thread's end;
    ``answered``: the thread ends with an assistant message that has text and no calls, made in this run.
    ``step_checked``: the engine's ``halt_when`` has seen the last step (or there is none to ask);
    ``halt_when`` is its verdict.
    """

    limits: Limits
    calls: tuple[CallView, ...] = ()
    turns: int = 0
    blanks: int = 0
    answered: bool = False
    cancel_requested: bool = False
    error: str = ""
    halt_when: bool = False
    step_checked: bool = True
    calls_used: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    streaks: Streaks = field(default_factory=Streaks)
    output: Output | None = None


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model for its next answer; ``nudge``: its last one was empty, say so (L12)."""

    nudge: bool = False


@dataclass(frozen=True, slots=True)
class ExecuteCalls:
    """Start these calls now, side by side (T18); a delegated one among them goes on with its recipe (R07)."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropCalls:
    """The run's time is up: these calls are not started any more, and get a synthetic result that says so (L10)."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AwaitCalls:
    """Nothing to start; calls are at work. Look again when one ends or a person decides."""


@dataclass(frozen=True, slots=True)
class CheckStep:
    """Ask the engine's ``halt_when`` about the step that just ended (L07)."""


@dataclass(frozen=True, slots=True)
class FormatAnswer:
    """The model has answered; ask it for the answer in the form that the engine wants (L13)."""


@dataclass(frozen=True, slots=True)
class CloseCalls:
    """The run was cancelled: stop what can be stopped, give every open call its synthetic result (L15)."""


@dataclass(frozen=True, slots=True)
class HaltRun:
    """Stop. ``waiting``: something is open, the same run goes on after a person acts; else it has ended."""

    reason: str
    waiting: bool = False
    metadata: JSONObject = field(default_factory=dict)


Action: TypeAlias = CallModel | ExecuteCalls | DropCalls | AwaitCalls | CheckStep | FormatAnswer | CloseCalls | HaltRun


def next_action(snapshot: Snapshot) -> Action:
    """What to do now (L04–L07, L12, L15; the order of reasons is design.md's)."""
    states = {call.state for call in snapshot.calls}
    if snapshot.cancel_requested:
        return _when_cancelled(states)
    if too_late := _too_late(snapshot):
        return DropCalls(too_late)
    if ready := startable(snapshot.calls):
        return ExecuteCalls(ready)
    if CallState.EXECUTING in states:
        return AwaitCalls()
    reason = halted_reason(snapshot, states)
    if reason in BOUNDS and not snapshot.step_checked and not snapshot.blanks:
        return CheckStep()
    if reason == HaltedReason.COMPLETED and _wants_output(snapshot):
        if not out_of_time(snapshot):
            return FormatAnswer()
        reason = HaltedReason.LIMIT
    if not reason:
        return CallModel(nudge=snapshot.blanks > 0)
    return HaltRun(reason, bool(states & OPEN_STATES), _metadata(snapshot, reason))


def startable(calls: Iterable[CallView]) -> tuple[str, ...]:
    """What can start: ready calls, and recipes none of whose steps is unsettled; those go on from the results (R07)."""
    listed = tuple(calls)
    busy = {call.parent for call in listed if call.state is not CallState.SETTLED}
    return tuple(
        call.id
        for call in listed
        if call.state is CallState.READY or (call.state is CallState.DELEGATED and call.id not in busy)
    )


def out_of_time(snapshot: Snapshot) -> bool:
    """Whether the run has been at work for as long as it may."""
    bound = snapshot.limits.max_seconds
    return bound is not None and snapshot.seconds >= bound


def halted_reason(snapshot: Snapshot, states: Iterable[CallState]) -> str:
    """The first reason that applies now that nothing is ready or at work, or ``""`` to go on (L05)."""
    open_now = set(states)
    effects = [call.effect for call in snapshot.calls]
    reasons = (
        (HaltedReason.ERROR, _has_failed(snapshot)),
        (HaltedReason.ASK_USER, CallState.ASKING in open_now),
        (HaltedReason.TOOL_ERROR, TOOL_ERROR_EFFECT in effects),
        (_own_word(effects), bool(_own_word(effects))),
        (HaltedReason.UNKNOWN_OUTCOME, CallState.UNKNOWN in open_now),
        (HaltedReason.MANUAL_TOOL_CALLS, CallState.PENDING in open_now),
        (HaltedReason.TERMINAL_TOOL, TERMINAL_EFFECT in effects),
        (HaltedReason.COMPLETED, snapshot.answered),
        (HaltedReason.HALT_WHEN, snapshot.halt_when),
        (HaltedReason.MAX_TURNS, snapshot.turns >= snapshot.limits.max_turns),
        (HaltedReason.LIMIT, bool(reached_limit(snapshot))),
    )
    return next((str(reason) for reason, applies in reasons if applies), "")


def reached_limit(snapshot: Snapshot) -> JSONObject:
    """The first bound that this run has reached (L10) in name, number and words, or ``{}``."""
    used = {
        "max_calls": snapshot.calls_used,
        "max_tokens": tokens_of(snapshot.usage),
        "max_cost": snapshot.usage.cost,
        "max_seconds": snapshot.seconds,
        "max_identical_calls": snapshot.streaks.identical,
        "max_rejections": snapshot.streaks.rejections,
        "max_parse_failures": snapshot.streaks.parse_failures,
    }
    return reached(snapshot.limits, used)


def _too_late(snapshot: Snapshot) -> tuple[str, ...]:
    """Calls that would start after the run's time; what a person has let through still runs."""
    if not out_of_time(snapshot):
        return ()
    return tuple(call.id for call in snapshot.calls if call.state is CallState.READY and not call.let_through)


def _has_failed(snapshot: Snapshot) -> bool:
    hopeless = snapshot.output is not None and snapshot.output.is_hopeless
    return bool(snapshot.error) or hopeless or snapshot.blanks > MAX_BLANK_ANSWERS


def _wants_output(snapshot: Snapshot) -> bool:
    return snapshot.output is not None and not snapshot.output.is_ready


def _when_cancelled(states: set[CallState]) -> Action:
    if states - {CallState.SETTLED, CallState.UNKNOWN}:
        return CloseCalls()
    return HaltRun(HaltedReason.CANCELLED, waiting=CallState.UNKNOWN in states)


def _own_word(effects: Iterable[str]) -> str:
    return next((effect.removeprefix(WORD_EFFECT) for effect in effects if effect.startswith(WORD_EFFECT)), "")


def _metadata(snapshot: Snapshot, reason: str) -> JSONObject:
    found: JSONObject = {}
    if pending := [call.id for call in snapshot.calls if call.state is CallState.PENDING]:
        found["manual_tool_calls"] = pending
    if reason == HaltedReason.LIMIT:
        found |= reached_limit(snapshot)
    if reason == HaltedReason.ERROR and not snapshot.error:
        found["error"] = "invalid_output" if _wants_output(snapshot) and not snapshot.blanks else "blank_answers"
    return found
