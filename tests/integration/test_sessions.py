"""Stored sessions through their verbs: statuses, turns, questions, results by hand, keys (S01–S05, H09, L03–L07)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

import allm_django as allm
from allm_django import sessions
from allm_django.core.states import SessionStatus
from allm_django.errors import (
    AlreadyDecidedError,
    AwaitingDecisionError,
    InvalidInputError,
    KeyReusedError,
    LoopContextError,
    NotFoundError,
    StateError,
)
from allm_django.models import Run, Session
from allm_django.testing import assert_called, assert_halted, call, cut, fail, say
from allm_django.tools.registry import registry
from tests import verbs
from tests.integration.desk import Desk
from tests.integration.standing import (
    STATES,
    awaiting_tools,
    cancelled,
    completed,
    failed,
    fresh,
    out_of_turns,
    running,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


# -- statuses and verbs (S01, S02) ------------------------------------------------------------------------------------


VERBS: dict[str, Callable[[Session], Session]] = {
    "reply": lambda session: sessions.reply(session, "And?"),
    "resume": sessions.resume,
    "step": sessions.step,
    "cancel": sessions.cancel,
    "rename": lambda session: sessions.rename(session, "Another title"),
}
PLACES = {make.__name__: make for make in STATES}


@pytest.mark.row("S01", "S02")
@pytest.mark.parametrize(("place", "status", "verb", "end"), verbs.cells(verbs.SESSION_VERBS, verbs.SESSIONS))
def test_each_verb_in_each_state_leads_on_or_is_refused_by_type(
    desk: Desk, place: str, status: str, verb: str, end: str
) -> None:
    PLACES[place](desk)
    before = fresh(desk.session)
    assert before.status == status
    if end in list(SessionStatus):
        assert VERBS[verb](desk.session).status == end
        return
    with pytest.raises(StateError) as caught:
        VERBS[verb](desk.session)
    assert type(caught.value).__name__ == end
    assert caught.value.info["state"] == before.status
    assert fresh(desk.session).event_count == before.event_count


@pytest.mark.row("S02", "S05")
@pytest.mark.parametrize("make", [out_of_turns, cancelled, failed], ids=lambda make: make.__name__)
@pytest.mark.parametrize("verb", ["resume", "step"])
def test_a_halted_session_can_be_taken_up_again(desk: Desk, make: Callable[[Desk], None], verb: str) -> None:
    make(desk)
    VERBS[verb](desk.session)
    assert desk.drive().status == "completed"
    assert desk.reason == "completed"


@pytest.mark.row("S05")
def test_a_session_in_error_keeps_its_cause(desk: Desk) -> None:
    desk.run(fail(401, message="The key is wrong."), say("Hello."))
    assert desk.session.status == "error"
    assert desk.last_run.error["message"] == "The key is wrong."
    sessions.reply(desk.session, "Again?")
    desk.drive()
    assert desk.reason == "completed"
    assert [run.error is None for run in desk.session.runs.order_by("created_at")] == [False, True]


@pytest.mark.row("L01", "S02")
def test_a_step_is_one_turn(desk: Desk) -> None:
    desk.noted()
    desk.run(say("Hello."), call("work"), call("work"), say("Done."))
    sessions.reply(desk.session, "Go on.")
    sessions.cancel(desk.session)
    for turns in (1, 2):
        sessions.step(desk.session)
        desk.drive()
        assert (desk.reason, len(desk.ran)) == ("max_turns", turns)
    sessions.step(desk.session)
    assert desk.drive().status == "completed"
    assert desk.reason == "completed"


def test_a_step_with_a_manual_call_ends_once_it_is_decided(desk: Desk) -> None:
    awaiting_tools(desk)
    sessions.cancel(desk.session)
    desk.model = type(desk.model)([call("work"), say("never")])
    sessions.step(desk.session)
    desk.drive()
    assert desk.reason == "manual_tool_calls"
    sessions.answer(desk.open()[0], by=None, value="by hand")
    desk.drive()
    assert (desk.reason, len(desk.model.requests)) == ("max_turns", 1)


@pytest.mark.parametrize("end", ["halts", "fails"])
def test_resuming_goes_on_after_a_tool_ended_the_run(desk: Desk, end: str) -> None:
    def handler(arguments: Any) -> Any:
        if end == "fails":
            raise allm.ToolError("no")
        return allm.Halt("out_of_stock", 3)

    desk.tool(handler)
    desk.run(call("work"), say("Done."), on_tool_error="halt")
    assert (desk.reason, desk.session.status) == (
        ("tool_error", "error") if end == "fails" else ("out_of_stock", "completed")
    )
    sessions.resume(desk.session)
    assert desk.drive().status == "completed"
    assert (desk.reason, len(desk.told())) == ("completed", 1)


@pytest.mark.row("T14")
def test_a_halt_of_a_tools_own_still_halts_after_the_other_calls_are_decided(desk: Desk) -> None:
    desk.tool(lambda arguments: allm.Halt("out_of_stock"), "stop")
    desk.tool(manual=True)
    desk.run([call("work"), call("stop")], say("never"))
    assert (desk.reason, desk.session.status) == ("out_of_stock", "awaiting_tools")
    assert desk.last_run.halted_metadata["manual_tool_calls"] == [desk.open()[0].call_id]
    sessions.answer(desk.open()[0], by=None, value=1)
    desk.drive()
    assert (desk.reason, desk.last_run.state, len(desk.model.requests)) == ("out_of_stock", "ended", 1)


# -- the loop, stored (L03–L07, L14) ----------------------------------------------------------------------------------


@pytest.mark.row("L02", "L04")
def test_a_turn_with_a_manual_call_runs_its_other_calls_then_waits(desk: Desk) -> None:
    desk.tool(manual=True, name="refund")
    desk.noted()
    desk.run([call("refund", {"o": 1}), call("work", {"q": 1}), call("refund", {"o": 2})], say("Done."))
    assert (desk.reason, desk.session.status, desk.session.waiting) == ("manual_tool_calls", "awaiting_tools", 2)
    assert desk.ran == [{"q": 1}]
    assert [row.arguments for row in desk.open()] == [{"o": 1}, {"o": 2}]
    assert desk.last_run.halted_metadata["manual_tool_calls"] == [row.call_id for row in desk.open()]
    assert_halted(desk.session, "manual_tool_calls")
    assert_called(desk.session, "work", q=1)


@pytest.mark.row("L02", "L03")
def test_in_whole_loop_manual_mode_every_call_waits(desk: Desk) -> None:
    desk.noted()
    desk.tool(manual=True, name="refund")
    desk.run([call("work", {"n": 1}), call("refund"), call("nothing")], say("Done."), mode="manual")
    assert [row.name for row in desk.open()] == ["work", "refund"]
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    assert (desk.ran, desk.reason) == ([{"n": 1}], "manual_tool_calls")
    sessions.reject(desk.open()[0], by=None, reason="not now")
    desk.drive()
    assert desk.reason == "completed"


@pytest.mark.row("L06")
def test_max_turns_come_from_the_engine_then_the_settings(desk: Desk, settings: Any) -> None:
    desk.noted()
    settings.ALLM = {**getattr(settings, "ALLM", {}), "MAX_TURNS": 2}
    for values, turns in (({}, 2), ({"max_turns": 3}, 3)):
        desk.run(*[call("work")] * 4, **values)
        assert (desk.reason, desk.last_run.turns) == ("max_turns", turns)


def seen_two(step: Any) -> bool:
    return bool(step.turn == 2 and [result.content for result in step.results] == ["done"])


def broken(step: Any) -> bool:
    raise ZeroDivisionError("in the predicate")


def angle(value: Any) -> str:
    return f"<{value}>"


def outside(handler: Any, arguments: Any, ctx: allm.ToolContext) -> Any:
    return handler({**arguments, "by": "executor"}, ctx)


def give_up(made: allm.ToolCall, error: Any) -> Any:
    return allm.Halt("gave_up")


soothed: list[str] = []


def soothe(made: allm.ToolCall, error: Any) -> str:
    soothed.append(made.name)
    return "all is well"


def stumble(made: allm.ToolCall, error: Any) -> Any:
    raise ZeroDivisionError


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions under keys, as code would register them."""
    functions = {
        "halt_when": (seen_two, broken),
        "encoder": (angle,),
        "executor": (outside,),
        "on_tool_error": (give_up, soothe, stumble),
    }
    known = {(kind, function.__name__): function for kind, group in functions.items() for function in group}
    monkeypatch.setattr(registry, "_functions", {**registry._functions, **known})


