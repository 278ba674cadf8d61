"""The structured final answer of stored runs: on the run and in the API, tried again, safe over restarts (L13)."""

from __future__ import annotations

from typing import Any

import pytest

from allm_django import sessions
from allm_django.errors import InvalidInputError, StateError
from allm_django.models import Engine
from allm_django.present.sessions import session_detail
from allm_django.providers.scripted import usage
from allm_django.store.engines import save_engine
from allm_django.testing import call, drive, fail, say
from tests.integration.desk import COUNT, Desk

pytestmark = pytest.mark.django_db


def shown(desk: Desk) -> Any:
    return session_detail(desk.user, desk.session.pk)["session"]["run"]


@pytest.mark.row("L13")
def test_the_output_stands_on_the_run_and_in_the_api_and_not_in_the_thread(desk: Desk) -> None:
    desk.noted()
    counted = usage(input_tokens=10, output_tokens=1)
    desk.run([counted, call("work")], [counted, say("Seven.")], [counted, say('{"n": 7}')], response_schema=COUNT)
    assert (desk.reason, shown(desk)["output"], desk.last_run.output) == ("completed", {"n": 7}, {"value": {"n": 7}})
    assert [row.text for row in desk.session.messages.order_by("position")] == ["Go.", "", "Seven."]
    assert (desk.last_run.turns, shown(desk)["usage"]["input_tokens"], desk.session.usage["input_tokens"]) == (
        2,
        30,
        30,
    )
    assert desk.kinds()[-2:] == ["AnswerFormatted", "RunEnded"]
    sessions.reply(desk.session, "And now?")
    desk.model = type(desk.model)([say("Eight."), say('{"n": 8}')])
    desk.drive()
    assert shown(desk)["output"] == {"n": 8}


@pytest.mark.row("L13")
def test_one_repair_round_then_a_clear_error_that_can_be_tried_again(desk: Desk) -> None:
    bad = say('{"n": "seven"}')
    desk.run(say("Seven."), bad, bad, bad, say('{"n": 7}'), response_schema=COUNT)
    assert (desk.reason, desk.session.status, shown(desk)["output"]) == ("error", "error", None)
    assert (shown(desk)["error"]["code"], desk.last_run.error["detail"]) == ("invalid_output", '{"n": "seven"}')
    assert "detail" not in shown(desk)["error"]
    sessions.resume(desk.session)
    desk.drive()
    assert (desk.reason, shown(desk)["output"], desk.last_run.turns) == ("completed", {"n": 7}, 0)
    with pytest.raises(StateError):
        sessions.resume(desk.session)


@pytest.mark.row("L13")
def test_a_provider_error_at_the_formatted_call_can_be_tried_again(desk: Desk) -> None:
    desk.run(say("Seven."), fail(status=400), say('{"n": 7}'), response_schema=COUNT)
    assert (desk.reason, desk.session.status) == ("error", "error")
    sessions.resume(desk.session)
    desk.drive()
    assert (desk.reason, shown(desk)["output"]) == ("completed", {"n": 7})


@pytest.mark.row("L13")
def test_a_worker_that_dies_between_the_tries_loses_none(desk: Desk) -> None:
    class KilledError(BaseException):
        pass

    def die(request: Any) -> Any:
        raise KilledError

    desk.start(say("Seven."), say("seven"), die, say('{"n": 7}'), response_schema=COUNT)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever a dying loop makes of it
        desk.drive()
    assert desk.last_run.output["tries"] == 1
    type(desk.session).objects.filter(pk=desk.session.pk).update(lease_until=None)
    drive(desk.session, desk.model)
    assert (desk.reason, shown(desk)["output"]) == ("completed", {"n": 7})


@pytest.mark.row("L13")
def test_an_engine_refuses_a_response_schema_that_is_none() -> None:
    with pytest.raises(InvalidInputError, match="response_schema") as error:
        save_engine(Engine(name="bad", model="planner:desk", response_schema={"type": "array"}))
    assert error.value.info["field"] == "response_schema"
