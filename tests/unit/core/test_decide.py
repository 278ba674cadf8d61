"""What happens next, from a snapshot: the order of reasons, and each rule by itself (L04–L07, L10, L12, L15)."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pytest

from allm_django.core.decide import (
    AwaitCalls,
    CallModel,
    CallView,
    CheckStep,
    CloseCalls,
    ExecuteCalls,
    HaltRun,
    Snapshot,
    next_action,
)
from allm_django.core.states import CallState
from allm_django.core.streaks import Streaks
from allm_django.core.types import Limits, Usage

S = CallState


def snapshot(*calls: CallView, **values: Any) -> Snapshot:
    return Snapshot(**{"limits": Limits(max_turns=5), "calls": calls, "turns": 1, **values})


def call(state: CallState, effect: str = "", id: str = "a") -> CallView:
    return CallView(id, state, effect)


def halt(reason: str, waiting: bool = False, **metadata: Any) -> HaltRun:
    return HaltRun(reason, waiting, metadata)


# One cause per reason, in the order in which design.md names them.
CAUSES: dict[str, dict[str, Any]] = {
    "error": {"error": "provider"},
    "ask_user": {"calls": (call(S.ASKING, id="asking"),)},
    "tool_error": {"calls": (call(S.SETTLED, "tool_error", id="failed"),)},
    "out_of_stock": {"calls": (call(S.SETTLED, "halt:out_of_stock", id="halted"),)},
    "unknown_outcome": {"calls": (call(S.UNKNOWN, id="unknown"),)},
    "manual_tool_calls": {"calls": (call(S.PENDING, id="pending"),)},
    "terminal_tool": {"calls": (call(S.SETTLED, "terminal_tool", id="terminal"),)},
    "completed": {"answered": True},
    "halt_when": {"halt_when": True},
    "max_turns": {"turns": 5},
    "limit": {"calls_used": 3, "limits": Limits(max_turns=5, max_calls=3)},
}


@pytest.mark.row("L05")
@pytest.mark.parametrize("reason", CAUSES)
def test_each_cause_alone_halts_with_its_own_word(reason: str) -> None:
    action = next_action(snapshot(**{"calls": (), **CAUSES[reason]}))
    assert isinstance(action, HaltRun)
    assert action.reason == reason


@pytest.mark.row("L05")
@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(CAUSES, 2)))
def test_of_two_causes_the_earlier_in_the_order_names_the_halt(first: str, second: str) -> None:
    one, other = CAUSES[first], CAUSES[second]
    calls = (*other.get("calls", ()), *one.get("calls", ()))
    action = next_action(Snapshot(**{"limits": Limits(max_turns=5), "turns": 1, **other, **one, "calls": calls}))
    assert isinstance(action, HaltRun)
    assert action.reason == first


@pytest.mark.row("L05", "L15")
@pytest.mark.parametrize("reason", CAUSES)
def test_a_cancel_comes_before_every_other_reason(reason: str) -> None:
    given = CAUSES[reason]
    action = next_action(snapshot(**{"calls": (), **given, "cancel_requested": True}))
    open_now = {view.state for view in given.get("calls", ())} & {S.ASKING, S.PENDING}
    if open_now:
        assert action == CloseCalls()
    else:
        assert action == halt("cancelled", waiting=reason == "unknown_outcome")


@pytest.mark.row("T18")
def test_ready_calls_start_together_in_the_order_asked() -> None:
    calls = (call(S.READY, id="a"), call(S.PENDING, id="b"), call(S.READY, id="c"))
    assert next_action(snapshot(*calls)) == ExecuteCalls(("a", "c"))


@pytest.mark.row("L04")
def test_a_pending_call_does_not_hold_up_its_siblings_and_the_halt_waits_for_them() -> None:
    assert next_action(snapshot(call(S.EXECUTING), call(S.PENDING, id="b"))) == AwaitCalls()
    assert next_action(snapshot(call(S.SETTLED), call(S.PENDING, id="b"))) == halt(
        "manual_tool_calls", True, manual_tool_calls=["b"]
    )


@pytest.mark.row("L04")
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (call(S.ASKING, id="x"), "ask_user"),
        (call(S.SETTLED, "tool_error", id="x"), "tool_error"),
        (call(S.SETTLED, "halt:out_of_stock", id="x"), "out_of_stock"),
        (call(S.UNKNOWN, id="x"), "unknown_outcome"),
    ],
)
def test_pending_calls_are_listed_in_order_whatever_else_halted(other: CallView, reason: str) -> None:
    calls = (call(S.PENDING, id="b"), other, call(S.PENDING, id="a"))
    assert next_action(snapshot(*calls)) == halt(reason, True, manual_tool_calls=["b", "a"])


@pytest.mark.row("L07")
def test_a_step_is_checked_before_the_next_model_call() -> None:
    assert next_action(snapshot(call(S.SETTLED), step_checked=False)) == CheckStep()
    assert next_action(snapshot(call(S.SETTLED), step_checked=True)) == CallModel()


@pytest.mark.row("L07")
@pytest.mark.parametrize("bound", ["max_turns", "limit"])
def test_the_last_step_is_checked_before_a_limit_halts(bound: str) -> None:
    given = snapshot(call(S.SETTLED), **{**CAUSES[bound], "step_checked": False})
    assert next_action(given) == CheckStep()


def test_an_empty_answer_is_no_step_to_check() -> None:
    assert next_action(snapshot(blanks=1, step_checked=False)) == CallModel(nudge=True)


@pytest.mark.row("L12")
def test_empty_answers_are_asked_again_with_a_nudge_then_end_in_error() -> None:
    assert next_action(snapshot(blanks=1)) == CallModel(nudge=True)
    assert next_action(snapshot(blanks=2)) == CallModel(nudge=True)
    assert next_action(snapshot(blanks=3)) == halt("error", error="blank_answers")


@pytest.mark.row("L12")
def test_too_many_empty_answers_are_an_error_even_on_the_last_turn() -> None:
    assert next_action(snapshot(blanks=3, turns=5)) == halt("error", error="blank_answers")


@pytest.mark.row("L10")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_calls", {"calls_used": 3}),
        ("max_tokens", {"usage": Usage(input_tokens=80, output_tokens=20)}),
        ("max_cost", {"usage": Usage(cost=Decimal("0.5"))}),
        ("max_seconds", {"seconds": 9.0}),
        ("max_identical_calls", {"streaks": Streaks(identical=8)}),
        ("max_rejections", {"streaks": Streaks(rejections=3)}),
        ("max_parse_failures", {"streaks": Streaks(parse_failures=3)}),
    ],
)
def test_a_limit_halts_and_says_which(name: str, values: dict[str, Any]) -> None:
    limits = Limits(max_turns=5, max_calls=3, max_tokens=100, max_cost=0.5, max_seconds=9.0)
    action = next_action(snapshot(limits=limits, **values))
    assert isinstance(action, HaltRun)
    assert (action.reason, action.metadata["limit"]) == ("limit", name)
    assert "Go on" in action.metadata["text"]


@pytest.mark.row("L09", "L10")
def test_unknown_usage_reaches_no_limit() -> None:
    assert next_action(snapshot(limits=Limits(max_tokens=1, max_cost=0.01))) == CallModel()


@pytest.mark.row("L15")
def test_a_cancel_first_closes_what_is_open_and_waits_for_nothing_but_unknown_outcomes() -> None:
    assert next_action(snapshot(call(S.EXECUTING), cancel_requested=True)) == CloseCalls()
    assert next_action(snapshot(call(S.SETTLED), cancel_requested=True)) == halt("cancelled")
    assert next_action(snapshot(call(S.UNKNOWN), cancel_requested=True)) == halt("cancelled", True)