@pytest.mark.row("L02", "T24", "T25")
@pytest.mark.usefixtures("named")
def test_encoder_and_executor_are_registered_functions_named_by_the_engine(desk: Desk) -> None:
    desk.noted(result=lambda arguments: [arguments["by"]])
    desk.run(call("work", {"a": 1}), say("Done."), encoder="angle", executor="outside")
    assert (desk.ran, desk.told()) == ([{"a": 1, "by": "executor"}], ["<['executor']>"])


@pytest.mark.row("L02", "T19")
@pytest.mark.usefixtures("named")
def test_a_registered_policy_decides_what_becomes_of_an_error(desk: Desk) -> None:
    desk.noted(result=lambda arguments: allm.ToolError("no"))
    desk.run(call("work"), say("never"), on_tool_error="give_up")
    assert (desk.reason, desk.session.status) == ("gave_up", "completed")


@pytest.mark.row("T19")
@pytest.mark.usefixtures("named")
def test_a_registered_policy_may_replace_the_error_and_is_asked_once(desk: Desk) -> None:
    soothed.clear()
    desk.noted(result=lambda arguments: allm.ToolError("no"))
    desk.run(call("work"), say("Done."), on_tool_error="soothe")
    assert (desk.reason, desk.told(), soothed) == ("completed", ["all is well"], ["work"])


