"""The admin's overview: figures of a bounded time, for who may read sessions, in a constant number of queries (M07)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allm_django import access
from allm_django.admin.overview_page import panels
from allm_django.core.states import CallState, Outcome
from allm_django.models import Run, Session, ToolCall, Worker
from allm_django.store import clock
from tests.integration.admin_rows import make_call, make_decision, make_session, make_tool, person
from tests.integration.cast import without_runner
from tests.integration.test_admin_rows import assert_nothing_inline

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("M07")]

NOON = timezone.make_aware(datetime(2026, 5, 20, 12))
URL = "admin:allm_django_overview_changelist"
MEMORY = "channels.layers.InMemoryChannelLayer"


@pytest.fixture(autouse=True)
def still() -> Iterator[None]:
    """Requests start no runner, and the clock stands."""
    with without_runner(), clock.stopped_at(NOON):
        yield


@pytest.fixture
def reader() -> User:
    return person("reader", "view_session")


@pytest.fixture
def session() -> Session:
    return make_session(person("asker", "chat", staff=False))


def panel(viewer: User, name: str, days: int = 7) -> Any:
    return next(found for found in panels(viewer, days) if found.name == name)


def cells(found: Any) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in found.rows]


def aged(call: ToolCall, age: timedelta, **values: Any) -> ToolCall:
    ToolCall.objects.filter(pk=call.pk).update(created_at=NOON - age, **values)
    return call


def run_used(session: Session, usage: dict[str, Any], *, age: timedelta = timedelta(), turns: int = 1) -> None:
    run = Run.objects.create(session=session, request_id="r", usage=usage, turns=turns)
    Run.objects.filter(pk=run.pk).update(created_at=NOON - age)


def worker(**values: Any) -> Worker:
    base: dict[str, Any] = {"host": "h", "pid": 1, "version": "1", "started_at": NOON, "seen_at": NOON}
    return Worker.objects.create(**base | values)


def test_what_waits_is_counted_by_age_and_state(reader: User, session: Session) -> None:
    tool = make_tool(manual=True)
    for age in (timedelta(minutes=5), timedelta(minutes=50), timedelta(days=3), timedelta(days=90)):
        aged(make_call(session, tool, {}), age)
    aged(make_call(session, tool, {}, state=CallState.UNKNOWN), timedelta(days=90))
    aged(make_call(session, tool, {}, state=CallState.SETTLED), timedelta(minutes=5))
    found = panel(reader, "waiting")
    assert [row[1:4] for row in cells(found)] == [["2", "0", "0"], ["0", "0", "0"], ["1", "0", "0"], ["1", "1", "0"]]
    assert found.facts[0][0] == "5"


def test_decisions_are_counted_by_day_verb_and_person_with_the_time_they_took(reader: User, session: Session) -> None:
    tool = make_tool(manual=True)
    for hours, who, verb in ((1, "Kim", "approve"), (2, "Kim", "approve"), (9, "Lou", "reject")):
        make_decided(aged(make_call(session, tool, {}), timedelta(hours=hours)), who, verb)
    make_decided(aged(make_call(session, tool, {}), timedelta(days=40)), "Old", "approve", timedelta(days=30))
    today = cells(panel(reader, "decisions"))[0]
    assert today == ["May 20, 2026", "2", "1"]
    people = panel(reader, "people")
    assert [row[:4] for row in cells(people)] == [
        ["Kim", "2", "1 h 30 min", "2 h 0 min"],
        ["Lou", "1", "9 h 0 min", "9 h 0 min"],
    ]
    assert [number for number, _ in people.facts] == ["2 h 0 min", "9 h 0 min"]
    assert "Old" in str(cells(panel(reader, "people", days=90)))


def make_decided(call: ToolCall, who: str, verb: str, ago: timedelta = timedelta()) -> None:
    made = make_decision(call, who=who, verb=verb)
    with connection.cursor() as cursor:  # decisions are append-only for the ORM
        cursor.execute("UPDATE allm_django_decision SET created_at = %s WHERE id = %s", [NOON - ago, made.pk])


def test_tools_that_fail_stand_first(reader: User, session: Session) -> None:
    fine, bad = make_tool("fine"), make_tool("bad")
    settled = ((fine, Outcome.SUCCEEDED), (bad, Outcome.SUCCEEDED), (bad, Outcome.FAILED), (bad, Outcome.FAILED))
    for tool, outcome in settled:
        aged(make_call(session, tool, {}, state=CallState.SETTLED, outcome=outcome), timedelta(hours=1))
    found = panel(reader, "tools")
    assert [row[1:5] for row in cells(found)] == [["3", "2", "0", "66.7 %"], ["1", "0", "0", "0.0 %"]]


@pytest.mark.row("L09")
def test_unknown_tokens_and_costs_are_not_0_and_sums_with_gaps_say_at_least(reader: User, session: Session) -> None:
    run_used(session, {"input_tokens": 100, "output_tokens": 20, "cost": "0.5"})
    run_used(session, {"input_tokens": 50, "output_tokens": 5, "partial": ["cost"]})
    run_used(session, {}, age=timedelta(days=1))
    run_used(session, {}, age=timedelta(days=2), turns=0)
    tokens, cost = cells(panel(reader, "tokens")), cells(panel(reader, "cost"))
    assert [row[1:] for row in tokens[:3]] == [["150", "25"], ["unknown", "unknown"], ["0", "0"]]
    assert [row[1] for row in cost[:3]] == ["≥ $0.5000", "unknown", "$0.00"]
    assert "allm-tone-unknown" in panel(reader, "cost").picture


def test_workers_that_can_not_work_together_are_warned_of(reader: User) -> None:
    assert "No worker is alive" in panel(reader, "workers").warnings[0]
    worker(layer=MEMORY, sweeps=False, hung_threads=2)
    worker(layer=MEMORY, sweeps=False, seen_at=NOON - timedelta(minutes=5))
    one = panel(reader, "workers")
    assert [words.split(":")[0] for words in one.warnings] == [
        "No worker sweeps",
        "2 threads hang in handlers past their timeout. Look at the calls whose outcome is unknown.",
    ]
    assert one.facts[0][0] == "1"
    worker(layer=MEMORY, version="2")
    words = " ".join(panel(reader, "workers").warnings)
    assert "in-memory channel layer" in words
    assert "different versions" in words
    assert "sweeps" not in words


def test_the_page_is_for_staff_who_may_read_sessions(client: Client, reader: User) -> None:
    address = reverse(URL)
    client.force_login(person("decides", "decide_toolcall"))
    assert client.get(address).status_code == 403
    client.force_login(person("outside", "view_session", staff=False))
    assert client.get(address).status_code == 302
    client.force_login(reader)
    page = client.get(address, {"days": "30"})
    assert page.status_code == 200
    assert page.context["days"] == 30
    assert client.get(address, {"days": "100000"}).context["days"] == 7
    assert address in client.get(reverse("admin:index")).content.decode()


def test_the_page_has_nothing_inline_and_makes_text_inert(client: Client, reader: User, session: Session) -> None:
    evil = "<img src=x onerror=alert(1)>\u202e"
    tool = make_tool("evil", title=evil, manual=True)
    make_decision(aged(make_call(session, tool, {}), timedelta(hours=1)), who=evil)
    worker(host=evil, layer=evil)
    client.force_login(reader)
    page = client.get(reverse(URL), {"days": "90"}).content.decode()
    assert_nothing_inline(page, "overview")
    assert "<img src=x" not in page
    assert "\u202e" not in page


def test_rows_of_sessions_that_access_hides_are_not_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(access.Access):
        def visible_sessions(self, user: access.Person) -> Any:
            return Session.objects.filter(owner=user)  # type: ignore[misc]

    monkeypatch.setattr(access, "access_class", lambda: Own)
    viewer = person("tenant", "view_session")
    tool = make_tool(manual=True)
    aged(make_call(session, tool, {}), timedelta(hours=2))
    aged(make_call(make_session(viewer), tool, {}), timedelta(hours=2))
    assert panel(viewer, "waiting").facts[0][0] == "1"
    assert panel(viewer, "tools").facts[0][0] == "1"


def test_the_page_costs_the_same_few_queries_however_much_there_is(
    client: Client, reader: User, session: Session, django_assert_max_num_queries: Any
) -> None:
    client.force_login(reader)
    make_call(session, make_tool(manual=True), {})

    def queries() -> int:
        with django_assert_max_num_queries(100) as caught:
            assert client.get(reverse(URL)).status_code == 200
        return len(caught)

    queries()  # what Django keeps from the first request on
    few = queries()
    for number in range(20):
        make_decision(aged(make_call(session, make_tool(f"t{number}", manual=True), {}), timedelta(days=number)))
        run_used(session, {"input_tokens": 1}, age=timedelta(days=number))
        worker(pid=number)
    assert queries() == few
    assert few <= 13
