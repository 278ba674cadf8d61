"""Notifications after commit, to a real mail server and a real HTTP receiver: signed, retried, harmless (H15)."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import django
import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

import allm_django as allm
from allm_django import sessions
from allm_django.errors import InvalidInputError
from allm_django.models import Delivery, MailSubscription, Tool, ToolCall, Webhook
from allm_django.notify.sending import send_due
from allm_django.store import clock, deliveries
from allm_django.store.expiry import fire_due
from allm_django.store.webhooks import save_webhook
from allm_django.testing import ScriptedModel, call, say
from tests.integration.cast import person
from tests.integration.desk import Desk
from tests.integration.driving import at_once, session_of, tool, until
from tests.integration.receivers import Mailbox, Receiver, http_server, mail_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.row("H15")]
SMTP = "django.core.mail.backends.smtp.EmailBackend"
SECRET, CANARY = "of-the-webhook-4711", "canary-6023"
NOW = timezone.now()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An HTTP receiver."""
    with http_server() as receiver:
        yield receiver


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    """A mail server that Django sends to."""
    with mail_server() as mailbox:
        use_mail_port(settings, mailbox.port)
        yield mailbox


def use_mail_port(settings: Any, port: int) -> None:
    """Django's mail goes there."""
    if django.VERSION >= (6, 1):
        settings.MAILERS = {"default": {"BACKEND": SMTP, "OPTIONS": {"host": "127.0.0.1", "port": port}}}
    else:
        settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = SMTP, "127.0.0.1", port