@pytest.mark.row("T19")
@pytest.mark.usefixtures("named")
def test_a_registered_policy_that_fails_halts_the_run_with_the_tools_error(desk: Desk) -> None:
    desk.noted(result=lambda arguments: allm.ToolError("no"))
    desk.run(call("work"), say("never"), on_tool_error="stumble")
    assert (desk.reason, desk.session.status) == ("tool_error", "error")
    assert "on_tool_error raised ZeroDivisionError" in desk.call().error["detail"]


@pytest.mark.row("L02", "L07")
@pytest.mark.usefixtures("named")
def test_a_registered_predicate_halts_when_it_says(desk: Desk) -> None:
    desk.noted()
    desk.run(call("work"), call("work"), say("never"), halt_when="seen_two")
    assert (desk.reason, desk.session.status) == ("halt_when", "completed")


@pytest.mark.row("L07")
@pytest.mark.usefixtures("named")
def test_a_predicate_that_raises_is_an_error_on_record(desk: Desk) -> None:
    desk.noted()
    desk.run(call("work"), say("never"), halt_when="broken")
    assert (desk.reason, desk.last_run.error["code"]) == ("error", "halt_when")
    assert "in the predicate" in desk.last_run.error["detail"]


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("first", ["", cut("Half")], ids=["blank", "broken"])
def test_a_predicate_is_not_asked_about_an_answer_that_is_none(desk: Desk, first: Any) -> None:
    desk.run(first, say("Hello."), say("Hello."), halt_when="broken")
    if desk.reason == "error":
        assert desk.last_run.error["code"] == "stream_broken"
        sessions.resume(desk.session)
        desk.drive()
    assert desk.reason == "completed"


