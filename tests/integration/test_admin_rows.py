"""The admin of sessions, runs, calls and what belongs to them: read-only, masked, fast (M05, M06)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from allm_django.admin.base import BoundedPaginator
from allm_django.admin.search import id_range
from allm_django.core.states import CallState, Outcome
from allm_django.models import Event, Message, Session, ToolCall, Worker
from allm_django.models.call import OPEN_CALLS
from allm_django.models.session import RUNNING_SESSIONS
from allm_django.store.tools import save_tool
from tests.integration.admin_rows import (
    REFUND,
    REFUND_SCHEMA,
    make_call,
    make_decision,
    make_event,
    make_session,
    make_tool,
    person,
)
from tests.integration.cast import without_runner

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("M05")]

MODELS = ("session", "run", "toolcall", "pendingcall", "decision", "event", "worker")
VIEWS = tuple(f"view_{name}" for name in MODELS)
SECRET = "4111-1111-1111-1111"


@pytest.fixture(autouse=True)
def no_runner() -> Iterator[None]:
    """Requests start no runner here."""
    with without_runner():
        yield


def url(name: str, key: object = None) -> str:
    if key is None:
        return reverse(f"admin:allm_django_{name}_changelist")
    return reverse(f"admin:allm_django_{name}_change", args=[key])


@pytest.fixture
def asker() -> User:
    return person("asker", "chat", staff=False)


@pytest.fixture
def reader(client: Client) -> Client:
    """Logged in to read everything, but to decide nothing."""
    client.force_login(person("reader", *VIEWS))
    return client


@pytest.fixture
def approver() -> Client:
    """Logged in to read everything and decide."""
    client = Client()
    client.force_login(person("approver", *VIEWS, "decide_toolcall"))
    return client


@pytest.fixture
def call(asker: User) -> ToolCall:
    """A refund that waits, its card number sensitive."""
    tool = make_tool("refund", handler=REFUND, manual=True, sensitive=["card"], schema=REFUND_SCHEMA)
    return make_call(make_session(asker), tool, {"order_id": 1042, "card": SECRET})


def one_of_each(call: ToolCall) -> dict[str, object]:
    """A row of each model, by the model's name."""
    now = timezone.now()
    worker = Worker.objects.create(host="h", pid=1, version="1", started_at=now, seen_at=now)
    return {
        "session": call.session_id,
        "run": call.run_id,
        "toolcall": call.pk,
        "pendingcall": call.pk,
        "decision": make_decision(call).pk,
        "event": make_event(call.session).pk,
        "worker": worker.pk,
    }


@pytest.mark.row("R11")
def test_everything_can_be_read_and_nothing_written(reader: Client, call: ToolCall) -> None:
    for name, key in one_of_each(call).items():
        assert reader.get(url(name)).status_code == 200, name
        assert reader.get(url(name, key)).status_code == 200, name
        assert reader.post(url(name, key), {}).status_code == 403, name
        assert reader.get(reverse(f"admin:allm_django_{name}_add")).status_code == 403, name
        assert reader.post(reverse(f"admin:allm_django_{name}_delete", args=[key]), {"post": "yes"}).status_code == 403
        assert reader.post(url(name), {"action": "delete_selected", "_selected_action": key, "post": "yes"})
    assert ToolCall.objects.filter(pk=call.pk).exists()


def test_a_superuser_writes_nothing_either(client: Client, call: ToolCall) -> None:
    client.force_login(User.objects.create_superuser("root"))
    for name, key in one_of_each(call).items():
        assert client.post(url(name, key), {}).status_code == 403, name
        assert client.post(reverse(f"admin:allm_django_{name}_delete", args=[key]), {"post": "yes"}).status_code == 403


def test_rows_of_sessions_that_access_hides_are_not_there(client: Client, call: ToolCall) -> None:
    client.force_login(person("local", *(name for name in VIEWS if name != "view_session")))
    keys = one_of_each(call)
    hidden = ("run", "toolcall", "pendingcall", "decision", "event")
    for name in hidden:
        assert client.get(url(name)).context["cl"].result_count == 0, name
    for name in hidden:
        assert client.get(url(name, keys[name])).status_code == 302, name


