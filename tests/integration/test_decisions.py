"""Decisions on stored calls: verbs, versions, drift, edits, unknown outcomes (H01–H08, T13, T17, T19)."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

import allm_django as allm
from allm_django import sessions
from allm_django.core.history import check_history
from allm_django.core.states import CALL_TRANSITIONS, CallState, Outcome, check_call_transition
from allm_django.errors import (
    AlreadyDecidedError,
    ConflictError,
    InvalidInputError,
    LeaseLostError,
    NotFoundError,
    StateError,
    VersionMismatchError,
)
from allm_django.loop import points
from allm_django.models import Session, Tool, ToolCall
from allm_django.store import leases
from allm_django.store.tools import delete_tool, save_tool
from allm_django.testing import call, fail, say
from allm_django.tools.registry import registry
from tests.integration.cast import again, person
from tests.integration.desk import COUNT, Desk

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

SOON = 0.02  # seconds; no handler under test ends by itself before that


def waiting(desk: Desk, *arguments: dict[str, Any], **row: Any) -> list[ToolCall]:
    """The calls that wait, one for each of ``arguments``."""
    desk.noted(manual=True, **row)
    desk.run([call("work", given) for given in arguments or ({},)], say("Done."))
    return desk.open()


# -- states (H02) -----------------------------------------------------------------------------------------------------


@pytest.mark.row("H02")
@pytest.mark.parametrize("old", CallState)
@pytest.mark.parametrize("new", CallState)
def test_a_call_goes_only_where_the_table_lets_it(old: CallState, new: CallState) -> None:
    allowed = CALL_TRANSITIONS.get((old, new))
    for outcome in (None, *Outcome):
        fits = allowed is not None and (outcome in allowed if allowed else outcome is None)
        if fits:
            check_call_transition(old, new, outcome)
        else:
            with pytest.raises(StateError, match=str(old)):
                check_call_transition(old, new, outcome)


@pytest.mark.row("H02")
def test_a_settled_call_goes_nowhere() -> None:
    assert not [old for old, _ in CALL_TRANSITIONS if old is CallState.SETTLED]


# -- verbs (H03) ------------------------------------------------------------------------------------------------------


@pytest.mark.row("H03")
def test_an_approved_call_runs_once_and_the_loop_goes_on(desk: Desk) -> None:
    (row,) = waiting(desk, {"a": 1})
    assert sessions.approve(row, by=None, version=row.version).state == "ready"
    desk.drive()
    assert (desk.ran, desk.told(), desk.reason) == ([{"a": 1}], ["done"], "completed")
    assert (desk.call().outcome, desk.call().attempt, desk.call().decided_name) == ("succeeded", 1, "the application")


@pytest.mark.row("H03")
@pytest.mark.parametrize(("reason", "words"), [("Too much.", "Too much."), ("", "rejected")])
def test_a_rejected_call_does_not_run_and_the_model_is_told_why(desk: Desk, reason: str, words: str) -> None:
    (row,) = waiting(desk)
    sessions.reject(row, by=None, reason=reason)
    desk.drive()
    assert (desk.ran, desk.reason, desk.call().outcome) == ([], "completed", "rejected")
    assert words in desk.told()[0]
    assert "not run" in desk.told()[0]


@pytest.mark.row("H03")
def test_an_answer_by_hand_is_the_result(desk: Desk) -> None:
    (row,) = waiting(desk)
    sessions.answer(row, by=None, value={"refunded": True})
    desk.drive()
    assert (desk.ran, desk.told(), desk.call().outcome) == ([], ['{"refunded":true}'], "answered")


@pytest.mark.row("H03")
@pytest.mark.parametrize("verb", ["", None, "APPROVE", "run", "approve ", "retry", "reask", True, 1])
def test_only_a_known_verb_that_fits_does_anything(desk: Desk, verb: Any) -> None:
    (row,) = waiting(desk)
    with pytest.raises(InvalidInputError) as caught:
        sessions.decide(row, verb, by=None, version=row.version)
    assert caught.value.field == "verb"
    assert (desk.call().state, desk.session.decisions.count()) == ("pending", 0)


@pytest.mark.row("H03")
@pytest.mark.parametrize("verb", ["approve", "edit", "answer", "reject"])
def test_a_tool_allows_only_the_verbs_set_for_it(desk: Desk, verb: str) -> None:
    (row,) = waiting(desk, verbs=[verb])
    for other in {"approve", "edit", "answer", "reject"} - {verb}:
        with pytest.raises(InvalidInputError, match=verb):
            sessions.decide(row, other, by=None, version=row.version, arguments={})
    sessions.decide(row, verb, by=None, version=row.version, arguments={} if verb == "edit" else None)
    assert desk.call().state in ("ready", "settled")


@pytest.mark.row("T07")
def test_a_tool_without_a_handler_can_be_answered_or_rejected_and_not_approved(desk: Desk) -> None:
    desk.tool(manual=True)
    desk.run([call("work"), call("work")], say("Done."))
    first, second = desk.open()
    for verb in ("approve", "edit"):
        with pytest.raises(InvalidInputError, match="answer, reject"):
            sessions.decide(first, verb, by=None, version=first.version, arguments={})
    sessions.answer(first, by=None, value=1)
    sessions.reject(second, by=None)
    desk.drive()
    assert desk.reason == "completed"


@pytest.mark.row("H06")
def test_calls_are_decided_in_any_order_and_approved_ones_run_at_once(desk: Desk) -> None:
    first, second, third = waiting(desk, {"n": 1}, {"n": 2}, {"n": 3})
    sessions.approve(third, by=None)
    assert desk.drive().status == "awaiting_tools"
    assert desk.ran == [{"n": 3}]
    sessions.reject(first, by=None)
    sessions.approve(second, by=None)
    desk.drive()
    assert (desk.ran, desk.reason) == ([{"n": 3}, {"n": 2}], "completed")
    assert desk.told()[1:] == ["done", "done"]
    check_history(desk.model.requests[-1].messages)


# -- one winner, and what was seen (H02, H04) -------------------------------------------------------------------------


@pytest.mark.row("H02")
@pytest.mark.parametrize("second", ["approve", "reject", "answer"])
def test_a_second_decision_loses_and_is_told_who_won(desk: Desk, second: str) -> None:
    (row,) = waiting(desk)
    boss = person("boss", "decide_toolcall")
    sessions.reject(row, by=boss, version=row.version)
    with pytest.raises(AlreadyDecidedError, match=r"boss \(reject\).*rejected") as caught:
        sessions.decide(row, second, by=None, version=row.version)
    assert caught.value.info["call"].outcome == "rejected"
    assert desk.session.decisions.count() == 1


@pytest.mark.row("H04")
def test_a_decision_on_an_older_version_is_refused(desk: Desk) -> None:
    (row,) = waiting(desk)
    for version in (row.version - 1, row.version + 1):
        with pytest.raises(VersionMismatchError) as caught:
            sessions.approve(row, by=None, version=version)
        assert caught.value.info["call"].version == row.version
    assert desk.call().state == "pending"


@pytest.mark.row("H04")
@pytest.mark.parametrize("version", ["1", True, 1.0])
def test_a_version_that_is_none_is_refused(desk: Desk, version: Any) -> None:
    (row,) = waiting(desk)
    with pytest.raises(InvalidInputError, match="version"):
        sessions.approve(row, by=None, version=version)


def test_a_call_that_is_not_there_is_not_found(desk: Desk) -> None:
    (row,) = waiting(desk)
    row.pk = uuid4()
    with pytest.raises(NotFoundError):
        sessions.approve(row, by=None)


@pytest.mark.row("R11", "H14")
def test_every_decision_is_on_record_with_what_was_before_and_after(desk: Desk) -> None:
    (row,) = waiting(desk, {"n": 1}, schema=COUNT)
    boss = person("boss", "decide_toolcall")
    sessions.approve(row, by=boss, version=row.version, arguments={"n": 2})
    decision = desk.session.decisions.get()
    assert (decision.who, decision.user, decision.verb, decision.outcome) == ("boss", boss, "edit", "ready")
    assert (decision.call_version, decision.arguments_before, decision.arguments_after) == (
        row.version,
        {"n": 1},
        {"n": 2},
    )


# -- edits (H05) ------------------------------------------------------------------------------------------------------


@pytest.mark.row("H05")
def test_edited_arguments_replace_and_the_model_is_told_by_whom_and_to_what(desk: Desk) -> None:
    (row,) = waiting(desk, {"a": 1, "b": 2})
    sessions.approve(row, by=None, version=row.version, arguments={"a": 3})
    desk.drive()
    assert desk.ran == [{"a": 3}]
    assert (desk.call().asked_arguments, desk.call().arguments) == ({"a": 1, "b": 2}, {"a": 3})
    told = desk.told()[0]
    assert "A person changed this call" in told
    assert '"asked":{"a":1,"b":2}' in told
    assert '"ran_with":{"a":3}' in told
    assert '"result":"done"' in told
    (made,) = desk.model.requests[-1].messages[1].calls
    assert made.arguments == {"a": 1, "b": 2}


@pytest.mark.row("H05")
@pytest.mark.parametrize("arguments", [{"n": "1"}, {"n": 1.5}, {}, {"n": 1, "m": 2}, {"n": float("nan")}])
def test_edited_arguments_must_fit_the_schema_with_their_types(desk: Desk, arguments: Any) -> None:
    (row,) = waiting(desk, {"n": 1}, schema=COUNT)
    with pytest.raises(allm.AllmError):
        sessions.approve(row, by=None, version=row.version, arguments=arguments)
    assert (desk.call().state, desk.call().arguments, desk.session.decisions.count()) == ("pending", {"n": 1}, 0)


@pytest.mark.row("H05")
def test_an_edit_without_arguments_is_refused(desk: Desk) -> None:
    (row,) = waiting(desk)
    with pytest.raises(InvalidInputError, match="arguments"):
        sessions.decide(row, "edit", by=None, version=row.version)


@pytest.mark.row("H05")
def test_an_edit_that_changes_nothing_is_not_told(desk: Desk) -> None:
    (row,) = waiting(desk, {"n": 1}, schema=COUNT)
    sessions.approve(row, by=None, arguments={"n": 1})
    desk.drive()
    assert desk.told() == ["done"]


# -- drift (H04) ------------------------------------------------------------------------------------------------------


def change(tool: Tool, **values: Any) -> None:
    for name, value in values.items():
        setattr(tool, name, value)
    save_tool(tool)


def describe(tool: Tool) -> None:
    change(tool, description="Another text.")


def narrow(tool: Tool) -> None:
    change(tool, schema=COUNT)


def disable(tool: Tool) -> None:
    change(tool, enabled=False)


def lose_handler(tool: Tool) -> None:
    registry._tools = {key: known for key, known in registry._tools.items() if key != tool.handler}


def by_sql(tool: Tool) -> None:
    Tool.objects.filter(pk=tool.pk).update(timeout=99)


CHANGES = [describe, narrow, disable, delete_tool, lose_handler, by_sql]


@pytest.mark.row("H04")
@pytest.mark.parametrize("happens", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("verb", ["approve", "edit"])
def test_a_call_whose_tool_changed_since_it_was_asked_cant_be_let_run(desk: Desk, happens: Any, verb: str) -> None:
    (row,) = waiting(desk, {"n": 1})
    happens(row.tool_version.tool)
    with pytest.raises(ConflictError) as caught:
        sessions.decide(row, verb, by=None, version=row.version, arguments={"n": 1})
    assert caught.value.info.get("code") == "changed_since_asked"
    assert desk.call().state == "pending"
    sessions.reject(row, by=None)
    desk.drive()
    assert (desk.ran, desk.reason) == ([], "completed")


@pytest.mark.row("H04")
@pytest.mark.parametrize("happens", [describe, narrow, by_sql], ids=lambda change: change.__name__)
def test_a_call_can_be_asked_again_by_the_tool_as_it_is_now(desk: Desk, happens: Any) -> None:
    (row,) = waiting(desk, {"n": 1})
    happens(row.tool_version.tool)
    asked = sessions.reask(row, by=None, version=row.version)
    assert (asked.state, asked.version) == ("pending", row.version + 1)
    with pytest.raises(VersionMismatchError):
        sessions.approve(row, by=None, version=row.version)
    sessions.approve(asked, by=None, version=asked.version)
    desk.drive()
    assert (desk.ran, desk.reason) == ([{"n": 1}], "completed")


@pytest.mark.row("H04")
def test_arguments_that_no_longer_fit_cant_be_asked_again(desk: Desk) -> None:
    (row,) = waiting(desk, {"other": 1})
    narrow(row.tool_version.tool)
    with pytest.raises(ConflictError, match="no longer fit"):
        sessions.reask(row, by=None, version=row.version)


@pytest.mark.row("H04")
@pytest.mark.parametrize("happens", [disable, delete_tool, lose_handler], ids=lambda change: change.__name__)
def test_a_call_whose_tool_is_gone_cant_be_asked_again(desk: Desk, happens: Any) -> None:
    (row,) = waiting(desk)
    happens(row.tool_version.tool)
    with pytest.raises(InvalidInputError, match="answer, reject"):
        sessions.reask(row, by=None, version=row.version)


@pytest.mark.row("H04")
@pytest.mark.parametrize("happens", CHANGES, ids=lambda change: change.__name__)
def test_a_call_whose_tool_changes_between_approval_and_start_does_not_run(desk: Desk, happens: Any) -> None:
    (row,) = waiting(desk, {"n": 1})
    sessions.approve(row, by=None)
    happens(row.tool_version.tool)
    desk.drive()
    assert (desk.ran, desk.call().outcome, desk.reason) == ([], "unavailable", "completed")
    assert "not run" in desk.told()[0]


def test_a_right_withdrawn_between_approval_and_start_stops_the_call(desk: Desk) -> None:
    (row,) = waiting(desk)
    boss = person("boss", "decide_toolcall")
    sessions.approve(row, by=boss, version=row.version)
    User.objects.get(pk=boss.pk).user_permissions.clear()
    desk.drive()
    assert (desk.ran, desk.call().outcome, desk.reason) == ([], "unavailable", "completed")
    assert not again(boss).has_perm("allm_django.decide_toolcall")


# -- three facts (H08) ------------------------------------------------------------------------------------------------


@pytest.mark.row("H08")
def test_a_provider_error_after_an_executed_call_never_runs_it_again(desk: Desk) -> None:
    desk.noted(manual=True)
    desk.run(call("work"), fail(400), say("Done."))
    sessions.approve(desk.open()[0], by=None)
    assert desk.drive().status == "error"
    sessions.resume(desk.session)
    desk.drive()
    assert (len(desk.ran), desk.told(), desk.reason) == (1, ["done"], "completed")


# -- unknown outcomes (H07, T17) --------------------------------------------------------------------------------------


@pytest.fixture
def hook() -> Any:
    """Set a function that hears where the engine is; removed afterwards."""
    yield lambda function: setattr(points, "hook", function)
    points.hook = None


def hung(desk: Desk, hook: Any, **row: Any) -> None:
    """A run whose sync handler is still at work when its time is over, and ends before anyone looks."""
    over = threading.Event()
    hook(lambda point: over.set() if point == "finish_call:before" else None)

    def handler(arguments: Any, ctx: allm.ToolContext) -> str:
        desk.ran.append(ctx.idempotency_key)
        over.wait()
        return "came late"

    desk.tool(handler, timeout=SOON, **row)
    desk.run(call("work"), say("Done."))


@pytest.mark.row("T17", "H07")
def test_a_timeout_of_a_call_with_effects_is_unknown_and_the_late_result_is_kept_from_the_model(
    desk: Desk, hook: Any
) -> None:
    hung(desk, hook)
    row = desk.call()
    assert (desk.reason, desk.session.status, row.state, row.outcome) == (
        "unknown_outcome",
        "awaiting_tools",
        "unknown",
        "",
    )
    assert (row.late_result["value"], len(desk.model.requests)) == ("came late", 1)
    sessions.answer(row, by=None, value="I looked: it worked.")
    desk.drive()
    assert (desk.told(), desk.reason, len(desk.ran)) == (["I looked: it worked."], "completed", 1)


@pytest.mark.row("T17", "H07")
def test_a_timeout_of_an_idempotent_call_is_a_tool_error(desk: Desk, hook: Any) -> None:
    hung(desk, hook, idempotent=True)
    assert (desk.reason, desk.call().outcome) == ("completed", "failed")
    assert '"error":"timeout"' in desk.told()[0]
    assert "may have taken effect" not in desk.told()[0]


@pytest.mark.row("T17")
def test_an_async_handler_is_cancelled_at_its_timeout_and_its_outcome_is_unknown(desk: Desk) -> None:
    ended: list[bool] = []

    async def handler(arguments: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    desk.tool(handler, timeout=SOON)
    desk.run(call("work"), say("Done."))
    assert (desk.reason, desk.call().state, desk.call().late_result, ended) == (
        "unknown_outcome",
        "unknown",
        None,
        [True],
    )


@pytest.mark.row("T09", "H07")
def test_an_unknown_call_may_be_run_again_on_a_persons_word_with_the_same_key(desk: Desk, hook: Any) -> None:
    hung(desk, hook)
    row = desk.call()
    assert sessions.retry(row, by=None, version=row.version).state == "ready"
    desk.drive()
    assert (desk.call().attempt, len(desk.ran), len(set(desk.ran))) == (2, 2, 1)


@pytest.mark.row("H07")
def test_closing_an_unknown_call_does_not_claim_that_it_was_not_run(desk: Desk, hook: Any) -> None:
    hung(desk, hook)
    sessions.reject(desk.call(), by=None, reason="Nobody knows.")
    desk.drive()
    assert desk.reason == "completed"
    assert "may have taken effect" in desk.told()[0]
    assert "Nobody knows." in desk.told()[0]
    assert "not run" not in desk.told()[0]


@pytest.mark.row("H07")
@pytest.mark.parametrize("verb", ["approve", "edit", "reask"])
def test_an_unknown_call_is_not_approved(desk: Desk, hook: Any, verb: str) -> None:
    hung(desk, hook)
    row = desk.call()
    with pytest.raises(InvalidInputError, match="answer, retry, reject"):
        sessions.decide(row, verb, by=None, version=row.version, arguments={})


def test_a_retry_of_a_tool_that_changed_does_not_run_and_says_what_is_true(desk: Desk, hook: Any) -> None:
    hung(desk, hook)
    row = desk.call()
    describe(row.tool_version.tool)
    sessions.retry(row, by=None)
    desk.drive()
    assert (len(desk.ran), desk.call().outcome) == (1, "unavailable")
    assert "may have taken effect" in desk.told()[0]


@pytest.mark.row("L05", "L15", "H07")
def test_cancelling_leaves_an_unknown_call_to_a_person_and_then_ends(desk: Desk, hook: Any) -> None:
    hung(desk, hook)
    assert sessions.cancel(desk.session).status == "awaiting_tools"
    sessions.answer(desk.call(), by=None, value="It worked.")
    desk.drive()
    assert (desk.reason, desk.session.status, desk.session.cancel_requested) == ("cancelled", "completed", False)
    sessions.reply(desk.session, "And?")
    desk.drive()
    assert (desk.told(), desk.reason) == (["It worked."], "completed")


class Crash(Exception):
    """The process is gone."""


def die(desk: Desk, hook: Any, point: str) -> None:
    """Drive until ``point``, die there, and let the lease run out."""

    def crash(name: str) -> None:
        if name == point:
            points.hook = None
            raise Crash

    hook(crash)
    with pytest.raises(Crash):
        desk.drive()
    Session.objects.filter(pk=desk.session.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


@pytest.mark.row("H07")
@pytest.mark.parametrize("point", ["start_call:after", "handler:after"])
def test_after_a_crash_a_call_with_effects_is_unknown_and_not_run_again(desk: Desk, hook: Any, point: str) -> None:
    desk.noted()
    desk.start(call("work"), say("Done."))
    die(desk, hook, point)
    assert desk.call().state == "executing"
    ran = len(desk.ran)
    desk.drive()
    assert (desk.reason, desk.call().state, len(desk.ran)) == ("unknown_outcome", "unknown", ran)


@pytest.mark.row("H07")
@pytest.mark.parametrize("point", ["start_call:after", "handler:after"])
def test_after_a_crash_an_idempotent_call_runs_again_with_the_same_key(desk: Desk, hook: Any, point: str) -> None:
    keys: list[str] = []
    desk.tool(lambda arguments, ctx: keys.append(ctx.idempotency_key), idempotent=True)
    desk.start(call("work"), say("Done."))
    die(desk, hook, point)
    desk.drive()
    assert (desk.reason, desk.call().attempt, len(set(keys))) == ("completed", 2, 1)


POINTS = ["load", "begin_step", "provider", "complete_message", "start_call", "handler", "finish_call"]


@pytest.mark.row("S06", "H07")
@pytest.mark.parametrize("name", POINTS)
def test_wherever_a_worker_dies_the_next_finishes_and_nothing_with_effects_runs_twice(
    desk: Desk, hook: Any, name: str
) -> None:
    desk.noted()
    desk.start(call("work"), say("Done."), call("work"), say("Done."))
    die(desk, hook, f"{name}:after")
    desk.drive()
    for row in desk.open():
        sessions.answer(row, by=None, value="I looked.")
        desk.drive()
    assert (desk.session.status, desk.reason) == ("completed", "completed")
    assert all(row.attempt == 1 for row in desk.calls())
    check_history(desk.model.requests[-1].messages)
    numbers = list(desk.session.events.order_by("number").values_list("number", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.row("H07")
def test_a_worker_that_lost_its_lease_writes_nothing_more(desk: Desk) -> None:
    def handler(arguments: Any) -> str:
        """While it works, another worker takes the run over."""
        Session.objects.filter(pk=desk.session.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
        assert leases.claim_run(desk.session.pk, uuid4()) is not None
        return "too late"

    desk.tool(handler)
    desk.start(call("work"), say("never"))
    with pytest.raises(LeaseLostError):
        desk.drive()
    assert (desk.call().state, desk.call().result, len(desk.model.requests)) == ("unknown", None, 1)


# -- on_tool_error, stored (T19) --------------------------------------------------------------------------------------


@pytest.mark.row("T19")
def test_an_engine_that_halts_on_tool_errors_can_go_on(desk: Desk) -> None:
    def handler(arguments: Any) -> Any:
        raise ValueError("secret")

    desk.tool(handler)
    desk.run(call("work"), say("Done."), on_tool_error="halt")
    assert (desk.session.status, desk.reason) == ("error", "tool_error")
    assert desk.call().error["code"] == "handler_raised"
    assert "secret" not in desk.call().content
    assert "secret" in desk.call().error["detail"]
    sessions.resume(desk.session)
    assert desk.drive().status == "completed"


# -- runs that can't be driven on -------------------------------------------------------------------------------------


@pytest.mark.row("S05")
def test_calls_at_work_when_a_run_fails_are_of_unknown_outcome_and_it_can_go_on(desk: Desk, hook: Any) -> None:
    async def slow(arguments: Any) -> None:
        await asyncio.sleep(0.5)

    def fail_once(point: str) -> None:
        if point == "finish_call:after":
            points.hook = None
            raise allm.AllmError("Something is wrong here.")

    desk.tool(slow, "pay")
    desk.tool(slow, "read", idempotent=True)
    desk.noted(manual=True)
    desk.noted("quick")
    desk.start([call("pay"), call("read"), call("work"), call("quick")], say("Done."))
    hook(fail_once)
    assert desk.drive().status == "awaiting_tools"
    pay, read, work, quick = desk.calls()
    assert (pay.state, read.state, work.outcome, quick.outcome) == ("unknown", "unknown", "cancelled", "succeeded")
    assert "could not go on" in work.content
    assert (desk.reason, desk.last_run.error["message"]) == ("error", "Something is wrong here.")
    for row in (pay, read):
        sessions.answer(row, by=None, value="I looked.")
    assert desk.drive().status == "error"
    sessions.resume(desk.session)
    desk.drive()
    assert (desk.reason, len(desk.told())) == ("completed", 4)
