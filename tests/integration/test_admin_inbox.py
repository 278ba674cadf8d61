"""The inbox of the admin: what waits, filtered, and decided in bulk by explicit ids and versions (H06, M06)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allm_django import sessions
from allm_django.core.states import CallState, Outcome
from allm_django.models import Engine, Tool, ToolCall
from allm_django.store.tools import save_tool
from tests.integration.admin_rows import REFUND, REFUND_SCHEMA, make_call, make_session, make_tool, person
from tests.integration.cast import without_runner
from tests.integration.test_admin_rows import assert_nothing_inline

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("M06")]

LIST = "admin:allm_django_pendingcall_changelist"
DECIDE = "admin:allm_django_pendingcall_decide"


@pytest.fixture(autouse=True)
def no_runner() -> Iterator[None]:
    """Requests start no runner here."""
    with without_runner():
        yield


@pytest.fixture
def kim(client: Client) -> User:
    """Logged in; may decide."""
    user = person("kim", "decide_toolcall", "view_pendingcall", "view_session")
    client.force_login(user)
    return user


@pytest.fixture
def tool() -> Tool:
    return make_tool("refund", handler=REFUND, manual=True, sensitive=["card"], schema=REFUND_SCHEMA)


@pytest.fixture
def calls(tool: Tool) -> list[ToolCall]:
    """Three refunds of one asker, oldest first."""
    session = make_session(person("asker", "chat", staff=False))
    return [make_call(session, tool, {"order_id": number, "card": f"card-{number}"}) for number in (1, 2, 3)]


def tickets(page: str, name: str) -> list[str]:
    return re.findall(rf'name="{name}" value="([^"]+)"', page)


def ticket(call: ToolCall) -> str:
    return f"{call.pk}:{call.version}"


def states(calls: list[ToolCall]) -> list[str]:
    return [ToolCall.objects.get(pk=call.pk).state for call in calls]


def said(response: Any) -> list[str]:
    return [str(message) for message in response.context["messages"]]


@pytest.mark.row("H06")
def test_all_shown_are_approved_after_a_page_that_lists_each(client: Client, kim: User, calls: list[ToolCall]) -> None:
    shown = tickets(client.get(reverse(LIST)).content.decode(), "shown")
    assert shown == [ticket(call) for call in calls]
    asked = client.post(reverse(DECIDE), {"all": "approve", "shown": shown, "back": "?mine=yes"})
    page = asked.content.decode()
    assert tickets(page, "chosen") == shown
    assert "card-2" in page  # kim may decide, so sees what is decided
    assert states(calls) == [CallState.PENDING] * 3
    done = client.post(
        reverse(DECIDE), {"verb": "approve", "chosen": shown, "confirmed": "yes", "back": "?mine=yes"}, follow=True
    )
    assert done.redirect_chain[0][0] == reverse(LIST) + "?mine=yes"
    assert said(done) == ["3 calls were approved."]
    assert states(calls) == [CallState.READY] * 3


@pytest.mark.row("H06")
def test_what_changed_since_it_was_shown_is_refused_and_named_and_the_others_are_done(
    client: Client, kim: User, calls: list[ToolCall]
) -> None:
    chosen = [ticket(call) for call in calls]
    sessions.reject(calls[0], by=person("lou", "decide_toolcall"))
    ToolCall.objects.filter(pk=calls[1].pk).update(version=7)
    asked = client.post(reverse(DECIDE), {"verb": "approve", "chosen": chosen}).content.decode()
    assert tickets(asked, "chosen") == chosen[2:]
    assert asked.count("It changed since the list was shown") == 2
    done = client.post(reverse(DECIDE), {"verb": "approve", "chosen": chosen, "confirmed": "yes"}, follow=True)
    words = said(done)
    assert len(words) == 3
    assert str(calls[0].pk)[:8] in words[0]
    assert "already settled by lou" in words[0]
    assert str(calls[1].pk)[:8] in words[1]
    assert words[2] == "1 call was approved."
    assert states(calls) == [CallState.SETTLED, CallState.PENDING, CallState.READY]


def test_a_bulk_reject_needs_a_reason_that_each_call_keeps(client: Client, kim: User, calls: list[ToolCall]) -> None:
    chosen = [ticket(call) for call in calls[:2]]
    without = client.post(reverse(DECIDE), {"verb": "reject", "chosen": chosen, "confirmed": "yes", "reason": "  "})
    assert "Say why" in without.content.decode()
    assert states(calls) == [CallState.PENDING] * 3
    client.post(reverse(DECIDE), {"verb": "reject", "chosen": chosen, "confirmed": "yes", "reason": "Not today"})
    rows = ToolCall.objects.filter(outcome=Outcome.REJECTED)
    assert {(row.pk, row.decided_reason, row.decided_by) for row in rows} == {
        (call.pk, "Not today", kim) for call in calls[:2]
    }


def test_only_what_one_may_decide_is_offered_and_all_else_is_refused(
    client: Client, kim: User, tool: Tool, calls: list[ToolCall]
) -> None:
    other = make_call(calls[0].session, make_tool("pay", handler=REFUND, manual=True), {"order_id": 9})
    save_tool(tool, approver_groups=[Group.objects.create(name="Finance")])
    page = client.get(reverse(LIST)).content.decode()
    assert tickets(page, "shown") == [ticket(other)]
    assert all(str(call.pk) in page for call in calls)
    chosen = [ticket(call) for call in calls]
    asked = client.post(reverse(DECIDE), {"verb": "approve", "chosen": chosen}).content.decode()
    assert tickets(asked, "chosen") == []
    assert "card-1" not in asked
    done = client.post(reverse(DECIDE), {"verb": "approve", "chosen": chosen, "confirmed": "yes"}, follow=True)
    assert states(calls) == [CallState.PENDING] * 3
    assert len(said(done)) == 3


def test_who_may_only_look_is_offered_nothing_and_who_may_not_gets_nothing(
    client: Client, calls: list[ToolCall]
) -> None:
    client.force_login(person("reader", "view_pendingcall", "view_session"))
    page = client.get(reverse(LIST)).content.decode()
    assert "formaction" not in page
    assert tickets(page, "shown") == []
    chosen = {"verb": "approve", "chosen": [ticket(call) for call in calls], "confirmed": "yes"}
    client.post(reverse(DECIDE), chosen)
    client.force_login(person("stranger"))
    assert client.post(reverse(DECIDE), chosen).status_code == 403
    assert states(calls) == [CallState.PENDING] * 3


@pytest.mark.parametrize("chosen", [[], ["x"], ["not-an-id:1"], [":"], ["0" * 32 + ":1"] * 3])
def test_what_is_no_choice_decides_nothing(client: Client, kim: User, calls: list[ToolCall], chosen: list[str]) -> None:
    answer = client.post(reverse(DECIDE), {"verb": "approve", "chosen": chosen, "confirmed": "yes"})
    assert answer.status_code == 302
    assert client.post(reverse(DECIDE), {"verb": "explode", "chosen": ticket(calls[0])}).status_code == 302
    assert client.get(reverse(DECIDE)).status_code == 302
    assert states(calls) == [CallState.PENDING] * 3


def test_the_way_back_never_leads_to_another_host(client: Client, kim: User, calls: list[ToolCall]) -> None:
    answer = client.post(reverse(DECIDE), {"verb": "explode", "back": "//evil.example/?x"})
    assert answer["Location"].startswith(reverse(LIST) + "?")


def test_the_list_is_narrowed_by_tool_owner_engine_age_and_whose_turn_it_is(
    client: Client, kim: User, calls: list[ToolCall]
) -> None:
    engine = Engine.objects.create(name="other", model="planner:desk")
    mine = make_call(make_session(kim, engine=engine), make_tool("pay", handler=REFUND, manual=True), {})
    ToolCall.objects.filter(pk=mine.pk).update(created_at=timezone.now() - timedelta(days=3))
    for choice in (
        {"tool": "pay"},
        {"owner": str(kim.pk)},
        {"engine": str(engine.pk)},
        {"age": "2"},
        {"mine": "no"},  # it takes decide_own_toolcall, too
    ):
        found = client.get(reverse(LIST), choice).context["cl"]
        assert [row.pk for row in found.result_list] == [mine.pk], choice
        assert found.has_active_filters
    assert client.get(reverse(LIST), {"mine": "yes", "age": "0"}).context["cl"].result_count == 3
    assert client.get(reverse(LIST), {"tool": "' OR 1=1"}).context["cl"].result_count == 4


def test_the_pages_have_nothing_inline(client: Client, kim: User, calls: list[ToolCall]) -> None:
    assert_nothing_inline(client.get(reverse(LIST)).content.decode(), "list")
    for verb in ("approve", "reject"):
        page = client.post(reverse(DECIDE), {"verb": verb, "chosen": [ticket(call) for call in calls]})
        assert_nothing_inline(page.content.decode(), verb)