@pytest.mark.row("L12")
def test_an_answer_of_nothing_but_white_space_is_none(desk: Desk) -> None:
    desk.run(" \n", say("Hello."), *[" "] * 3)
    assert (desk.reason, len(desk.model.requests)) == ("completed", 2)
    sessions.reply(desk.session, "More.")
    desk.drive()
    assert (desk.reason, desk.last_run.error["code"], len(desk.model.requests)) == ("error", "blank_answers", 5)
    sessions.resume(desk.session)  # the last word is still the person's


def test_an_engine_that_names_a_function_which_code_does_not_have_ends_in_error(desk: Desk) -> None:
    desk.run(say("never"), halt_when="no.such.function")
    assert (desk.session.status, desk.last_run.error["code"]) == ("error", "configuration")
    assert desk.model.requests == []


@pytest.mark.row("L14")
def test_a_broken_answer_is_kept_marked_and_left_out_of_later_requests(desk: Desk) -> None:
    desk.run(cut("Half an ans"), say("A whole one."))
    message = desk.session.messages.get(role="assistant")
    assert (message.text, message.complete, bool(message.broken)) == ("Half an ans", False, True)
    sessions.resume(desk.session)
    desk.drive()
    assert [(m.role, m.content) for m in desk.model.requests[-1].messages] == [("user", "Go.")]
    assert desk.reason == "completed"


@pytest.mark.row("L14")
def test_a_failure_before_the_first_delta_is_tried_again(desk: Desk) -> None:
    desk.run(fail(503, retry_after=0), say("Hello."))
    assert (desk.reason, len(desk.model.requests)) == ("completed", 2)


@pytest.mark.row("T23")
@pytest.mark.parametrize("choice", ["required", "work"])
def test_the_engines_tool_choice_reaches_the_model(desk: Desk, choice: str) -> None:
    desk.noted()
    desk.run(say("Hello."), tool_choice=choice)
    assert desk.model.requests[0].tool_choice == choice


@pytest.mark.row("T23")
def test_a_tool_choice_that_is_not_on_offer_ends_in_a_clear_error(desk: Desk) -> None:
    desk.run(say("never"), tool_choice="work")
    assert desk.session.status == "error"
    assert "'work'" in desk.last_run.error["message"]
    assert desk.model.requests == []


UNTOLD = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost")


@pytest.mark.row("L09")
def test_usage_is_summed_over_run_and_session_and_unknown_stays_unknown(desk: Desk) -> None:
    from allm_django.providers.scripted import usage

    desk.noted()
    desk.run([usage(input_tokens=10), call("work")], [usage(input_tokens=5, output_tokens=1), say("Hello.")], say("x"))
    sessions.reply(desk.session, "And?")
    desk.drive()
    assert [run.usage for run in desk.session.runs.order_by("created_at")] == [
        {"input_tokens": 15, "output_tokens": 1, "partial": [*UNTOLD[1:]]},
        {"partial": [*UNTOLD]},
    ]
    assert desk.session.usage == {"input_tokens": 15, "output_tokens": 1, "partial": [*UNTOLD]}


# -- questions (S04, T13) ---------------------------------------------------------------------------------------------


@pytest.mark.row("S04", "T13")
def test_a_reply_answers_the_one_open_question(desk: Desk) -> None:
    desk.tool(lambda arguments: allm.AskUser("Which one?", ["red", "blue"]))
    desk.run(call("work"), say("Blue it is."))
    assert (desk.session.status, desk.reason) == ("awaiting_user", "ask_user")
    assert desk.call().question == {"text": "Which one?", "options": ["red", "blue"]}
    assert sessions.reply(desk.session, "blue", user=None).status == "running"
    desk.drive()
    assert (desk.told(), desk.reason) == (["blue"], "completed")
    assert (desk.call().outcome, desk.call().decided_verb) == ("answered", "answer")
    assert desk.session.messages.filter(role="user").count() == 1


