"""Cards of calls whose tool changed while they waited (H04), and of calls lost in a crash (H07)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allm_django import sessions
from allm_django.models import Tool, ToolCall, Worker
from allm_django.present.cards import card
from allm_django.store import workers
from allm_django.store.tools import delete_tool, save_tool
from allm_django.testing import call, say
from tests.integration.cast import person, without_runner
from tests.integration.desk import Desk
from tests.integration.standing import pending, unknown

pytestmark = pytest.mark.django_db
AMOUNT = {"type": "object", "properties": {"amount": {"type": "number", "maximum": 100}, "card": {"type": "string"}}}


@pytest.fixture(autouse=True)
def no_runner() -> Iterator[None]:
    """Requests start no runner here."""
    with without_runner():
        yield


@pytest.fixture
def kim() -> User:
    return person("kim", "decide_toolcall")


def change(**values: Any) -> None:
    """Change the only tool."""
    tool = Tool.objects.get()
    for name, value in values.items():
        setattr(tool, name, value)
    save_tool(tool)


def asked(desk: Desk, **row: Any) -> ToolCall:
    """A call that waits, of a tool with AMOUNT."""
    desk.noted(schema=AMOUNT, manual=True, **row)
    desk.run(call("work", {"amount": 7}), say("Done."))
    return desk.call()


def lines(shown: Any) -> list[str]:
    """The changes in a card, a line each."""
    return [f"{each['label']}: {each['before']} → {each['after']}" for each in shown["changes"]]


@pytest.mark.row("H04")
def test_the_card_says_field_by_field_what_changed(desk: Desk, kim: User) -> None:
    row = asked(desk)
    narrow = {
        "type": "object",
        "properties": {"amount": {"type": "number", "maximum": 50}, "note": {"type": "string"}},
        "required": ["amount"],
    }
    change(schema=narrow, timeout=5.0, four_eyes=True, description="Pays\u202e back.")
    shown = card(kim, row.pk)
    assert shown["changed"] == "The tool was changed since this call was asked for."
    assert lines(shown) == [
        "description: The tool work. → Pays⟦U+202E⟧ back.",
        "schema: amount › maximum: 100 → 50",
        'schema: card: {"type":"string"} → None',
        'schema: note: None → {"type":"string"}',
        'schema: required: None → ["amount"]',
        "timeout: 30 → 5",
        "four eyes: no → yes",
    ]
    assert shown["verbs"] == ["answer", "reject", "reask"]


@pytest.mark.row("H04")
@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (lambda: change(enabled=False), "The tool was disabled since this call was asked for."),
        (lambda: delete_tool(Tool.objects.get()), "The tool was deleted since this call was asked for."),
    ],
    ids=["disabled", "deleted"],
)
def test_a_tool_that_is_gone_can_only_be_rejected_or_answered(desk: Desk, happens: Any, words: str) -> None:
    row = asked(desk)
    happens()
    shown = card(person("boss", "decide_toolcall", "configure_tool"), row.pk)
    assert (shown["changed"], shown["verbs"]) == (words, ["answer", "reject"])


@pytest.mark.row("H04")
def test_who_may_not_decide_sees_that_it_changed_but_not_what(desk: Desk) -> None:
    pending(desk)
    change(description="Something else.")
    shown = card(desk.user, desk.call().pk)
    assert shown["changed"]
    assert shown["changes"] == []


def test_a_tool_as_it_was_is_no_change(desk: Desk, kim: User) -> None:
    row = asked(desk)
    change(description="Something else.")
    change(description="The tool work.")
    assert (card(kim, row.pk)["changed"], card(kim, row.pk)["changes"]) == ("", [])


@pytest.mark.row("H07")
def test_a_lost_call_tells_when_where_and_under_which_key_it_ran(desk: Desk, kim: User) -> None:
    unknown(desk)
    row = desk.call()
    workers.beat(row.worker, sessions=1, hung_threads=0)  # type: ignore[arg-type]
    process = Worker.objects.get()
    known = card(kim, row.pk)["known"]
    assert known["idempotency_key"] == row.idempotency_key
    assert (known["host"], known["pid"], known["attempt"]) == (process.host, process.pid, 1)
    assert known["started_at"]
    assert card(desk.user, row.pk)["known"] is None  # not a matter for the owner


def test_the_process_of_a_lost_call_stays_on_record_until_someone_has_looked(desk: Desk, kim: User) -> None:
    unknown(desk)
    row = desk.call()
    assert row.worker is not None
    workers.beat(row.worker, sessions=1, hung_threads=0)
    Worker.objects.update(seen_at=timezone.now() - 2 * workers.FORGOTTEN_AFTER)
    other = Worker.objects.create(host="other", pid=2, version="1", started_at=timezone.now(), seen_at=timezone.now())
    workers.beat(other.pk, sessions=0, hung_threads=0)
    workers.leave(row.worker)
    assert Worker.objects.filter(pk=row.worker).exists()
    sessions.reject(row, by=kim, version=row.version)
    workers.beat(other.pk, sessions=0, hung_threads=0)
    assert not Worker.objects.filter(pk=row.worker).exists()


def test_the_admin_tells_both_too(desk: Desk, kim: User, client: Client) -> None:
    unknown(desk)
    lost = desk.call()
    kim.is_staff = True
    kim.save()
    client.force_login(kim)
    page = client.get(reverse("admin:allm_django_pendingcall_change", args=[lost.pk])).content.decode()
    assert lost.idempotency_key in page
    change(description="Something <b>else</b>.")
    ToolCall.objects.update(state="pending")
    page = client.get(reverse("admin:allm_django_pendingcall_change", args=[lost.pk])).content.decode()
    assert "<del>The tool work.</del> → Something &lt;b&gt;else&lt;/b&gt;." in page