@pytest.mark.row("T26")
def test_sensitive_arguments_are_masked_in_lists_for_everyone(reader: Client, approver: Client, call: ToolCall) -> None:
    for person_ in (reader, approver):
        for name in ("toolcall", "pendingcall", "decision", "session"):
            page = person_.get(url(name)).content.decode()
            assert SECRET not in page
        assert "••••••" in person_.get(url("toolcall")).content.decode()


@pytest.mark.row("T26")
def test_sensitive_arguments_are_clear_in_detail_only_for_those_who_may_decide(
    reader: Client, approver: Client, call: ToolCall
) -> None:
    keys = one_of_each(call)
    ToolCall.objects.filter(pk=call.pk).update(
        asked_arguments={"order_id": 1, "card": SECRET + "-asked"}, raw_arguments=f'{{"card": "{SECRET}"}}'
    )
    for name in ("session", "toolcall", "pendingcall", "decision"):
        assert SECRET not in reader.get(url(name, keys[name])).content.decode(), name
        assert SECRET in approver.get(url(name, keys[name])).content.decode(), name


def test_approver_groups_bind_what_is_shown(approver: Client, call: ToolCall) -> None:
    assert call.tool_version is not None
    assert call.tool_version.tool is not None
    save_tool(call.tool_version.tool, approver_groups=[Group.objects.create(name="Finance")])
    assert SECRET not in approver.get(url("toolcall", call.pk)).content.decode()
    assert SECRET not in approver.get(url("session", call.session_id)).content.decode()


@pytest.mark.row("R11")
def test_the_transcript_reads_in_order_with_calls_results_and_decisions(approver: Client, call: ToolCall) -> None:
    Message.objects.create(session=call.session, position=0, role="user", text="Please refund order 1042")
    make_decision(call, who="Kim", reason="Parcel came late")
    ToolCall.objects.filter(pk=call.pk).update(
        state=CallState.SETTLED, outcome=Outcome.SUCCEEDED, content="Refund 7 was made"
    )
    page = approver.get(url("session", call.session_id)).content.decode()
    order = ["Please refund order 1042", "Turn 0", "Refund", SECRET, "Refund 7 was made", "Kim", "Parcel came late"]
    places = [page.index(words, page.index("allm-transcript-title")) for words in order]
    assert places == sorted(places)
    assert url("toolcall", call.pk) in page


def test_hostile_text_is_inert_and_hidden_characters_are_visible(approver: Client, call: ToolCall) -> None:
    evil = "<img src=x onerror=alert(1)></pre></details><script>alert(1)</script>\u202eeno"
    Session.objects.filter(pk=call.session_id).update(title=evil, context={"x": evil})
    Message.objects.create(session=call.session, position=0, role="user", text=evil, thinking=evil, broken=evil)
    decision = make_decision(call, who=evil, reason=evil)
    tool = save_tool(
        type(call.tool_version.tool)(  # type: ignore[union-attr]
            name="evil", title=evil, description=evil, manual=True, enabled=True
        )
    )
    other = make_call(call.session, tool, {"order_id": evil}, why=evil, raw_arguments=evil, content=evil)
    ToolCall.objects.filter(pk=other.pk).update(
        state=CallState.SETTLED,
        outcome=Outcome.FAILED,
        result={"x": evil},
        error={"code": "x", "message": evil, "detail": evil},
        question={"text": evil, "options": [evil]},
        decided_reason=evil,
        decided_name=evil,
    )
    event = Event.objects.create(
        session=call.session, number=99, kind="MessageAdded", data={"x": evil}, created_at=timezone.now()
    )
    pages = [url(name) for name in MODELS]
    pages += [url("session", call.session_id), url("toolcall", other.pk), url("decision", decision.pk)]
    pages += [url("event", event.pk), url("run", call.run_id)]
    for address in pages:
        page = approver.get(address).content.decode()
        assert "<img src=x" not in page, address
        assert "<script>alert" not in page, address
        assert "\u202e" not in page, address
    assert "⟦U+202E⟧" in approver.get(url("session", call.session_id)).content.decode()


