"""Until when a call waits: expiry, escalation, and writing on meanwhile; by a clock that stands still (H09, H11)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.utils import timezone

import allm_django as allm
from allm_django import access, sessions
from allm_django.errors import AlreadyDecidedError, AwaitingDecisionError, SessionBusyError
from allm_django.models import Engine, ToolCall
from allm_django.present.cards import card
from allm_django.present.sessions import session_detail
from allm_django.signals import call_escalated
from allm_django.store import clock, expiry
from allm_django.testing import call, say, sweep
from tests.integration.cast import a_tool, person, waiting_call
from tests.integration.desk import Desk

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

MINUTE = timedelta(minutes=1)
NOON = datetime(2030, 1, 1, 12, tzinfo=timezone.get_fixed_timezone(0))


def at(minutes: float) -> Any:
    """The clock, standing at so many minutes past noon."""
    return clock.stopped_at(NOON + minutes * MINUTE)


def waiting(desk: Desk, *entries: Any, **row: Any) -> ToolCall:
    """A call that waits since noon, for ten minutes at most."""
    desk.noted(manual=True, **{"expiry": 10 * MINUTE, **row})
    with at(0):
        desk.run(*(entries or (call("work"), say("Done."))))
    return desk.open()[0]


@pytest.mark.row("H11")
def test_a_call_that_nobody_decides_in_time_ends_unrun_and_the_loop_goes_on(desk: Desk) -> None:
    seen = waiting(desk)
    assert seen.expires_at == NOON + 10 * MINUTE
    sweep(NOON + 9.99 * MINUTE)
    assert desk.call().state == "pending"
    sweep(seen.expires_at)
    assert (desk.call().outcome, desk.session.runs.get().state) == ("expired", "queued")
    desk.drive()
    assert (desk.ran, desk.reason) == ([], "completed")
    assert "Nobody decided in time. This call was not run." in desk.told()[0]
    assert "CallExpired" in desk.kinds()


@pytest.mark.row("H11")
@pytest.mark.parametrize("verb", ["approve", "edit", "reject", "answer", "reask"])
def test_a_decision_that_comes_too_late_is_refused_even_if_no_sweeper_came(desk: Desk, verb: str) -> None:
    """Security row 17."""
    seen = waiting(desk)
    with at(10), pytest.raises(AlreadyDecidedError, match="run out") as caught:
        sessions.decide(seen, verb, by=None, version=seen.version, arguments={})
    assert caught.value.info["call"].outcome == "expired"
    desk.drive()
    assert (desk.ran, desk.reason, desk.session.decisions.count()) == ([], "completed", 0)


@pytest.mark.row("H11")
def test_a_decision_in_the_last_moment_counts_and_may_run_later(desk: Desk) -> None:
    seen = waiting(desk)
    with at(9.9):
        sessions.approve(seen, by=None, version=seen.version)
    sweep(NOON + 60 * MINUTE)
    desk.drive()
    assert (desk.ran, desk.reason) == ([{}], "completed")


@pytest.mark.row("H11")
def test_calls_of_one_turn_expire_each_at_its_own_time_and_many_sessions_in_batches(desk: Desk) -> None:
    desk.noted(manual=True, expiry=10 * MINUTE)
    desk.noted("slow", manual=True)
    with at(0):
        for _ in range(3):
            desk.run([call("work"), call("slow")], say("Done."))
    with at(11):
        assert len(expiry.sessions_due(limit=2)) == 2
        assert expiry.fire_due() == 3
        assert expiry.fire_due() == 0
    assert (
        sorted(ToolCall.objects.values_list("name", "state")) == [("slow", "pending")] * 3 + [("work", "settled")] * 3
    )


@pytest.mark.row("H11")
def test_a_question_expires_only_if_its_tool_has_an_expiry(desk: Desk) -> None:
    desk.noted(result=allm.AskUser("Which?"), expiry=10 * MINUTE)
    desk.noted("patient", result=allm.AskUser("Why?"))
    with at(0):
        desk.run([call("work"), call("patient")], say("Done."))
    sweep(NOON + 11 * MINUTE)
    desk.drive()
    assert [(row.state, row.outcome) for row in desk.calls()] == [("settled", "expired"), ("asking", "")]
    sessions.reply(desk.session, "Because.")
    desk.drive()
    assert "Nobody answered the question in time." in desk.told()[0]
    assert desk.told()[1] == "Because."


@pytest.mark.row("H11")
def test_an_answer_that_comes_too_late_is_refused(desk: Desk) -> None:
    desk.noted(result=allm.AskUser("Which?"), expiry=10 * MINUTE)
    with at(0):
        desk.run(call("work"), say("Done."))
    with at(10), pytest.raises(SessionBusyError, match="run out"):
        sessions.reply(desk.session, "This one.")
    with at(10), pytest.raises(AlreadyDecidedError):
        sessions.answer(desk.call(), by=None, value="This one.")


@pytest.mark.row("H11")
def test_asked_again_the_time_begins_anew_and_an_edit_does_not_prolong_it(desk: Desk) -> None:
    seen = waiting(desk, quorum=2)
    with at(5):
        edited = sessions.approve(seen, by=person("bob", "decide_toolcall"), version=seen.version, arguments={"n": 1})
        assert edited.expires_at == seen.expires_at
        tool = seen.tool_version.tool
        tool.description = "Another."
        tool.save()
        assert sessions.reask(edited, by=None, version=edited.version).expires_at == NOON + 15 * MINUTE


# -- escalation -------------------------------------------------------------------------------------------------------


@pytest.mark.row("H11")
def test_another_group_may_decide_once_a_call_has_waited_so_long(
    django_capture_on_commit_callbacks: Any,
) -> None:
    tool = a_tool(groups=["finance"], escalate_after=5 * MINUTE, expiry=10 * MINUTE)
    boss = person("boss", "decide_toolcall", groups=["bosses"])
    other = person("other", "decide_toolcall")
    tool.escalation_groups.set(boss.groups.all())
    with at(0):
        seen = waiting_call(person("ann", "chat"))
    with at(4.9):
        assert not access.may_decide(boss, seen)
        assert not access.visible_calls(boss).exists()
    heard: list[Any] = []
    receiver = lambda sender, id, **words: heard.append((id, words["name"]))  # noqa: E731
    call_escalated.connect(receiver)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            sweep(NOON + 5 * MINUTE)
        with django_capture_on_commit_callbacks(execute=True):
            sweep(NOON + 6 * MINUTE)
    finally:
        call_escalated.disconnect(receiver)
    assert heard == [(seen.pk, "refund")]
    seen.refresh_from_db()
    assert (seen.state, seen.escalated, seen.wake_at) == ("pending", True, seen.expires_at)
    assert seen.session.events.filter(kind="CallEscalated").count() == 1
    with at(5):
        assert not access.may_decide(other, seen)
        shown = card(boss, seen.pk)
        assert (shown["may_decide"], shown["groups"], shown["escalation_groups"]) == (True, ["bosses", "finance"], [])
        assert sessions.reject(seen, by=boss, version=seen.version).decided_name == "boss"


@pytest.mark.row("H11")
def test_who_overslept_an_escalation_still_expires(desk: Desk) -> None:
    seen = waiting(desk, escalate_after=5 * MINUTE)
    sweep(NOON + 11 * MINUTE)
    assert (desk.call().outcome, "CallEscalated" in desk.kinds(), seen.escalated) == ("expired", False, False)


@pytest.mark.row("H11")
def test_the_sweep_reads_only_calls_whose_time_has_come_by_their_index(desk: Desk) -> None:
    waiting(desk)
    if connection.vendor == "sqlite":  # PostgreSQL reads a handful of rows without any index
        assert "allm_call_to_wake" in expiry.due_calls().explain()


# -- writing on while calls wait (H09) ---------------------------------------------------------------------------------


@pytest.mark.row("H09")
def test_an_engine_refuses_a_message_while_a_call_waits_or_closes_the_call(desk: Desk) -> None:
    waiting(desk)
    with at(1), pytest.raises(AwaitingDecisionError, match="waits for a decision"):
        sessions.reply(desk.session, "Something else.")
    Engine.objects.update(typing="supersede")
    assert session_detail(_owner(desk), desk.session.pk)["session"]["can"]["supersede"] is False  # frozen with the run


@pytest.mark.row("H09")
def test_a_message_that_closes_what_waits_is_offered_as_that(desk: Desk) -> None:
    desk.noted(manual=True, expiry=10 * MINUTE)
    with at(0):
        desk.run([call("work"), call("work")], say("Done."), typing="supersede")
    can = session_detail(_owner(desk), desk.session.pk)["session"]["can"]
    assert (can["reply"], can["supersede"]) == (True, True)
    with at(1):
        sessions.reply(desk.session, "Something else.")
        desk.drive()
    assert [row.outcome for row in desk.calls()] == ["superseded", "superseded"]
    assert all("wrote on instead of deciding" in text for text in desk.told())
    assert session_detail(_owner(desk), desk.session.pk)["session"]["can"]["supersede"] is False


def _owner(desk: Desk) -> Any:
    desk.user.user_permissions.add(Permission.objects.get(codename="chat"))
    return type(desk.user).objects.get(pk=desk.user.pk)
