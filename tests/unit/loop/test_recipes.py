"""Recipes in the stateless use: order, parallel steps, results, faults, manual steps and going on (R02–R07)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import allm_django as allm
from allm_django.core import events
from allm_django.errors import HistoryError, ToolDefinitionError
from allm_django.providers.scripted import ScriptedModel, call, say
from tests.unit.loop.twins import asking, tool_messages

ORDER: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_noted() -> None:
    ORDER.clear()


@allm.tool
def double(n: int) -> int:
    """Double a number."""
    ORDER.append(n)
    return 2 * n


@allm.tool
def fail(n: int) -> int:
    """Fail."""
    raise allm.ToolError(f"No {n}.")


@allm.tool(manual=True)
def refund(order: int) -> str:
    """Refund an order."""
    raise AssertionError("a manual tool ran")


@allm.tool
def ask() -> allm.AskUser:
    """Ask."""
    return allm.AskUser("Which?", options=["a", "b"])


@allm.tool
def stop() -> allm.Halt:
    """Stop."""
    return allm.Halt("enough", {"n": 1})


def planned(plan: Any, **options: Any) -> Any:
    """A recipe named ``plan`` that gives this plan (or what a function gives)."""

    def run(arguments: dict[str, Any]) -> Any:
        return plan(arguments) if callable(plan) else plan

    return allm.recipe(schema={"type": "object"}, name="plan", **options)(run)


def engine(recipe: Any, *entries: Any, **values: Any) -> allm.EngineSpec:
    script = entries or (call("plan", id="p"), say("Done."))
    return allm.EngineSpec(**{"model": ScriptedModel(list(script)), "tools": [recipe], **values})


def run(recipe: Any, *entries: Any, **values: Any) -> allm.ChatResult:
    return allm.chat(engine(recipe, *entries, **values), asking())


@pytest.mark.row("R03", "R05")
def test_serial_steps_run_in_order_and_see_what_came_before() -> None:
    def plan(arguments: dict[str, Any]) -> allm.Plan:
        first = allm.Step(double, {"n": arguments["n"]}, "first")
        second = allm.Step(double, lambda results: {"n": results["first"]}, "second")
        return allm.Plan(serial=[first, second], compose=lambda serial, parallel, errors: serial["second"])

    result = run(planned(plan), call("plan", {"n": 3}), say("Done."))
    assert (ORDER, tool_messages(result), result.halted_reason) == ([3, 6], ["12"], "completed")


@pytest.mark.row("R03")
def test_a_failed_serial_step_is_recorded_and_the_rest_go_on() -> None:
    steps = [
        allm.Step(fail, {"n": 1}, "bad"),
        allm.Step(double, lambda results: {"n": results["bad"]}, "needs it"),
        allm.Step("nothing", {}, "nowhere"),
        allm.Step(double, {"n": "x"}, "misfit"),
        allm.Step(double, {"n": 4}, "good"),
    ]
    plan = allm.Plan(serial=steps, compose=lambda serial, parallel, errors: {"got": serial, "errors": list(errors)})
    result = run(planned(plan))
    assert tool_messages(result) == ['{"got":{"good":8},"errors":["bad","needs it","nowhere","misfit"]}']


@pytest.mark.row("R04")
def test_parallel_steps_are_at_work_at_once_and_see_the_serial_results() -> None:
    barrier = threading.Barrier(3)

    @allm.tool
    def meet(n: int) -> int:
        """Meet the others."""
        barrier.wait(10)
        return n

    plan = allm.Plan(
        serial=[allm.Step(double, {"n": 1}, "base")],
        parallel=[allm.Step(meet, lambda results, i=i: {"n": results["base"] + i}, f"m{i}") for i in range(3)],
        compose=lambda serial, parallel, errors: [*parallel.values(), errors],
    )
    assert tool_messages(run(planned(plan))) == ["[2,3,4,{}]"]


@pytest.mark.row("R05")
def test_without_compose_the_result_is_a_summary_in_markdown() -> None:
    plan = allm.Plan(parallel=[allm.Step(double, {"n": 2}), allm.Step(double, {"n": 3}), allm.Step(fail, {"n": 5})])
    (text,) = tool_messages(run(planned(plan)))
    assert text == "### double\n\n```json\n4\n```\n\n### double 2\n\n```json\n6\n```\n\n### Errors\n\n- fail: No 5."


@pytest.mark.row("R06")
@pytest.mark.parametrize("where", ["recipe", "compose", "no plan", "two labels"])
def test_a_fault_of_the_recipe_is_an_error_result(where: str) -> None:
    def boom(*_: Any) -> Any:
        raise ZeroDivisionError

    plans: dict[str, Any] = {
        "recipe": boom,
        "compose": allm.Plan(serial=[allm.Step(double, {"n": 1})], compose=boom),
        "no plan": lambda _: "something else",
        "two labels": lambda _: allm.Plan(serial=[allm.Step(double, {"n": 1}, "x"), allm.Step(double, {"n": 1}, "x")]),
    }
    result = run(planned(plans[where]))
    assert result.halted_reason == "completed"
    assert result.messages[2].is_error


@pytest.mark.row("R02", "R06")
def test_a_recipe_without_a_plan_falls_back_to_its_direct_handler() -> None:
    result = run(
        planned(lambda _: None, direct=lambda arguments: f"direct {arguments['n']}"),
        call("plan", {"n": 7}),
        say("Done."),
    )
    assert tool_messages(result) == ["direct 7"]
    assert run(planned(lambda _: None)).messages[2].is_error


@pytest.mark.row("R07")
def test_a_step_that_is_a_recipe_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="can't be one"):
        allm.Step(planned(allm.Plan()))
    inner = allm.recipe(schema={"type": "object"}, name="inner")(nothing_to_do)
    result = run(
        planned(allm.Plan(serial=[allm.Step("inner")])), tools=[planned(allm.Plan(serial=[allm.Step("inner")])), inner]
    )
    assert "A step can't be a recipe." in tool_messages(result)[0]


def nothing_to_do(arguments: dict[str, Any]) -> allm.Plan:
    return allm.Plan()


@pytest.mark.row("R07")
def test_a_manual_step_halts_and_the_recipe_goes_on_from_what_is_stored() -> None:
    plan = allm.Plan(
        serial=[allm.Step(double, {"n": 5}, "price")],
        parallel=[
            allm.Step(refund, {"order": 1}, "one"),
            allm.Step(double, {"n": 6}, "other"),
            allm.Step(refund, {"order": 2}, "two"),
        ],
        compose=lambda serial, parallel, errors: {**serial, **parallel, "errors": errors},
    )
    given = engine(planned(plan))
    halted = allm.chat(given, asking())
    pending = halted.metadata["manual_tool_calls"]
    assert halted.halted_reason == "manual_tool_calls"
    assert [(step.id, step.name, step.arguments, step.parent, step.label) for step in pending] == [
        ("p/2", "refund", {"order": 1}, "p", "one"),
        ("p/4", "refund", {"order": 2}, "p", "two"),
    ]
    half = allm.chat(given, [*halted.messages, allm.tool_result("p/4", "later")])
    assert [step.id for step in half.metadata["manual_tool_calls"]] == ["p/2"]
    again = allm.chat(given, [*half.messages, allm.tool_result("p/2", {"ok": True})])
    assert tool_messages(again) == ['{"price":10,"one":{"ok":true},"other":12,"two":"later","errors":{}}']
    assert (again.text, sorted(ORDER)) == ("Done.", [5, 6])
    assert [message.role for message in again.messages] == ["user", "assistant", "tool", "assistant"]
    sent = given.model.requests[-1].messages
    assert [message.tool_call_id for message in sent if message.role == "tool"] == ["p"]


@pytest.mark.row("R07")
def test_another_plan_than_before_is_an_error_result() -> None:
    count = iter(range(9))

    def plan(_: Any) -> allm.Plan:
        return allm.Plan(serial=[allm.Step(double, {"n": next(count)}), allm.Step(double, {"n": 2})])

    result = run(planned(plan))
    assert "another plan" in tool_messages(result)[0]
    assert ORDER == [0]


@pytest.mark.row("R07")
def test_a_step_that_asks_or_halts_counts_for_the_whole_recipe() -> None:
    plan = allm.Plan(serial=[allm.Step(ask, {}, "which"), allm.Step(double, {"n": 1})])
    given = engine(planned(plan))
    asked = allm.chat(given, asking())
    assert (asked.halted_reason, asked.pending_question, asked.pending_tool_call_id) == ("ask_user", "Which?", "p/1")
    done = allm.chat(given, [*asked.messages, allm.tool_result("p/1", "a")])
    assert "### which\n\na" in tool_messages(done)[0]
    halted = run(planned(allm.Plan(serial=[allm.Step(stop), allm.Step(double, {"n": 9})])))
    assert (halted.halted_reason, tool_messages(halted), ORDER) == ("enough", ['{"n":1}'], [1])


@pytest.mark.row("R07")
def test_results_of_steps_of_what_is_no_recipe_are_refused() -> None:
    given = allm.EngineSpec(model=ScriptedModel([call("refund", {"order": 1}, id="r"), say("no")]), tools=[refund])
    halted = allm.chat(given, asking())
    with pytest.raises(HistoryError, match="no recipe"):
        allm.chat(given, [*halted.messages, allm.tool_result("r/1", "go")])


@pytest.mark.row("R07")
def test_the_stream_tells_of_each_step_with_its_parent_and_label() -> None:
    given = engine(planned(allm.Plan(serial=[allm.Step(double, {"n": 1}, "a")])))
    told = [
        event for event in allm.stream(given, asking()) if isinstance(event, events.CallStarted | events.CallSettled)
    ]
    assert [(event.kind, event.call.id, event.call.parent, event.call.label) for event in told] == [
        ("CallStarted", "p", "", ""),
        ("CallStarted", "p/1", "p", "a"),
        ("CallSettled", "p/1", "p", "a"),
        ("CallSettled", "p", "", ""),
    ]


@pytest.mark.row("R07")
def test_a_loop_in_manual_mode_asks_for_every_step() -> None:
    given = engine(planned(allm.Plan(serial=[allm.Step(double, {"n": 1})])), mode="manual")
    asked = allm.chat(given, asking())
    assert [step.id for step in asked.metadata["manual_tool_calls"]] == ["p"]
    assert ORDER == []


@pytest.mark.row("R06")
def test_a_recipe_that_hangs_is_stopped_by_its_timeout() -> None:
    gate = threading.Event()

    def plan(_: Any) -> allm.Plan:
        gate.wait(20)
        return allm.Plan()

    try:
        result = run(planned(plan, timeout=0.05))
    finally:
        gate.set()
    assert "did not finish" in tool_messages(result)[0]


def test_an_async_recipe_is_refused() -> None:
    async def plan(arguments: dict[str, Any]) -> allm.Plan:
        return allm.Plan()

    with pytest.raises(ToolDefinitionError, match="async"):
        allm.recipe(schema={"type": "object"})(plan)


@pytest.mark.row("L10")
def test_steps_count_as_calls() -> None:
    plan = allm.Plan(parallel=[allm.Step(double, {"n": n}) for n in (1, 2)])
    result = run(planned(plan), limits={"max_calls": 3})
    assert (result.halted_reason, result.metadata["limit"], result.used.calls) == ("limit", "max_calls", 3)
    assert (sorted(ORDER), len(tool_messages(result))) == ([1, 2], 1)