def test_states_outcomes_and_verbs_are_said_in_words(approver: Client, call: ToolCall) -> None:
    make_decision(call)
    for address in (url("decision"), url("session", call.session_id)):
        assert "approve" in approver.get(address).content.decode()
    assert "approved, to run" in approver.get(url("decision")).content.decode()
    for name, words in (("toolcall", "waiting for a decision"), ("run", "calls wait for a decision")):
        assert words in approver.get(url(name)).content.decode()
    settled = make_call(call.session, make_tool("other"), {}, state=CallState.SETTLED, outcome=Outcome.INVALID)
    for address in (url("toolcall"), url("toolcall", settled.pk), url("session", call.session_id)):
        assert "not run: wrong arguments" in approver.get(address).content.decode()


def test_a_session_that_nobody_cancelled_has_no_red_cross(reader: Client, asker: User) -> None:
    page = reader.get(url("session", make_session(asker).pk)).content.decode()
    assert "icon-no" not in page
    assert "Open in the chat" in page


def test_a_long_session_is_read_page_by_page(reader: Client, asker: User) -> None:
    session = make_session(asker)
    Message.objects.bulk_create(
        Message(session=session, position=n, role="user", text=f"Words number {n}.") for n in range(120)
    )
    last = reader.get(url("session", session.pk)).content.decode()
    assert "Words number 119." in last
    assert "Words number 69." not in last
    assert "?before=70" in last
    first = reader.get(url("session", session.pk), {"before": "20"}).content.decode()
    assert "Words number 0." in first
    assert "Words number 20." not in first
    assert "?before=" not in first
    assert reader.get(url("session", session.pk), {"before": "1 OR 1=1"}).status_code == 200


@pytest.mark.row("M06")
def test_waiting_calls_stand_oldest_first_with_their_age_and_a_link_to_their_card(
    approver: Client, asker: User
) -> None:
    tool, session = make_tool("refund", handler=REFUND, manual=True, title="Refund it"), make_session(asker, "Order 7")
    young, old = make_call(session, tool, {"n": "young"}), make_call(session, tool, {"n": "old"})
    settled = make_call(session, tool, {}, state=CallState.SETTLED)
    ToolCall.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(hours=3))
    page = approver.get(url("pendingcall")).content.decode()
    assert page.index(str(old.pk)) < page.index(str(young.pk))
    assert str(settled.pk) not in page
    card = reverse("allm_django:session", args=[session.pk]) + f"?card={old.pk}"
    for words in (card, "3\xa0hours", "Refund it", "Order 7", "asker"):
        assert words in page


def test_who_may_decide_finds_the_waiting_calls_without_any_view_permission(client: Client, call: ToolCall) -> None:
    client.force_login(person("only-decides", "decide_toolcall"))
    assert str(call.pk) in client.get(url("pendingcall")).content.decode()
    assert client.get(url("toolcall")).status_code == 403
    client.force_login(person("nobody"))
    assert client.get(url("pendingcall")).status_code == 403


def test_a_list_costs_the_same_number_of_queries_for_ten_and_a_hundred_rows(
    approver: Client, django_assert_max_num_queries: Any
) -> None:
    def queries() -> dict[str, int]:
        counts = {}
        for name in MODELS:
            with django_assert_max_num_queries(100) as caught:
                assert approver.get(url(name)).status_code == 200
            counts[name] = len(caught)
        return counts

    tool = make_tool("refund", handler=REFUND, manual=True)
    for number in range(10):
        row(number, tool)
    queries()  # what Django keeps from the first request on
    few = queries()
    for number in range(10, 100):
        row(number, tool)
    assert queries() == few
    assert max(few.values()) <= 12


def row(number: int, tool: Any) -> None:
    call = make_call(make_session(User.objects.create(username=f"p{number}")), tool, {"order_id": number})
    make_decision(call)
    make_event(call.session)
    now = timezone.now()
    Worker.objects.create(host=f"h{number}", pid=1, version="1", started_at=now, seen_at=now)


def test_a_session_costs_the_same_number_of_queries_for_three_and_thirty_turns(
    approver: Client, asker: User, django_assert_max_num_queries: Any
) -> None:
    session, tool = make_session(asker), make_tool("refund", handler=REFUND, manual=True, sensitive=["card"])

    def queries() -> int:
        with django_assert_max_num_queries(100) as caught:
            assert approver.get(url("session", session.pk)).status_code == 200
        return len(caught)

    for number in range(3):
        make_decision(make_call(session, tool, {"n": number}))
    queries()  # what Django keeps from the first request on
    few = queries()
    for number in range(3, 30):
        make_decision(make_call(session, tool, {"n": number}))
    assert queries() == few


