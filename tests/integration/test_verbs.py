"""Every verb on a call, wherever the call stands; and the table of all verbs in the documents (S02)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from allm_django import errors, sessions
from allm_django.core.states import CallState, SessionStatus
from allm_django.models import Decision, ToolCall
from tests import verbs
from tests.integration import standing
from tests.integration.desk import Desk

pytestmark = [pytest.mark.row("S02")]


def submit(call: ToolCall) -> ToolCall:
    """Give its result from code."""
    sessions.submit_tool_result(call.session, call.call_id, "by hand")
    return ToolCall.objects.get(pk=call.pk)


VERBS: dict[str, Callable[[ToolCall], ToolCall]] = {
    "approve": lambda call: sessions.approve(call, by=None),
    "edit": lambda call: sessions.approve(call, by=None, arguments={"n": 1}),
    "answer": lambda call: sessions.answer(call, by=None, value="by hand"),
    "reject": lambda call: sessions.reject(call, by=None),
    "retry": lambda call: sessions.retry(call, by=None),
    "reask": lambda call: sessions.reask(call, by=None),
    "submit_tool_result": submit,
}


@pytest.mark.django_db
@pytest.mark.both_databases
@pytest.mark.parametrize(("place", "state", "verb", "end"), verbs.cells(verbs.CALL_VERBS, verbs.CALLS))
def test_each_verb_on_each_call_leads_on_or_is_refused_by_type(
    desk: Desk, place: str, state: str, verb: str, end: str
) -> None:
    standing.CALLS[place](desk)
    [call] = desk.session.calls.filter(parent=None)  # not a step of it
    before = standing.fresh(desk.session)
    assert call.state == state
    if not end.endswith("Error"):
        after = VERBS[verb](call)
        assert ": ".join(filter(None, (after.state, after.outcome))) == end
        return
    with pytest.raises(errors.AllmError) as caught:
        VERBS[verb](call)
    assert type(caught.value).__name__ == end
    assert caught.value.info["state"] == state
    assert (desk.calls()[0].version, standing.fresh(desk.session).event_count) == (call.version, before.event_count)
    assert Decision.objects.filter(call=call).count() == (place == "ready")  # the one that made it so


def test_the_table_names_every_status_and_each_state_that_a_call_can_be_decided_in() -> None:
    assert {status for status, _, _ in verbs.SESSIONS.values()} == set(SessionStatus)
    assert {state for state, _, _ in verbs.CALLS.values()} == set(CallState)


def test_the_document_is_what_the_tests_try_out() -> None:
    assert verbs.DOCUMENT.read_text() == verbs.document(), "stale: python -m tests.verbs"
