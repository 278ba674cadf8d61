"""Django signals of stored sessions: once, after the outermost commit, and nobody can disturb anybody (L19, H15)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.dispatch import Signal

import allm_django as allm
from allm_django import sessions, signals
from allm_django.models import Message, Run, Session, ToolCall
from allm_django.testing import ScriptedModel, call, drive, say
from tests.integration.desk import Desk
from tests.integration.driving import call_of, session_of, tool, until

pytestmark = [pytest.mark.row("L19", "H15")]

ALL = {name: signal for name, signal in vars(signals).items() if isinstance(signal, Signal)}
CANARY = "canary-7431"


class Heard:
    """What was sent: names in order, and everything with it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def names(self) -> list[str]:
        """Which signals, in order."""
        return [name for name, _ in self.sent]

    def of(self, name: str) -> list[dict[str, Any]]:
        """What came with one kind."""
        return [words for sent, words in self.sent if sent == name]


@pytest.fixture
def desk(desk: Desk, settings: Any) -> Desk:
    """A desk whose user may do all, and which nobody but the test drives."""
    desk.user.is_superuser = True
    desk.user.save()
    settings.ALLM = {"DISPATCH": "tests.integration.dispatches.Lost"}
    return desk


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Receivers of all signals."""
    heard, receivers = Heard(), []
    for name, signal in ALL.items():

        def receive(told: str = name, **words: Any) -> None:
            words.pop("signal")
            heard.sent.append((told, words))

        receivers.append((signal, receive))
        signal.connect(receive, weak=False)
    yield heard
    for signal, receive in receivers:
        signal.disconnect(receive)


@pytest.mark.django_db(transaction=True)
def test_a_session_is_told_from_its_start_to_its_end(desk: Desk, heard: Heard) -> None:
    desk.noted(manual=True, sensitive=["card"], result=CANARY)
    desk.run([say(CANARY), call("work", {"card": CANARY}), call("unknown")], say("Done."))
    sessions.approve(desk.open()[0], by=desk.user)
    desk.drive()
    assert heard.names() == [
        "session_started",
        "run_started",
        "call_settled",
        "message_completed",
        "call_pending",
        "run_halted",
        "call_decided",
        "run_started",
        "call_settled",
        "message_completed",
        "run_ended",
    ]
    assert {words["session_id"] for _, words in heard.sent} == {desk.session.pk}
    run, (work, unknown) = desk.last_run, desk.calls()
    assert heard.of("run_halted") == [
        {"sender": Run, "id": run.pk, "session_id": desk.session.pk, "reason": "manual_tool_calls"}
    ]
    assert [words["reason"] for words in heard.of("run_ended")] == ["completed"]
    assert heard.of("call_pending")[0] == {
        "sender": ToolCall, "id": work.pk, "session_id": desk.session.pk, "name": "work"
    }  # fmt: skip
    assert [(words["id"], words["verb"]) for words in heard.of("call_decided")] == [(work.pk, "approve")]
    assert [(words["id"], words["outcome"]) for words in heard.of("call_settled")] == [
        (unknown.pk, unknown.outcome),
        (work.pk, "succeeded"),
    ]
    assert [words["sender"] for words in heard.of("message_completed")] == [Message, Message]
    assert heard.of("session_started")[0] == {"sender": Session, "id": desk.session.pk, "session_id": desk.session.pk}
    assert CANARY not in repr(heard.sent)


@pytest.mark.row("R07")
@pytest.mark.django_db(transaction=True)
def test_steps_of_a_recipe_are_told_as_calls_and_each_once(desk: Desk, heard: Heard) -> None:
    plan = allm.Plan(parallel=[allm.Step("price"), allm.Step("work"), allm.Step("nothing")])
    desk.recipe(lambda arguments: plan)
    desk.noted("price")
    desk.noted(manual=True)
    desk.run(call("plan"), say("Done."))
    sessions.approve(desk.open()[0], by=desk.user)
    desk.drive()
    step = {row.label: row.pk for row in desk.session.calls.all()}
    told = [(name, words["id"]) for name, words in heard.sent if name.startswith("call_")]
    assert sorted(told) == sorted(
        [
            ("call_settled", step["nothing"]),
            ("call_pending", step["work"]),
            ("call_settled", step["price"]),
            ("call_decided", step["work"]),
            ("call_settled", step["work"]),
            ("call_settled", step[""]),
        ]
    )
    assert told[-1] == ("call_settled", step[""])


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_before_the_outermost_transaction_commits(desk: Desk, heard: Heard) -> None:
    desk.noted(manual=True)
    desk.run(call("work"))
    heard.sent.clear()
    with transaction.atomic():
        with transaction.atomic():
            sessions.reject(desk.open()[0], by=desk.user, reason=CANARY)
        assert heard.names() == []
    assert heard.names() == ["call_decided", "call_settled"]
    assert CANARY not in repr(heard.sent)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_of_what_is_rolled_back(desk: Desk, heard: Heard) -> None:
    desk.noted(manual=True)
    desk.run(call("work"))
    heard.sent.clear()
    with transaction.atomic():
        sessions.reject(desk.open()[0], by=desk.user)
        transaction.set_rollback(True)
    with transaction.atomic(), transaction.atomic():
        sessions.reject(desk.open()[0], by=desk.user)
        transaction.set_rollback(True)
    assert heard.names() == []
    assert len(desk.open()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_question_is_told_and_its_answer_is_a_decision(desk: Desk, heard: Heard) -> None:
    desk.tool(lambda arguments: allm.AskUser("Which day?"))
    desk.run(call("work"), say("Done."))
    assert [words["id"] for words in heard.of("call_asked")] == [desk.call().pk]
    sessions.reply(desk.session, "Monday", user=desk.user)
    assert [words["verb"] for words in heard.of("call_decided")] == ["answer"]
    assert [words["outcome"] for words in heard.of("call_settled")] == ["answered"]


@pytest.mark.django_db(transaction=True)
def test_a_run_that_is_written_over_is_the_one_that_ended(desk: Desk, heard: Heard) -> None:
    desk.noted(manual=True)
    desk.run(call("work"), say("Done."), typing="supersede")
    first = desk.last_run
    sessions.reply(desk.session, "Never mind.", user=desk.user)
    assert [(words["id"], words["reason"]) for words in heard.of("run_ended")] == [(first.pk, "cancelled")]
    assert [words["outcome"] for words in heard.of("call_settled")] == ["superseded"]


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_raises_is_logged_and_stops_nothing(desk: Desk, heard: Heard, caplog: Any) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("The mail server is down.")

    signals.call_pending.connect(broken)
    try:
        desk.noted(manual=True)
        desk.run(call("work"))
    finally:
        signals.call_pending.disconnect(broken)
    assert desk.reason == "manual_tool_calls"
    assert "call_pending" in heard.names()
    assert [record.levelno for record in caplog.records if record.name == "django.dispatch"] == [logging.ERROR]


@pytest.mark.django_db(transaction=True)
def test_an_async_receiver_hears_it_too(desk: Desk) -> None:
    ended: list[Any] = []

    async def receive(id: Any, **_: Any) -> None:
        ended.append(id)

    signals.run_ended.connect(receive)
    try:
        desk.run(say("Done."))
    finally:
        signals.run_ended.disconnect(receive)
    assert ended == [desk.last_run.pk]


def test_the_runner_sends_them_once_and_a_receiver_may_act_on_the_session(running: None, heard: Heard) -> None:
    def work() -> str:
        """Work."""
        return "done"

    def approve(sender: type[ToolCall], id: Any, **_: Any) -> None:
        sessions.approve(sender.objects.get(pk=id), by=None)

    signals.call_pending.connect(approve)
    try:
        with tool(work, manual=True):
            session = session_of(ScriptedModel([call("work"), say("Done.")]))
            until(lambda: session.runs.filter(halted_reason="completed").exists())
            assert call_of(session).outcome == "succeeded"
            until(lambda: "run_ended" in heard.names())
    finally:
        signals.call_pending.disconnect(approve)
    told = heard.names()
    assert [told.count(name) for name in ("call_pending", "call_decided", "call_settled", "run_ended")] == [1, 1, 1, 1]


@pytest.mark.django_db
def test_inside_a_test_case_they_wait_for_its_commit(
    desk: Desk, heard: Heard, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        session = sessions.start(desk.engine(), user=desk.user, text="Go.")
        assert heard.names() == []
    assert heard.names() == ["session_started"]
    with django_capture_on_commit_callbacks(execute=True):
        drive(session, ScriptedModel([say("Done.")]))
    assert heard.names() == ["session_started", "run_started", "message_completed", "run_ended"]