def test_no_list_counts_all_rows(
    reader: Client, call: ToolCall, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    one_of_each(call)
    monkeypatch.setattr(BoundedPaginator, "MOST", 100)
    for name in MODELS:
        with django_assert_max_num_queries(100) as caught:
            reader.get(url(name), {"_facets": "True"})
        counts = [query["sql"] for query in caught if "COUNT(" in query["sql"]]
        assert counts, name
        assert not any("DISTINCT" in query["sql"] for query in caught), name
        assert all("LIMIT 100" in sql for sql in counts), name


def test_a_list_that_is_cut_says_so(reader: Client, asker: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedPaginator, "MOST", 2)
    for _ in range(3):
        make_session(asker)
    assert "Only the first 2 are counted" in reader.get(url("session")).content.decode()


def test_search_finds_by_the_start_of_an_id_or_of_the_owners_name(reader: Client, asker: User) -> None:
    session, other = make_session(asker), make_session(person("someone-else", staff=False))
    for term in (str(session.pk), session.pk.hex[:10], str(session.pk)[:12].upper(), "ask", "ASKER"):
        page = reader.get(url("session"), {"q": term}).content.decode()
        assert str(session.pk) in page, term
        assert str(other.pk) not in page, term
    assert str(session.pk) not in reader.get(url("session"), {"q": "sker"}).content.decode()


def test_calls_are_found_by_their_sessions_id(reader: Client, call: ToolCall) -> None:
    for name in ("run", "toolcall", "pendingcall", "event", "decision"):
        key = one_of_each(call)[name] if name in ("run", "toolcall", "pendingcall") else None
        found = reader.get(url(name), {"q": str(call.session_id)})
        assert found.context["cl"].result_count >= (1 if key else 0), name
        assert reader.get(url(name), {"q": "0" * 32}).context["cl"].result_count == 0, name


@pytest.mark.parametrize("term", ["1234567", "not-an-id", "g" * 10, "a" * 33, ""])
def test_what_is_no_start_of_an_id_is_none(term: str) -> None:
    assert id_range(term) is None


def test_the_pages_have_nothing_inline(approver: Client, call: ToolCall, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    keys = one_of_each(call)
    addresses = [url(name) for name in MODELS] + [url(name, key) for name, key in keys.items()]
    for model in ("tool", "engine"):
        addresses += [url(model), reverse(f"admin:allm_django_{model}_add")]
    assert call.tool_version is not None
    addresses += [url("tool", call.tool_version.tool_id), url("engine", call.session.engine_id)]
    addresses.append(reverse("admin:allm_django_tool_history", args=[call.tool_version.tool_id]))
    for address in addresses:
        page = client.get(address).content.decode()
        assert_nothing_inline(page, address)


def assert_nothing_inline(page: str, address: str) -> None:
    """No script, style or handler that a strict content security policy would refuse (security row 31)."""
    scripts = re.findall(r"<script\b([^>]*)>", page)
    assert all("src=" in attributes or 'type="application/json"' in attributes for attributes in scripts), address
    assert not re.search(r"<style\b", page), address
    assert not re.search(r"<[^>]+\sstyle=", page), address
    assert not re.search(r"<[^>]+\son[a-z]+\s*=", page), address
    assert "javascript:" not in page, address


def test_a_project_that_does_not_mount_the_page_has_no_links_to_it(
    approver: Client, call: ToolCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unmounted(name: str, *args: Any, **kwargs: Any) -> str:
        if name.startswith("allm_django:"):
            raise NoReverseMatch
        return reverse(name, *args, **kwargs)

    monkeypatch.setattr("allm_django.admin.display.reverse", unmounted)
    assert "?card=" not in approver.get(url("pendingcall")).content.decode()
    assert "Open on the page" not in approver.get(url("session", call.session_id)).content.decode()


def test_what_waits_and_what_runs_is_found_by_partial_indexes_on_every_database(call: ToolCall) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")  # so few rows need no index
    assert "allm_call_open" in ToolCall.objects.filter(OPEN_CALLS).order_by("created_at").explain()
    assert "allm_session_at_work" in Session.objects.filter(RUNNING_SESSIONS).order_by("updated_at").explain()
    assert list(ToolCall.objects.filter(OPEN_CALLS)) == [call]
