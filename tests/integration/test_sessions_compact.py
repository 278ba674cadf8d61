"""Compact tools in stored sessions (T22)."""

from __future__ import annotations

import json

import pytest

from allm_django import sessions
from allm_django.core.history import check_history
from allm_django.models import Event
from allm_django.testing import call, say
from tests.integration.desk import COUNT, Desk

pytestmark = [pytest.mark.django_db]

WHOLE = {"name": "work", "description": "Count. Then some.", "schema": COUNT}


def compact(desk: Desk, **row: object) -> None:
    desk.noted(description="Count. Then some.", schema=COUNT, compact=True, **row)
    desk.noted("other")


@pytest.mark.row("T22")
def test_a_stored_session_offers_compact_tools_as_lines_the_same_each_turn(desk: Desk) -> None:
    compact(desk)
    desk.run(call("other"), say("Done."))
    first, second = (request.tools for request in desk.model.requests)
    assert first == second
    assert [(tool.name, tool.description) for tool in first[:2]] == [("other", "The tool other."), ("work", "Count.")]
    assert (first[1].schema["properties"], desk.offered()[-1]) == ({"n": {}}, "tool_help")


@pytest.mark.row("T22")
def test_asking_for_help_is_a_call_with_its_row_and_its_result(desk: Desk) -> None:
    compact(desk)
    desk.run([call("tool_help", {"names": ["work"]}), call("other")], call("work", {"n": 1}), say("Done."))
    help_row, other, work = desk.calls()
    assert (help_row.name, help_row.state, help_row.outcome) == ("tool_help", "settled", "succeeded")
    assert (help_row.result, help_row.tool_version) == ({"tools": [WHOLE]}, None)
    assert (other.outcome, work.outcome, desk.reason) == ("succeeded", "succeeded", "completed")
    assert json.loads(desk.told()[0]) == {"tools": [WHOLE]}
    check_history(desk.model.requests[-1].messages)
    assert desk.kinds().count("CallSucceeded") == 2  # help has nothing to start or end: it is there with its message
    told = Event.objects.filter(session=desk.session, kind="MessageCompleted").first()
    assert told is not None
    assert [entry["name"] for entry in told.data["calls"]] == ["tool_help", "other"]


@pytest.mark.row("T22")
def test_a_manual_compact_tool_called_wrongly_asks_nobody_and_tells_its_schema(desk: Desk) -> None:
    compact(desk, manual=True)
    desk.run(call("work"), call("work", {"n": 1}), say("Done."))
    bad, good = desk.calls()
    assert (bad.outcome, json.loads(bad.content)["tool"]) == ("invalid", WHOLE)
    assert (good.state, desk.reason) == ("pending", "manual_tool_calls")
    sessions.approve(good, by=None)
    desk.drive()
    assert (desk.ran, desk.reason) == ([{"n": 1}], "completed")


@pytest.mark.row("T22")
def test_the_tool_that_an_engine_forces_is_sent_in_full(desk: Desk) -> None:
    compact(desk)
    desk.run(say("Hello."), tool_choice="work")
    forced = next(tool for tool in desk.model.requests[0].tools if tool.name == "work")
    assert (forced.description, forced.schema) == ("Count. Then some.", COUNT)
