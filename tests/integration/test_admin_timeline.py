"""The timeline of a run: model, tools and people on one scale, from the session's events (M05)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allm_django import sessions
from allm_django.admin.timeline import PEOPLE, TOOL, Timeline
from allm_django.admin.timeline_picture import TimelinePage
from allm_django.models import Event, Run
from allm_django.store import clock
from allm_django.testing import ScriptedModel, drive, open_calls, say
from tests.integration import admin_rows, cast, driving
from tests.integration.test_admin_rows import assert_nothing_inline

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("M05")]


@pytest.fixture(autouse=True)
def no_runner() -> Iterator[None]:
    """Requests start no runner here."""
    with cast.without_runner():
        yield


def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


@pytest.fixture
def run() -> Run:
    """A run whose model asks at once, whose call a person lets go after two hours, and whose tool takes no time."""
    asked = timezone.now() + timedelta(seconds=1)
    with driving.tool(refund, manual=True):
        with clock.stopped_at(asked):
            session = cast.halted(cast.person("asker", "chat"), {"order": 7})
        with clock.stopped_at(asked + timedelta(hours=2)):
            sessions.approve(open_calls(session)[0], by=None)
            drive(session, ScriptedModel([say("Done.")]))
    return session.runs.get()


def page_of(client: Client, run: Run, **query: str) -> Any:
    if not client.session.get("_auth_user_id"):
        client.force_login(admin_rows.person("reader", "view_run", "view_session"))
    return client.get(reverse("admin:allm_django_run_change", args=[run.pk]), query)


def test_what_waits_for_a_person_is_told_apart_from_the_work(run: Run) -> None:
    timeline = Timeline.of(run)
    assert [(one.kind, one.title) for one in timeline.stretches] == [
        ("model", "planner:desk"),
        (PEOPLE, "refund"),
        (TOOL, "refund"),
        ("model", "planner:desk"),
    ]
    assert timeline.spent(PEOPLE) == 7200
    assert timeline.spent("model", TOOL) == 0
    assert timeline.total == pytest.approx(7201, abs=1)


def test_the_page_draws_it_and_says_the_same_in_numbers(client: Client, run: Run) -> None:
    page = page_of(client, run).content.decode()
    assert_nothing_inline(page, "run")
    for words in ("People are waited for · 2 h 0 min", "waiting for a decision", "allm-tone-people", "?waits=short"):
        assert words in page, words
    assert "Draw all to scale" in page_of(client, run, waits="short").content.decode()


def test_a_run_that_goes_on_shows_how_long_so_far() -> None:
    asked = timezone.now() + timedelta(seconds=1)
    with clock.stopped_at(asked):
        session = cast.waiting_call(cast.person("asker", "chat")).session if cast.a_tool() else None
    assert session is not None
    with clock.stopped_at(asked + timedelta(minutes=10)):
        rows = TimelinePage.of(Timeline.of(session.runs.get()), short=False).rows
    assert rows[-1].took == "10 min 0 s so far"


def test_calls_at_once_stand_below_each_other_and_count_once() -> None:
    run = told([(0, "a", "executing"), (1, "b", "executing"), (4, "a", "settled"), (5, "b", "settled")])
    timeline = Timeline.of(run)
    assert timeline.spent(TOOL) == 5
    assert [(one.start, one.end) for one in timeline.stretches] == [(0, 4), (1, 5)]
    boxes = TimelinePage.of(timeline, short=False).picture.count("allm-span")
    assert boxes == 2


def test_long_waits_can_be_drawn_shorter_so_that_the_work_is_seen() -> None:
    run = told([(0, "a", "executing"), (10, "a", "pending"), (90_010, "a", "executing"), (90_020, "a", "settled")])
    timeline = Timeline.of(run)
    assert 'x="0.000%" y="38.0" width="0.011%"' in TimelinePage.of(timeline, short=False).picture
    short = TimelinePage.of(timeline, short=True)
    assert 'width="43.478%"' in short.picture
    assert "⋯ 25 h 0 min ⋯" in short.picture


def test_a_run_without_events_says_so(client: Client) -> None:
    run = told([])
    assert "No event tells of its times" in page_of(client, run).content.decode()


def told(states: list[tuple[int, str, str]]) -> Run:
    """An ended run whose events say which call was in which state at which second."""
    session = admin_rows.make_session(cast.person("asker"))
    run = Run.objects.create(session=session, request_id="r", state="ended", halted_reason="completed")
    for number, (second, key, state) in enumerate(states, 1):
        calls = [{"id": "0" * 31 + key, "run": str(run.pk), "title": key, "state": state}]
        at = run.created_at + timedelta(seconds=second)
        Event.objects.create(session=session, number=number, kind="x", data={"calls": calls}, created_at=at)
    run.ended_at = run.created_at + timedelta(seconds=states[-1][0] if states else 0)
    run.save()
    return run