@pytest.fixture
def desk(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk that nobody but the test drives, on a site that may send to this machine."""
    settings.ALLM = {
        "DISPATCH": "tests.integration.dispatches.Lost",
        "SITE_URL": "https://shop.example/",
        "WEBHOOKS_INSIDE": True,
    }
    monkeypatch.setenv("ALLM_WEBHOOK_SECRET", SECRET)
    with ExitStack() as stack, clock.stopped_at(NOW):
        yield Desk(stack)


def hook(url: str, **values: Any) -> Webhook:
    """A webhook of all events."""
    return save_webhook(Webhook(**{"name": "shop", "url": url, "secret_env": "ALLM_WEBHOOK_SECRET", **values}))


def approver(name: str = "bob", *, groups: tuple[str, ...] = (), **values: Any) -> Any:
    """Someone who may decide, and wants e-mails."""
    user = person(name, "decide_toolcall", groups=groups, **{"email": f"{name}@shop.example", **values})
    MailSubscription.objects.create(user=user)
    return user


def at(moment: timedelta) -> Any:
    """Send what is due so much later."""
    with clock.stopped_at(NOW + moment):
        return send_due()


def ask(desk: Desk, arguments: Any = None, **row: Any) -> ToolCall:
    """A call that waits."""
    desk.noted(manual=True, **row)
    desk.run(call("work", arguments or {}), say("Done."))
    return desk.open()[0]


def test_a_webhook_tells_of_a_call_and_its_decision_with_a_signature_as_documented(
    desk: Desk, receiver: Receiver
) -> None:
    hook(receiver.url)
    waiting = ask(desk, {"card": CANARY, "n": 1}, sensitive=["card"], title="Refund")
    sessions.reject(waiting, by=None, reason=CANARY)
    send_due()
    for headers, body in receiver.seen:  # a receiver in a few lines
        signed = headers["Allm-Timestamp"].encode() + b"." + body
        expected = "sha256=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(expected, headers["Allm-Signature"])
        assert abs(int(headers["Allm-Timestamp"]) - NOW.timestamp()) < 300
        assert headers["Allm-Id"] == json.loads(body)["id"]
        assert headers["Allm-Event"] == json.loads(body)["event"]
    told = {json.loads(body)["event"]: json.loads(body) for _, body in receiver.seen}
    assert set(told) == {"call.pending", "call.decided"}
    assert told["call.pending"]["call"]["arguments"] == {"card": "••••••", "n": 1}
    assert told["call.decided"]["decision"] == {"verb": "reject", "by": "the application"}
    assert told["call.pending"]["url"] == f"https://shop.example/{waiting.session_id}/?card={waiting.pk}"
    assert CANARY not in repr(receiver.seen)
    assert [(row.state, row.last_status) for row in Delivery.objects.all()] == [("sent", 204)] * 2


def test_who_may_decide_and_asked_for_it_gets_one_plain_e_mail(desk: Desk, mailbox: Mailbox) -> None:
    approver("bob", groups=("till",))
    approver("carol")  # not of the group
    approver("dora", groups=("till",), is_active=False)
    approver("emil", groups=("till",), email="emil@shop.example\nBcc: all@shop.example")
    person("fred", "decide_toolcall", groups=("till",), email="fred@shop.example")  # did not ask for it
    MailSubscription.objects.create(user=person("gina", "chat", groups=("till",), email="gina@shop.example"))
    desk.noted(manual=True, sensitive=["card"], title="Refund\r\nBcc: evil@shop.example")
    Tool.objects.get().approver_groups.set(Group.objects.filter(name="till"))
    desk.run(call("work", {"card": CANARY, "text": "‮<b>"}), say("Done."))
    send_due()
    [(recipients, mail)] = mailbox.mails
    assert recipients == ["bob@shop.example"]
    assert mail["Subject"].strip() == "Waits for your decision: Refund⟦U+000D⟧ Bcc: evil@shop.example"
    assert (mail["Bcc"], mail["Auto-Submitted"]) == (None, "auto-generated")
    assert mail.get_content_type() == "text/plain"
    text = mail.get_content()
    waiting = desk.open()[0]
    assert f"https://shop.example/{waiting.session_id}/?card={waiting.pk}" in text
    assert "⟦U+202E⟧<b>" in text
    assert CANARY not in mail.as_string()
    assert Delivery.objects.get().state == "sent"


def test_a_question_goes_to_the_owner_only(desk: Desk, mailbox: Mailbox) -> None:
    desk.user.email = "ann@shop.example"
    desk.user.save()
    MailSubscription.objects.create(user=desk.user)
    approver()
    desk.tool(lambda arguments: allm.AskUser(f"Which {CANARY}?"))
    desk.run(call("work"), say("Done."))
    send_due()
    [(recipients, mail)] = mailbox.mails
    assert recipients == ["ann@shop.example"]
    assert "A question for you" in mail["Subject"]
    assert CANARY not in mail.as_string()


def test_escalation_and_expiry_are_told_when_the_sweeper_comes_by(
    desk: Desk, receiver: Receiver, mailbox: Mailbox
) -> None:
    hook(receiver.url)
    approver()
    ask(desk, escalate_after=timedelta(hours=1), expiry=timedelta(hours=2))
    for hours in range(3):
        with clock.stopped_at(NOW + timedelta(hours=hours, minutes=1)):
            fire_due()
            send_due()
    told = [headers["Allm-Event"] for headers, _ in receiver.seen]
    assert told == ["call.pending", "call.escalated", "call.expired"]
    subjects = [mail["Subject"].partition(":")[0] for _, mail in mailbox.mails]
    assert subjects == ["Waits for your decision", "Still waits for a decision", "Nobody decided in time"]


@pytest.mark.parametrize(("answers", "error"), [([500, 302, 404], "404"), ([0], "No answer within 0.05 s.")])
def test_a_receiver_that_fails_is_tried_again_later_with_the_same_id(
    desk: Desk, receiver: Receiver, settings: Any, answers: list[int], error: str
) -> None:
    settings.ALLM = {**settings.ALLM, "NOTIFY_TIMEOUT": 0.05 if 0 in answers else 10.0}
    receiver.answers = list(answers)
    hook(receiver.url, events=["call.pending"])
    ask(desk)
    for number in range(len(answers)):
        at(timedelta(hours=number))
        row = Delivery.objects.get()
        assert (row.state, row.attempts) == ("waiting", number + 1)
        assert row.next_at > NOW + timedelta(hours=number)
        at(timedelta(hours=number))  # not yet
        assert len(receiver.seen) == number + 1
    assert error in row.last_error
    at(timedelta(hours=9))
    assert len({headers["Allm-Id"] for headers, _ in receiver.seen}) == 1
    assert len({headers["Allm-Signature"] for headers, _ in receiver.seen}) == len(receiver.seen)
    assert Delivery.objects.get().state == "sent"


def test_after_the_last_attempt_it_is_given_up_and_can_be_sent_again_by_hand(
    desk: Desk, receiver: Receiver, settings: Any
) -> None:
    settings.ALLM = {**settings.ALLM, "NOTIFY_ATTEMPTS": 2}
    receiver.answers = [500, 500]
    hook(receiver.url)
    ask(desk)
    at(timedelta())
    at(timedelta(hours=1))
    at(timedelta(hours=24))
    row = Delivery.objects.get()
    assert (row.state, row.attempts, row.last_status, len(receiver.seen)) == ("failed", 2, 500, 2)
    assert deliveries.send_again([row.pk]) == 1
    send_due()
    assert Delivery.objects.get().state == "sent"


def test_a_dead_mail_server_is_tried_again_but_not_for_a_call_that_was_decided_meanwhile(
    desk: Desk, mailbox: Mailbox
) -> None:
    approver()
    waiting = ask(desk)
    mailbox.down = True
    at(timedelta())
    assert mailbox.mails == []
    assert "SMTPRecipientsRefused" in Delivery.objects.get().last_error
    mailbox.down = False
    at(timedelta(hours=1))
    assert len(mailbox.mails) == 1
    Delivery.objects.all().delete()
    sessions.reject(waiting, by=None)
    desk.run(call("work"), say("Done."))
    mailbox.down = True
    at(timedelta())
    sessions.reject(desk.open()[0], by=None)
    mailbox.down = False
    at(timedelta(hours=1))
    assert len(mailbox.mails) == 1
    assert {row.state for row in Delivery.objects.all()} == {"obsolete"}


def test_nothing_is_told_of_what_is_rolled_back_and_nothing_is_written_when_nobody_listens(
    desk: Desk, receiver: Receiver
) -> None:
    waiting = ask(desk)
    assert not Delivery.objects.exists()
    hook(receiver.url)
    with transaction.atomic():
        sessions.reject(waiting, by=None)
        transaction.set_rollback(True)
    send_due()
    assert (receiver.seen, Delivery.objects.count()) == ([], 0)


@pytest.mark.both_databases
def test_two_senders_never_send_the_same_at_once_and_a_dead_ones_claim_runs_out(desk: Desk) -> None:
    hook("http://127.0.0.1:9/")
    ask(desk)
    claimed = at_once([deliveries.claim] * 4)
    assert len([row for row in claimed if row is not None]) == 1
    assert deliveries.claim() is None
    with clock.stopped_at(NOW + deliveries.CLAIM):
        again = deliveries.claim()
    assert again is not None
    first = next(row for row in claimed if row is not None)
    deliveries.fan_out(first, [Delivery(channel="mail")])  # the one that was thought dead comes back
    assert [row.channel for row in Delivery.objects.all()] == ["fan_out"]


def test_one_dead_receiver_does_not_hold_up_what_goes_elsewhere(
    desk: Desk, receiver: Receiver, mailbox: Mailbox
) -> None:
    hook("http://127.0.0.1:9/", name="dead")
    hook(receiver.url)
    approver()
    ask(desk)
    send_due()
    assert (len(receiver.seen), len(mailbox.mails)) == (1, 1)
    assert Delivery.objects.get(state="waiting").webhook.name == "dead"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"url": "ftp://shop.example/"}, "url"),
        ({"url": "https://user:secret@shop.example/"}, "url"),
        ({"url": "https://shop.example/\r\nX-Evil: 1"}, "url"),
        ({"url": "https:///path"}, "url"),
        ({"url": "https://shop.example:port/"}, "url"),
        ({"secret_env": "SECRET_KEY"}, "secret_env"),
        ({"secret_env": "hunter2"}, "secret_env"),
        ({"events": ["call.invented"]}, "events"),
    ],
)
def test_a_webhook_that_could_not_be_sent_safely_can_not_be_saved(
    desk: Desk, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        hook(**{"url": "https://shop.example/", **values})
    assert caught.value.field == field


def test_addresses_inside_and_missing_secrets_are_refused_when_it_is_sent(
    desk: Desk, receiver: Receiver, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(receiver.url)
    settings.ALLM = {**settings.ALLM, "WEBHOOKS_INSIDE": False}
    Webhook.objects.update(url=receiver.url.replace("http:", "https:"))
    ask(desk)
    send_due()
    assert "not a public one" in Delivery.objects.get().last_error
    monkeypatch.delenv("ALLM_WEBHOOK_SECRET")
    at(timedelta(hours=1))
    assert "ALLM_WEBHOOK_SECRET is not set" in Delivery.objects.get().last_error
    assert receiver.seen == []


def test_the_keeper_sends_while_sessions_run_and_its_threads_end(
    running: None, settings: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ALLM = {**settings.ALLM, "WEBHOOKS_INSIDE": True}
    monkeypatch.setenv("ALLM_WEBHOOK_SECRET", SECRET)
    hook(receiver.url)

    def work() -> str:
        """Work."""
        return "done"

    with tool(work, manual=True):
        session = session_of(ScriptedModel([call("work"), say("Done.")]))
        until(lambda: Delivery.objects.filter(state="sent").exists())
    [(_, body)] = receiver.seen
    assert json.loads(body)["call"]["session"] == str(session.pk)