@pytest.mark.row("S04", "T13")
def test_with_two_questions_open_each_is_answered_by_name(desk: Desk) -> None:
    desk.tool(lambda arguments: allm.AskUser(arguments["q"]))
    desk.run([call("work", {"q": "One?"}), call("work", {"q": "Two?"})], say("Done."))
    with pytest.raises(AwaitingDecisionError):
        sessions.reply(desk.session, "yes")
    first, second = desk.open()
    sessions.answer(second, by=None, value="2")
    assert desk.drive().status == "awaiting_user"
    sessions.reply(desk.session, "1")
    desk.drive()
    assert (desk.told(), first.question["text"]) == (["1", "2"], "One?")


# -- results by hand (S03) --------------------------------------------------------------------------------------------


def two_waiting(desk: Desk) -> list[str]:
    desk.tool(manual=True)
    desk.run([call("work", {"n": 1}), call("work", {"n": 2})], say("Done."))
    return [row.call_id for row in desk.open()]


@pytest.mark.row("S03")
def test_the_last_result_lets_the_loop_go_on(desk: Desk) -> None:
    first, second = two_waiting(desk)
    sessions.submit_tool_result(desk.session, second, {"two": 2})
    assert desk.drive().status == "awaiting_tools"
    assert sessions.submit_tool_result(desk.session, first, "one").status == "running"
    desk.drive()
    assert (desk.told(), desk.reason) == (["one", '{"two":2}'], "completed")


@pytest.mark.row("S03")
def test_several_results_at_once(desk: Desk) -> None:
    first, second = two_waiting(desk)
    sessions.submit_tool_results(desk.session, {second: 2, first: None})
    desk.drive()
    assert (desk.told(), desk.reason) == (["null", "2"], "completed")


@pytest.mark.row("S03")
@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        (lambda ids: {ids[0]: 1, "foreign": 2}, NotFoundError, "foreign"),
        (lambda ids: {"foreign": 2, ids[0]: 1}, NotFoundError, "foreign"),
        (lambda ids: {}, InvalidInputError, "results"),
        (lambda ids: {ids[0]: 1, ids[1]: float("nan")}, allm.AllmError, "nan"),
    ],
)
def test_many_results_are_all_or_none(desk: Desk, given: Any, error: Any, named: str) -> None:
    ids = two_waiting(desk)
    before = fresh(desk.session).event_count
    with pytest.raises(error, match=named):
        sessions.submit_tool_results(desk.session, given(ids))
    assert [row.state for row in desk.calls()] == ["pending", "pending"]
    assert fresh(desk.session).event_count == before


@pytest.mark.row("S03")
def test_a_call_that_has_its_result_is_refused_by_name_and_the_others_stay_open(desk: Desk) -> None:
    first, second = two_waiting(desk)
    sessions.submit_tool_result(desk.session, first, 1)
    with pytest.raises(AlreadyDecidedError, match=first):
        sessions.submit_tool_results(desk.session, {second: 2, first: 3})
    assert [row.state for row in desk.calls()] == ["settled", "pending"]
    assert desk.calls()[0].result == 1


@pytest.mark.row("T24")
def test_a_large_result_is_kept_whole_and_capped_for_the_model(desk: Desk) -> None:
    first, _ = two_waiting(desk)
    sessions.submit_tool_result(desk.session, first, "x" * 100_000)
    row = desk.calls()[0]
    assert (len(row.result), len(row.content) <= 32_768, "left out" in row.content) == (100_000, True, True)


# -- typing while halted (H09) ----------------------------------------------------------------------------------------


def test_blocked_typing_says_what_to_do_and_changes_nothing(desk: Desk) -> None:
    awaiting_tools(desk)
    with pytest.raises(AwaitingDecisionError, match="Decide the open calls"):
        sessions.reply(desk.session, "And?")
    assert desk.call().state == "pending"


