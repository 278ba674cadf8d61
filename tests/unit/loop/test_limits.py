"""Limits of the stateless loop: each halts, says which and how to go on, and counts over a halt (L06, L10, L11)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import allm_django as allm
from allm_django.core.streaks import CallFact, Streaks, Used
from allm_django.errors import InvalidInputError
from allm_django.loop.environment import environment
from allm_django.testing import ScriptedModel, call, raw_call, say
from tests.unit.loop.twins import Loop, asking, double, refund, tool_messages


def engine(entries: list[Any], **values: Any) -> allm.EngineSpec:
    loop = values.pop("repeat", False)
    usage = values.pop("usage", None)
    model = ScriptedModel(entries, loop=loop, usage=usage)
    return allm.EngineSpec(model=model, tools=[double, refund], max_turns=50, **values)


def counting() -> Iterator[Any]:
    for n in range(100):
        yield call("double", {"n": n})


CASES: dict[str, tuple[dict[str, Any], list[Any], int]] = {
    "max_calls": ({"max_calls": 3}, list(counting()), 3),
    "max_tokens": ({"max_tokens": 40}, list(counting()), 3),
    "max_cost": ({"max_cost": "0.25"}, list(counting()), 3),
    "max_identical_calls": ({"max_identical_calls": 4}, [call("double", {"n": 1})] * 9, 4),
    "max_parse_failures": ({}, [raw_call("double", "{"), call("nothing"), call("double", {"n": "x"}), say("never")], 3),
}


@pytest.mark.row("L10")
@pytest.mark.parametrize("name", CASES)
def test_each_limit_halts_and_says_which_and_how_to_go_on(loop: Loop, name: str) -> None:
    limits, entries, steps = CASES[name]
    usage = allm.Usage(input_tokens=10, output_tokens=5, cost=Decimal("0.1"))
    result = loop(engine(entries, limits=limits, usage=usage), asking())
    assert (result.halted_reason, result.metadata["limit"], len(result.steps)) == ("limit", name, steps)
    assert str(result.metadata["bound"]) in result.metadata["text"]
    assert "Go on" in result.metadata["text"]


@pytest.mark.row("L10")
def test_seconds_at_work_are_limited(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 2))
    monkeypatch.setattr("allm_django.loop.memory.time.monotonic", lambda: float(next(now)))
    result = loop(engine(list(counting()), limits={"max_seconds": 60}), asking())
    assert (result.halted_reason, result.metadata["limit"]) == ("limit", "max_seconds")
    assert result.used.seconds >= 60


@pytest.mark.row("L10")
def test_another_call_or_one_that_can_run_begins_the_count_anew(loop: Loop) -> None:
    entries = [call("double", {"n": 1}), call("double", {"n": 1}), call("double", {"n": 2}), call("double", {"n": 1})]
    assert loop(engine([*entries, say("Done.")], limits={"max_identical_calls": 3}), asking()).text == "Done."
    bad = raw_call("double", "{")
    entries = [bad, bad, [bad, call("double", {"n": 1})], bad, bad, say("Done.")]
    assert loop(engine(entries, limits={"max_identical_calls": None}), asking()).text == "Done."


@pytest.mark.row("L06", "L10")
def test_limits_count_on_over_a_halt_for_a_person(loop: Loop) -> None:
    given = engine([call("refund", {"order": n}) for n in range(9)], limits={"max_calls": 2})
    first = loop(given, asking())
    kept = Used.from_json(first.used.as_json())
    answered = [*first.messages, allm.tool_result(first.metadata["manual_tool_calls"][0].id, "done")]
    second = loop(given, answered, used=kept)
    assert (second.halted_reason, second.used.calls, second.used.turns) == ("manual_tool_calls", 2, 2)
    answered = [*second.messages, allm.tool_result(second.metadata["manual_tool_calls"][0].id, "done")]
    third = loop(given, answered, used=second.used)
    assert (third.halted_reason, third.metadata["limit"], third.steps) == ("limit", "max_calls", ())
    anew = loop(given, answered)
    assert (anew.halted_reason, anew.used.calls) == ("manual_tool_calls", 1)


@pytest.mark.row("L10")
def test_rejections_in_a_row_are_limited_and_an_answer_ends_the_row(loop: Loop) -> None:
    given = engine([call("refund", {"order": n}) for n in range(9)])
    result, reasons = loop(given, asking()), []
    for answer in ("no", "no", "yes", "no", "no", "no"):
        waiting = result.metadata["manual_tool_calls"][0].id
        told = allm.tool_result(waiting, "ok") if answer == "yes" else allm.rejection(waiting, "not today")
        result = loop(given, [*result.messages, told], used=result.used)
        reasons.append(result.halted_reason)
    assert reasons == ["manual_tool_calls"] * 5 + ["limit"]
    assert result.metadata["limit"] == "max_rejections"


@pytest.mark.row("L10")
def test_a_rejection_tells_the_model_why() -> None:
    told = allm.rejection("c1", "not today")
    assert (told.role, told.is_error, told.tool_call_id) == ("tool", True, "c1")
    assert "not today" in told.content


@pytest.mark.row("L10")
@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"max_call": 3}, "'max_call' is not a limit; known are max_turns, max_calls"),
        ({"max_calls": 0}, "max_calls: 0 is not a positive number"),
        ({"max_calls": True}, "max_calls: True"),
        ({"max_calls": 1.5}, "max_calls: 1.5 is not a whole number"),
        ({"max_cost": "much"}, "max_cost: 'much'"),
        ({"max_cost": float("nan")}, "max_cost: nan"),
        ({"max_seconds": float("inf")}, "max_seconds: inf"),
        ([3], "limits: list given"),
    ],
)
def test_a_wrong_limit_is_refused_by_name_before_the_model_is_called(loop: Loop, limits: Any, named: str) -> None:
    given = engine([say("never")])
    with pytest.raises(InvalidInputError, match=named):
        loop(given, asking(), limits=limits)
    with pytest.raises(InvalidInputError, match="used"):
        loop(given, asking(), used={"turns": 1})
    assert given.model.requests == []


@pytest.mark.row("L10")
def test_the_calls_limits_go_over_the_engines_and_those_over_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "limits", lambda: {"max_calls": 4, "max_turns": 20})

    def steps(engines: Any = None, **options: Any) -> int:
        return len(allm.chat(engine(list(counting()), limits=engines), asking(), **options).steps)

    assert (steps(), steps({"max_calls": 3}), steps({"max_calls": 3}, limits={"max_calls": 2})) == (4, 3, 2)
    assert steps({"max_calls": None}, max_turns=6) == 6
    assert steps(allm.Limits(max_calls=5)) == 5


@pytest.mark.row("L10")
def test_streaks_count_what_came_in_a_row() -> None:
    a, b, bad = CallFact("a"), CallFact("b"), CallFact("x", invalid=True)
    assert Streaks().after([a, a]).after([a]).identical == 3
    assert Streaks().after([a, b]).after([a]).identical == 1
    assert Streaks().after([bad]).after([]).after([bad, bad]).parse_failures == 2
    assert Streaks().after([CallFact("a", rejected=True), a, CallFact("b", rejected=True)]).rejections == 2
    assert Streaks(rejections=2).after([CallFact("a", rejected=False)]).rejections == 0


@pytest.mark.row("L11")
def test_the_terminal_tool_ends_the_loop_undispatched_with_its_arguments_as_result(loop: Loop) -> None:
    result = loop(engine([call("double", {"n": "x"}), call("double", {"n": 4})], terminal_tool="double"), asking())
    assert (result.halted_reason, result.output) == ("terminal_tool", {"n": 4})
    assert tool_messages(result)[-1] == '{"n":4}'
