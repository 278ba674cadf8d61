"""What a stored thread offers, keeps and tells: tools, ids, results, context, events (S06, S08, R09, R10, T10, H01)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

import allm_django as allm
from allm_django import sessions
from allm_django.core.history import check_history
from allm_django.models import Event, MessageChunk, Tool, ToolCall, ToolVersion
from allm_django.store.history import forget_history, load_history
from allm_django.store.tools import delete_tool, save_tool
from allm_django.testing import call, cut, raw_call, say
from tests.integration.cast import person
from tests.integration.desk import COUNT, Desk
from tests.integration.standing import STATES, awaiting_tools, fresh

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


# -- tools on offer (R09, R10, T20, T21) ------------------------------------------------------------------------------


@pytest.mark.row("R10")
def test_an_engine_without_selected_tools_offers_all_enabled_ones(desk: Desk) -> None:
    for name in ("b", "a"):
        desk.noted(name)
    desk.tool(name="off", manual=True, enabled=False)
    desk.run(say("Hello."))
    assert desk.offered() == ["a", "b"]


@pytest.mark.row("R10")
def test_an_engine_offers_only_the_tools_selected_for_it(desk: Desk) -> None:
    chosen, off = desk.noted("a"), desk.tool(name="off", manual=True, enabled=False)
    desk.noted("b")
    desk.run(say("Hello."), tools=[chosen, off])
    assert desk.offered() == ["a"]


@pytest.mark.row("R09")
@pytest.mark.parametrize(("allowed", "offered"), [(None, ["a", "b"]), ([], []), (["b"], ["b"]), (["c"], [])])
def test_a_session_may_be_limited_to_named_tools(desk: Desk, allowed: Any, offered: list[str]) -> None:
    desk.noted("a")
    desk.noted("b")
    desk.run([call("a"), call("b")], say("Done."), session={"allowed_tools": allowed})
    assert desk.offered() == offered
    assert len(desk.ran) == len(offered)


@pytest.mark.row("R10")
def test_tools_are_offered_as_they_stand_at_each_turn(desk: Desk) -> None:
    tool = desk.noted("a")
    desk.noted("b")
    desk.run(say("One."), say("Two."), say("Three."))
    assert desk.offered() == ["a", "b"]
    tool.enabled = False
    save_tool(tool)
    sessions.reply(desk.session, "And?")
    desk.drive()
    assert desk.offered() == ["b"]
    tool.enabled, tool.description = True, "Another text."
    save_tool(tool)
    sessions.reply(desk.session, "And?")
    desk.drive()
    assert [spec.description for spec in desk.model.requests[-1].tools if spec.name == "a"] == ["Another text."]


@pytest.mark.row("R10")
@pytest.mark.parametrize("saved", [True, False])
def test_a_tool_that_changes_while_the_run_is_at_work_is_offered_as_it_stands_at_the_next_turn(
    desk: Desk, saved: bool
) -> None:
    changing = desk.noted("changing")

    def change(arguments: Any) -> str:
        changing.description = f"Text {arguments['n']}."
        if saved:
            save_tool(changing)
        else:
            Tool.objects.filter(pk=changing.pk).update(description=changing.description)
        return "changed"

    desk.tool(change)
    desk.run(call("work", {"n": 1}), call("work", {"n": 2}), call("changing"), say("Done."))
    told = [spec.description for request in desk.model.requests for spec in request.tools if spec.name == "changing"]
    assert told == ["The tool changing.", "Text 1.", "Text 2.", "Text 2."]
    assert ToolVersion.objects.filter(tool=changing).count() == 3
    assert desk.calls()[-1].tool_version.data["description"] == "Text 2."


@pytest.mark.row("T06", "R10")
def test_a_row_whose_handler_code_does_not_have_is_not_offered(desk: Desk) -> None:
    tool = desk.noted("a")
    type(tool).objects.filter(pk=tool.pk).update(handler="os.system")
    desk.run(call("a"), say("Done."))
    assert (desk.offered(), desk.call().outcome, desk.ran) == ([], "unavailable", [])


@pytest.mark.row("T20", "T21")
@pytest.mark.parametrize(
    ("made", "outcome", "words"),
    [
        (call("nothing"), "unavailable", "work"),
        (raw_call("work", "{"), "invalid", "break off"),
        (raw_call("work", '{"n": "x"}'), "invalid", "n"),
        (raw_call("work", '{"n": 1, "n": 2}'), "invalid", "twice"),
        (raw_call("work", '{"n": "\\u0000"}'), "invalid", "U+0000"),
        (raw_call("work", "\x00"), "invalid", "JSON"),
        (raw_call("\x00\ud800", "{}"), "unavailable", "work"),
    ],
)
def test_a_call_that_cant_run_is_answered_at_once_and_its_siblings_run(
    desk: Desk, made: Any, outcome: str, words: str
) -> None:
    desk.noted(manual=False, schema=COUNT)
    desk.run([made, call("work", {"n": 1})], say("Done."))
    bad, good = desk.calls()
    assert (bad.state, bad.outcome, good.outcome) == ("settled", outcome, "succeeded")
    assert words in bad.content
    assert (desk.ran, desk.reason) == ([{"n": 1}], "completed")


def test_text_that_no_database_stores_is_cleaned_on_the_way(desk: Desk) -> None:
    desk.noted(result="a\x00b")
    desk.run([say("x\x00y\ud800"), call("work", id="i\x00d")], cut("half\x00"), say("never"))
    assert desk.session.messages.filter(role="assistant").first().text == "x\ufffdy\ufffd"
    assert (desk.call().content, desk.session.status) == ("a\ufffdb", "error")


# -- provider ids (H01) -----------------------------------------------------------------------------------------------


@pytest.mark.row("S06", "H01")
def test_ids_that_repeat_or_are_empty_over_turns_break_nothing(desk: Desk) -> None:
    desk.noted(result=lambda arguments: arguments["n"])
    odd = [call("work", {"n": 1}, id=""), call("work", {"n": 2}, id="x"), call("work", {"n": 3}, id="x")]
    desk.run(odd, call("work", {"n": 4}, id="x"), say("Done."))
    ids = [row.call_id for row in desk.calls()]
    assert (len(set(ids)), [row.provider_id for row in desk.calls()]) == (4, ["", "x", "x", "x"])
    assert ids[1] == "x"
    assert desk.told() == ["1", "2", "3", "4"]
    check_history(desk.model.requests[-1].messages)


# -- the history can't break (S06) ------------------------------------------------------------------------------------


def close_by_cancel(desk: Desk) -> None:
    sessions.cancel(desk.session)
    sessions.reply(desk.session, "And?")


def close_by_writing_on(desk: Desk) -> None:
    sessions.reply(desk.session, "And?")


def close_by_deciding(desk: Desk) -> None:
    first, second, third = desk.open()
    sessions.reject(third, by=None, reason="No.")
    sessions.answer(first, by=None, value={"by": "hand"})
    sessions.approve(second, by=None)


@pytest.mark.row("S06", "L15", "H01")
@pytest.mark.parametrize("close", [close_by_cancel, close_by_writing_on, close_by_deciding], ids=lambda f: f.__name__)
def test_each_call_has_one_result_right_after_its_message_however_it_was_closed(
    desk: Desk, close: Callable[[Desk], None]
) -> None:
    desk.noted(manual=True)
    desk.noted("other")
    turn = [call("work", {"n": 1}), call("other"), call("work", {"n": 2}), call("work", {"n": 3})]
    desk.run(turn, say("Done."), typing="supersede")
    close(desk)
    desk.drive()
    assert desk.reason == "completed"
    request = desk.model.requests[-1].messages
    check_history(request)
    made = next(message for message in request if message.calls)
    place = request.index(made)
    assert [result.tool_call_id for result in request[place + 1 : place + 5]] == [c.id for c in made.calls]
    assert all(row.state == "settled" for row in desk.calls())


@pytest.mark.parametrize(
    ("close", "outcome", "words"),
    [(close_by_cancel, "cancelled", "cancelled"), (close_by_writing_on, "superseded", "wrote on")],
)
def test_a_closed_call_tells_the_model_honestly_that_it_was_not_run(
    desk: Desk, close: Callable[[Desk], None], outcome: str, words: str
) -> None:
    desk.noted(manual=True)
    desk.run(call("work"), say("Done."), typing="supersede")
    close(desk)
    desk.drive()
    assert (desk.call().outcome, desk.ran) == (outcome, [])
    assert words in desk.told()[0]
    assert "not run" in desk.told()[0]


def test_what_a_process_remembers_of_a_thread_is_what_the_rows_say(desk: Desk) -> None:
    desk.noted()
    desk.run([say("Hm."), call("work")], cut("Half"), say("Done."), say("Bye."))
    sessions.resume(desk.session)
    desk.drive()
    sessions.reply(desk.session, "Thanks.")
    desk.drive()
    remembered = load_history(desk.session.pk)
    forget_history(desk.session.pk)
    assert load_history(desk.session.pk) == remembered
    assert [message.role for message in remembered] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


# -- context (T09, T10) -----------------------------------------------------------------------------------------------


@pytest.mark.row("T09", "T10")
@pytest.mark.parametrize("own", [None, 0, "", False, [], {}, {"tenant": 7}])
def test_the_sessions_context_wins_over_the_engines_falsy_or_not(desk: Desk, own: Any) -> None:
    seen: list[allm.ToolContext] = []
    desk.tool(lambda arguments, ctx: seen.append(ctx))
    desk.run(call("work", {"a": 1}), say("Done."), context={"tenant": 1}, session={"context": own})
    ctx = seen[0]
    assert ctx.context == ({"tenant": 1} if own is None else own)
    assert (ctx.session_id, ctx.user, ctx.engine) == (str(desk.session.pk), desk.user, desk.session.engine.name)
    assert (ctx.tool_call.id, ctx.tool_call.arguments) == (desk.call().call_id, {"a": 1})
    assert ctx.request_id == desk.last_run.request_id


# -- events (S08) -----------------------------------------------------------------------------------------------------


@pytest.mark.row("S08")
def test_events_are_numbered_without_gaps_and_hold_no_delta(desk: Desk) -> None:
    desk.noted(manual=True)
    desk.noted("other")
    desk.run([say("A text in many pieces."), call("work"), call("other")], cut("Half"), say("Done."))
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    sessions.resume(desk.session)
    desk.drive()
    rows = list(Event.objects.filter(session=desk.session).order_by("number"))
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert fresh(desk.session).event_count == len(rows)
    assert desk.kinds() == [
        "SessionStarted",
        "RunQueued",
        "MessageAdded",
        "RunStarted",
        "MessageStarted",
        "MessageCompleted",
        "CallPending",
        "CallStarted",
        "CallSucceeded",
        "RunHalted",
        "CallApproved",
        "RunStarted",
        "CallStarted",
        "CallSucceeded",
        "MessageStarted",
        "MessageBroken",
        "RunFailed",
        "RunQueued",
        "RunStarted",
        "MessageStarted",
        "MessageCompleted",
        "RunEnded",
    ]
    assert not MessageChunk.objects.filter(message__session=desk.session).exists()


def test_an_event_carries_the_session_as_its_transaction_left_it(desk: Desk) -> None:
    awaiting_tools(desk)
    last = Event.objects.filter(session=desk.session).order_by("number").last()
    assert last is not None
    assert (last.kind, last.data["session"]["status"], last.data["session"]["event"]) == (
        "RunHalted",
        "awaiting_tools",
        last.number,
    )


@pytest.mark.row("S01")
@pytest.mark.parametrize("make", list(STATES), ids=lambda make: make.__name__)
def test_the_stored_status_is_what_the_rows_amount_to(desk: Desk, make: Callable[[Desk], None]) -> None:
    make(desk)
    session = fresh(desk.session)
    open_now = ToolCall.objects.filter(session=session, state__in=("pending", "asking", "unknown")).count()
    assert session.waiting == open_now
    assert (session.active_run is None) == (session.status in ("idle", "completed", "error"))


@pytest.mark.row("R11")
def test_each_call_leaves_one_row_that_tells_all_about_it(desk: Desk) -> None:
    desk.noted("refund", result=lambda arguments: {"paid": arguments["n"]}, manual=True)
    desk.tool(lambda arguments: allm.ToolError("No such order."), "look")
    desk.run([call("refund", {"n": 1}), call("look", {"n": 2})], call("look", {"n": 3}), say("Done."))
    bob = person("bob", "decide_toolcall")
    sessions.approve(desk.open()[0], by=bob)
    desk.drive()
    refund, look, later = desk.calls()
    assert (refund.name, refund.arguments, refund.result, refund.error) == ("refund", {"n": 1}, {"paid": 1}, None)
    assert (refund.outcome, refund.decided_by, refund.decided_name, refund.decided_verb) == (
        "succeeded",
        bob,
        "bob",
        "approve",
    )
    assert (look.outcome, look.error["message"], look.decided_name) == ("failed", "No such order.", "")
    assert (refund.message, refund.position, look.message, look.position) == (look.message, 0, refund.message, 1)
    assert later.message.position > look.message.position
    assert all(row.started_at <= row.finished_at for row in (refund, look, later))


@pytest.mark.row("R11", "S06")
def test_deleting_a_tool_leaves_its_calls_and_the_thread(desk: Desk) -> None:
    tool = desk.noted()
    desk.run(call("work"), say("Done."), say("Still here."))
    delete_tool(tool)
    sessions.reply(desk.session, "And?")
    desk.drive()
    assert (desk.reason, desk.told(), desk.offered()) == ("completed", ["done"], [])


@pytest.mark.row("T16")
def test_an_exceptions_words_are_on_the_staffs_record_and_nowhere_else(desk: Desk) -> None:
    def broken(arguments: Any) -> Any:
        raise ValueError("password=hunter2")

    desk.tool(broken)
    desk.run(call("work"), say("Done."))
    error = desk.call().error
    assert (error["code"], "hunter2" in error["message"], "hunter2" in error["detail"]) == (
        "handler_raised",
        False,
        True,
    )
    assert "hunter2" not in desk.told()[0]
    assert "hunter2" not in json.dumps([event.data for event in Event.objects.filter(session=desk.session)])


@pytest.mark.row("T26")
def test_sensitive_arguments_are_in_no_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="allm_django")
    desk.noted(manual=True, sensitive=["card"], schema=COUNT | {"additionalProperties": {"type": "string"}})
    made = [call("work", {"n": 1, "card": "4111-1111"}), call("work", {"card": "4333-3333"})]
    desk.run(made, say("Done."))
    sessions.approve(desk.open()[0], by=None, arguments={"n": 2, "card": "4222-2222"})
    desk.drive()
    assert desk.ran == [{"n": 2, "card": "4222-2222"}]
    assert not re.findall(r"4\d{3}-\d{4}", caplog.text)


@pytest.mark.row("T26", "R11")
def test_sensitive_arguments_are_masked_in_events_and_clear_on_the_calls_row(desk: Desk) -> None:
    desk.noted(manual=True, sensitive=["card"])
    desk.run(call("work", {"card": "4111-1111", "order": 7}), say("Done."))
    sessions.approve(desk.open()[0], by=None, arguments={"card": "4222-2222", "order": 7})
    desk.drive()
    told = json.dumps([event.data for event in Event.objects.filter(session=desk.session)])
    assert ("4111-1111" in told, "4222-2222" in told, '"order": 7' in told) == (False, False, True)
    assert (desk.call().asked_arguments["card"], desk.ran[0]["card"]) == ("4111-1111", "4222-2222")