def test_superseding_closes_the_calls_and_ends_their_run(desk: Desk) -> None:
    desk.tool(manual=True)
    desk.run(call("work"), say("Done."), typing="supersede")
    old = desk.last_run
    assert sessions.reply(desk.session, "Never mind.").status == "running"
    old.refresh_from_db()
    assert (old.state, old.halted_reason, old.ended_at is not None) == ("ended", "cancelled", True)
    desk.drive()
    assert [run.state for run in Run.objects.filter(session=desk.session)] == ["ended", "ended"]
    assert [m.content for m in desk.model.requests[-1].messages if m.role == "user"] == ["Go.", "Never mind."]


# -- idempotency keys -------------------------------------------------------------------------------------------------


def test_a_resent_start_gives_the_same_session(desk: Desk) -> None:
    engine = desk.engine()
    first = sessions.start(engine, user=desk.user, text="Go.", key="k1")
    assert sessions.start(engine, user=desk.user, text="Go.", key="k1") == first
    assert (Session.objects.count(), Run.objects.count()) == (1, 1)
    with pytest.raises(KeyReusedError):
        sessions.start(engine, user=desk.user, text="Stop.", key="k1")


def test_a_resent_reply_is_one_message_and_another_body_is_refused(desk: Desk) -> None:
    desk.run(say("Hello."), say("Yes."))
    for _ in range(2):
        sessions.reply(desk.session, "And?", key="k2")
    desk.drive()
    sessions.reply(desk.session, "And?", key="k2")
    assert desk.session.messages.filter(role="user").count() == 2
    with pytest.raises(KeyReusedError):
        sessions.reply(desk.session, "Or?", key="k2")
    assert desk.session.messages.filter(role="user").count() == 2


@pytest.mark.parametrize("verb", ["resume", "step", "cancel"])
def test_a_resent_command_is_harmless(desk: Desk, verb: str) -> None:
    (running if verb == "cancel" else failed)(desk)
    for _ in range(2):
        getattr(sessions, verb)(desk.session, key="k3")
    desk.drive()
    getattr(sessions, verb)(desk.session, key="k3")
    assert Run.objects.filter(session=desk.session).count() == (1 if verb == "cancel" else 2)


def test_a_resent_decision_is_carried_out_once(desk: Desk) -> None:
    desk.noted(manual=True)
    desk.run(call("work"), say("Done."))
    row = desk.call()
    for _ in range(2):
        assert sessions.approve(row, by=None, version=row.version, key="k4").state == "ready"
    desk.drive()
    sessions.approve(row, by=None, version=row.version, key="k4")
    assert (len(desk.ran), desk.session.decisions.count()) == (1, 1)
    with pytest.raises(KeyReusedError):
        sessions.reject(row, by=None, version=row.version, key="k4")


@pytest.mark.parametrize("key", ["", "x" * 201, 7])
def test_a_key_that_is_none_is_refused(desk: Desk, key: Any) -> None:
    completed(desk)
    with pytest.raises(InvalidInputError, match="key"):
        sessions.reply(desk.session, "And?", key=key)


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  \n", None, 7, "x" * 32_001, "a\x00b", "\ud800"])
def test_a_text_that_is_none_is_refused_by_name(desk: Desk, text: Any) -> None:
    completed(desk)
    with pytest.raises(InvalidInputError) as caught:
        sessions.reply(desk.session, text)
    assert caught.value.field == "text"


def test_an_engine_that_is_not_there_or_switched_off_is_refused(desk: Desk) -> None:
    engine = desk.engine(enabled=False)
    with pytest.raises(NotFoundError):
        sessions.start("nowhere", user=desk.user)
    with pytest.raises(NotFoundError):
        sessions.start(engine.name, user=desk.user)
    with pytest.raises(StateError):
        sessions.start(engine, user=desk.user)


def test_waiting_inside_a_transaction_is_refused(desk: Desk) -> None:
    completed(desk)
    assert connection.in_atomic_block
    with pytest.raises(LoopContextError, match="transaction"):
        sessions.wait(desk.session)
