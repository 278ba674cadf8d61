"""Recipes in stored sessions: steps as rows, halts, decisions, crashes, drift (R03–R07)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import allm_django as allm
from allm_django import sessions
from allm_django.core.settle import CLOSED_HALFWAY
from allm_django.models import Tool, ToolCall
from allm_django.store import clock
from allm_django.store.history import load_history
from allm_django.store.tools import save_tool
from allm_django.testing import ScriptedModel, call, say
from tests.integration.desk import Desk
from tests.integration.standing import die_at, let_go

pytestmark = pytest.mark.django_db


def got(serial: Any, parallel: Any, errors: Any) -> Any:
    return {**serial, **parallel, "errors": errors}


def planned(desk: Desk, plan: Any, **options: Any) -> Tool:
    """A recipe named ``plan`` with this plan (or what a function makes of the arguments)."""
    return desk.recipe(plan if callable(plan) else lambda _: plan, **options)


def steps(desk: Desk) -> list[ToolCall]:
    return list(desk.session.calls.exclude(parent=None).order_by("position"))


def states(desk: Desk) -> list[tuple[str, str]]:
    return [(step.label, str(step.outcome or step.state)) for step in steps(desk)]


@pytest.fixture
def manual(desk: Desk) -> None:
    """A price, and two refunds of which each waits for a person."""
    desk.noted("price", 10)
    desk.noted("refund", lambda arguments: f"refunded {arguments['order']}", manual=True)
    plan = allm.Plan(
        serial=[allm.Step("price", {"of": 1}, "price")],
        parallel=[allm.Step("refund", {"order": order}, f"refund {order}") for order in (1, 2)],
        compose=got,
    )
    planned(desk, plan)
    desk.run(call("plan", id="p"), say("Done."))


@pytest.mark.row("R03", "R04", "R05", "R07")
def test_every_step_is_a_call_of_its_own_below_its_recipe(desk: Desk) -> None:
    desk.noted("price", lambda arguments: arguments["n"] * 2)
    plan = allm.Plan(
        serial=[allm.Step("price", {"n": 1}, "first")],
        parallel=[
            allm.Step("price", lambda results: {"n": results["first"]}, "second"),
            allm.Step("nothing", {}, "nowhere"),
        ],
        compose=got,
    )
    planned(desk, plan)
    desk.run(call("plan", id="p"), say("Done."))
    assert desk.told() == [
        '{"first":2,"second":4,"errors":{"nowhere":"There is no tool named \'nothing\' that could be used."}}'
    ]
    assert [(step.call_id, step.name, step.label, step.arguments, step.outcome) for step in steps(desk)] == [
        ("p/1", "price", "first", {"n": 1}, "succeeded"),
        ("p/2", "price", "second", {"n": 2}, "succeeded"),
        ("p/3", "nothing", "nowhere", {}, "unavailable"),
    ]
    assert {step.parent.call_id for step in steps(desk)} == {"p"}
    assert all(step.started_at and step.finished_at for step in steps(desk)[:2])
    assert (desk.session.status, desk.last_run.calls_used) == ("completed", 4)


@pytest.mark.row("R07")
def test_steps_are_never_sent_to_the_model(desk: Desk, manual: None) -> None:
    for step in desk.open():
        sessions.approve(step, by=None)
    desk.drive()
    sent = [message for message in desk.model.requests[-1].messages if message.role in ("assistant", "tool")]
    assert [[c.id for c in sent[0].calls], sent[1].tool_call_id, len(sent)] == [["p"], "p", 2]
    assert [message.tool_call_id for message in load_history(desk.session.id) if message.role == "tool"] == ["p"]


@pytest.mark.row("R07")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_manual_steps_halt_and_the_recipe_goes_on_after_the_decisions_in_any_order(
    desk: Desk, manual: None, order: tuple[int, int]
) -> None:
    assert (desk.session.status, desk.reason, desk.session.waiting) == ("awaiting_tools", "manual_tool_calls", 2)
    assert [(step.call_id, step.why) for step in desk.open()] == [
        ("p/2", "plan, step “refund 1”: this tool always asks first"),
        ("p/3", "plan, step “refund 2”: this tool always asks first"),
    ]
    waiting = desk.open()
    sessions.approve(waiting[order[0]], by=None)
    desk.drive()
    assert (desk.session.status, desk.session.waiting, desk.session.calls.get(parent=None).state) == (
        "awaiting_tools",
        1,
        "delegated",
    )
    sessions.approve(waiting[order[1]], by=None)
    desk.drive()
    assert desk.told() == ['{"price":10,"refund 1":"refunded 1","refund 2":"refunded 2","errors":{}}']
    assert desk.session.status == "completed"
    assert desk.ran[0] == {"of": 1}
    assert sorted(desk.ran[1:], key=str) == [{"order": 1}, {"order": 2}]


@pytest.mark.row("R07")
def test_a_rejected_step_is_that_steps_error_and_the_rest_go_on(desk: Desk, manual: None) -> None:
    first, second = desk.open()
    sessions.reject(first, by=None, reason="Too much.")
    sessions.approve(second, by=None, arguments={"order": 3})
    desk.drive()
    words = "A person rejected this call; it was not run. Reason: Too much."
    assert desk.told() == [f'{{"price":10,"refund 2":"refunded 3","errors":{{"refund 1":"{words}"}}}}']
    assert states(desk) == [("price", "succeeded"), ("refund 1", "rejected"), ("refund 2", "succeeded")]


@pytest.mark.row("R07")
def test_an_answer_by_hand_is_the_steps_result(desk: Desk, manual: None) -> None:
    sessions.submit_tool_results(desk.session, {"p/2": {"by": "hand"}, "p/3": "x"})
    desk.drive()
    assert desk.told() == ['{"price":10,"refund 1":{"by":"hand"},"refund 2":"x","errors":{}}']
    assert desk.ran == [{"of": 1}]


@pytest.mark.row("R07")
def test_a_manual_recipe_waits_before_any_step(desk: Desk) -> None:
    desk.noted("price", 10)
    tool = planned(desk, allm.Plan(serial=[allm.Step("price", {"n": 1})]))
    tool.manual = True
    save_tool(tool)
    desk.run(call("plan", id="p"), say("Done."))
    assert ([step.call_id for step in desk.open()], desk.ran) == (["p"], [])
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    assert (desk.session.status, desk.ran) == ("completed", [{"n": 1}])


@pytest.mark.row("R07")
@pytest.mark.parametrize("passes", range(1, 12))
def test_after_a_crash_before_any_commit_a_fresh_driver_goes_on_and_reruns_nothing_settled(
    desk: Desk, passes: int
) -> None:
    desk.noted("price", lambda arguments: arguments["n"], idempotent=True)
    plan = allm.Plan(serial=[allm.Step("price", {"n": n}, f"s{n}") for n in (1, 2)], compose=got)
    planned(desk, plan)
    desk.start(call("plan", id="p"), say("Done."))
    die_at(desk, "commit:before", passes)
    settled = [step.arguments for step in steps(desk) if step.outcome]
    before = len(desk.ran)
    let_go(desk.session)
    desk.model = ScriptedModel([say("Done.")] if desk.session.calls.exists() else [call("plan", id="p"), say("Done.")])
    desk.drive()
    assert desk.session.calls.get(parent=None).content == '{"s1":1,"s2":2,"errors":{}}'
    assert not [arguments for arguments in desk.ran[before:] if arguments in settled]
    assert [step.position for step in steps(desk)] == [0, 1]
    assert desk.session.status == "completed"


@pytest.mark.row("R07")
def test_another_plan_after_the_decision_is_an_error_result(desk: Desk) -> None:
    desk.noted("refund", "refunded", manual=True)
    labels = iter(["one", "two"])
    planned(desk, lambda _: allm.Plan(serial=[allm.Step("refund", {}, next(labels)), allm.Step("refund", {}, "last")]))
    desk.run(call("plan", id="p"), say("Done."))
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    assert "another plan than before" in desk.told()[0]
    assert states(desk) == [("one", "succeeded")]


@pytest.mark.row("R07")
def test_a_steps_tool_that_changed_meanwhile_is_not_run_as_shown(desk: Desk, manual: None) -> None:
    tool = Tool.objects.get(name="refund")
    tool.description = "Something else."
    save_tool(tool)
    first, second = desk.open()
    with pytest.raises(allm.AllmError, match="changed"):
        sessions.approve(first, by=None)
    sessions.approve(sessions.reask(first, by=None), by=None)
    sessions.reject(second, by=None)
    desk.drive()
    assert states(desk)[1:] == [("refund 1", "succeeded"), ("refund 2", "rejected")]


@pytest.mark.row("R07")
def test_a_recipe_whose_tool_is_switched_off_meanwhile_stops(desk: Desk, manual: None) -> None:
    Tool.objects.filter(name="plan").update(enabled=False)
    for step in desk.open():
        sessions.approve(step, by=None)
    desk.drive()
    assert "The tool was disabled. The remaining steps were not run." in desk.told()[0]


@pytest.mark.row("R07")
def test_a_cancel_closes_the_recipe_and_what_waits_in_it(desk: Desk, manual: None) -> None:
    sessions.cancel(desk.session)
    assert states(desk) == [("price", "succeeded"), ("refund 1", "cancelled"), ("refund 2", "cancelled")]
    recipe = desk.session.calls.get(parent=None)
    assert (recipe.outcome, recipe.error["message"]) == ("cancelled", CLOSED_HALFWAY)
    desk.session = sessions.reply(desk.session, "Go on.")
    desk.drive()
    assert desk.session.status == "completed"


@pytest.mark.row("R07")
def test_a_question_and_a_halt_of_a_step_count_for_the_whole_recipe(desk: Desk) -> None:
    desk.tool(lambda arguments: allm.AskUser("Which?"), "ask")
    desk.tool(lambda arguments: allm.Halt("enough", {"n": 1}), "stop")
    desk.noted("price")
    planned(desk, allm.Plan(serial=[allm.Step("ask"), allm.Step("stop"), allm.Step("price")]))
    desk.run(call("plan", id="p"), say("Done."))
    assert (desk.session.status, desk.reason) == ("awaiting_user", "ask_user")
    sessions.reply(desk.session, "This.")
    desk.drive()
    recipe = desk.session.calls.get(parent=None)
    assert (desk.session.status, desk.reason, recipe.result, desk.ran) == ("completed", "enough", {"n": 1}, [])


@pytest.mark.row("R06")
def test_a_recipe_without_a_plan_falls_back_to_its_direct_handler(desk: Desk) -> None:
    planned(desk, lambda _: None, direct=lambda arguments: "direct")
    desk.run(call("plan", id="p"), say("Done."))
    assert (desk.told(), steps(desk), desk.session.status) == (["direct"], [], "completed")


@pytest.mark.row("R09")
def test_steps_may_use_tools_that_the_session_is_not_offered(desk: Desk) -> None:
    desk.noted("price", 10)
    planned(desk, allm.Plan(serial=[allm.Step("price")], compose=got))
    desk.run(call("plan", id="p"), say("Done."), session={"allowed_tools": ["plan"]})
    assert (desk.offered(), desk.told()) == (["plan"], ['{"price":10,"errors":{}}'])


@pytest.mark.row("R07")
def test_events_tell_of_steps_with_parent_and_label(desk: Desk, manual: None) -> None:
    events = desk.session.events.filter(kind="CallDelegated").order_by("number")
    shown = [[(c["label"], c["state"], bool(c["parent"])) for c in event.data["calls"]] for event in events]
    assert shown == [
        [("", "delegated", False), ("price", "ready", True)],
        [("", "delegated", False), ("refund 1", "pending", True), ("refund 2", "pending", True)],
    ]


@pytest.mark.row("S07")
def test_a_recipe_with_its_steps_survives_export_and_import(desk: Desk, manual: None) -> None:
    for step in desk.open():
        sessions.approve(step, by=None)
    desk.drive()
    copy = sessions.import_(sessions.export(desk.session), user=desk.user, engine=desk.engine())
    steps_of = [
        (step.call_id, step.label, step.outcome) for step in copy.calls.exclude(parent=None).order_by("position")
    ]
    assert steps_of == [(step.call_id, step.label, step.outcome) for step in steps(desk)]
    assert [message.tool_call_id for message in load_history(copy.id) if message.role == "tool"] == ["p"]


@pytest.mark.row("L10")
def test_steps_count_as_calls_and_a_recipe_that_reaches_the_limit_is_finished_first(desk: Desk) -> None:
    desk.noted("price", lambda arguments: arguments["n"])
    planned(desk, allm.Plan(parallel=[allm.Step("price", {"n": n}) for n in (1, 2)], compose=got))
    desk.run(call("plan"), say("never"), limits={"max_calls": 3})
    assert (desk.reason, desk.last_run.halted_metadata["limit"]) == ("limit", "max_calls")
    assert (desk.session.calls.get(parent=None).outcome, len(desk.ran), desk.last_run.calls_used) == ("succeeded", 2, 3)


@pytest.mark.row("L10")
def test_steps_count_for_the_time_and_those_that_are_too_late_are_the_recipes_errors(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, late = clock.now, timedelta()
    monkeypatch.setattr(clock, "now", lambda: real() + late)

    def slow(arguments: Any) -> int:
        nonlocal late
        late += timedelta(seconds=10)
        return 10

    desk.noted("price", slow)
    plan = allm.Plan(serial=[allm.Step("price", {}, label) for label in ("in time", "late", "later")], compose=got)
    planned(desk, plan)
    desk.run(call("plan"), say("never"), limits={"max_seconds": 5})
    assert (desk.reason, desk.last_run.halted_metadata["limit"], len(desk.ran)) == ("limit", "max_seconds", 1)
    assert states(desk) == [("in time", "succeeded"), ("late", "unavailable"), ("later", "unavailable")]
    result = desk.session.calls.get(parent=None).result
    assert (result["in time"], list(result["errors"])) == (10, ["late", "later"])


@pytest.mark.row("R07")
def test_a_step_that_has_lost_its_tool_is_closed_and_the_recipe_goes_on(desk: Desk, manual: None) -> None:
    for step in desk.open():
        sessions.approve(step, by=None)
    desk.session.calls.filter(call_id="p/2").update(tool_version=None)
    desk.drive()
    assert states(desk) == [("price", "succeeded"), ("refund 1", "unavailable"), ("refund 2", "succeeded")]
    assert desk.session.status == "completed"
