"""Limits of stored runs: counted from rows, over halts, other workers and resumes (L06, L10, L11)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from allm_django import sessions
from allm_django.core.usage import Usage
from allm_django.errors import ConfigurationError, InvalidInputError
from allm_django.models import Engine, Session
from allm_django.present.sessions import session_detail
from allm_django.providers.scripted import usage
from allm_django.store import clock
from allm_django.store.engines import save_engine
from allm_django.store.leases import claim_run
from allm_django.testing import call, cut, raw_call, say
from tests.integration.desk import COUNT, Desk

pytestmark = pytest.mark.django_db

COUNTED = [call("work", {"n": n}) for n in range(9)]


def costly(entry: Any) -> Any:
    return [usage(input_tokens=10, output_tokens=5, cost=Decimal("0.1")), entry]


CASES: dict[str, tuple[dict[str, Any], list[Any], int]] = {
    "max_calls": ({"max_calls": 3}, COUNTED, 3),
    "max_tokens": ({"max_tokens": 40}, [costly(entry) for entry in COUNTED], 3),
    "max_cost": ({"max_cost": 0.25}, [costly(entry) for entry in COUNTED], 3),
    "max_identical_calls": ({"max_identical_calls": 4}, [call("work", {"n": 1})] * 9, 4),
    "max_parse_failures": ({"max_parse_failures": 2}, [raw_call("work", "{"), call("nothing"), *COUNTED], 2),
}


@pytest.mark.row("L10")
@pytest.mark.parametrize("name", CASES)
def test_each_limit_halts_and_the_page_and_api_say_which_and_how_to_go_on(desk: Desk, name: str) -> None:
    limits, entries, turns = CASES[name]
    desk.noted(schema=COUNT)
    desk.run(*entries, limits=limits, max_turns=50)
    shown = session_detail(desk.user, desk.session.pk)["session"]
    assert (desk.reason, shown["run"]["limit"], desk.last_run.turns) == ("limit", name, turns)
    assert "Go on" in shown["run"]["halted_text"]
    assert str(desk.last_run.halted_metadata["bound"]) in shown["run"]["halted_text"]
    assert shown["status"] == "completed"


@pytest.mark.row("L10")
def test_going_on_after_a_limit_starts_it_anew(desk: Desk) -> None:
    desk.noted(schema=COUNT)
    desk.run(*COUNTED[:3], say("Done."), limits={"max_calls": 2})
    assert (desk.reason, len(desk.ran)) == ("limit", 2)
    sessions.resume(desk.session)
    desk.drive()
    assert (desk.reason, len(desk.ran)) == ("completed", 3)


@pytest.mark.row("L06", "L10")
def test_a_limit_counts_on_over_a_decision(desk: Desk) -> None:
    desk.noted(name="work", schema=COUNT)
    desk.noted(name="refund", manual=True)
    refund = call("refund", {"order": 7})
    desk.run(COUNTED[0], refund, refund, limits={"max_identical_calls": 2}, max_turns=9)
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    assert (desk.reason, desk.last_run.halted_metadata["limit"]) == ("limit", "max_identical_calls")
    assert (desk.last_run.turns, len(desk.ran)) == (3, 3)


@pytest.mark.row("L10")
def test_rejections_in_a_row_are_limited_and_an_approval_ends_the_row(desk: Desk) -> None:
    desk.noted(manual=True)
    desk.run(*[call("work", {"n": n}) for n in range(9)], max_turns=50)
    for verb in ("reject", "reject", "approve", "reject", "reject"):
        sessions.decide(desk.open()[0], verb, by=None, version=None)
        desk.drive()
        assert desk.reason == "manual_tool_calls"
    sessions.reject(desk.open()[0], by=None)
    desk.drive()
    assert (desk.reason, desk.last_run.halted_metadata["limit"]) == ("limit", "max_rejections")


@pytest.mark.row("L10")
def test_seconds_are_those_at_work_and_count_on_over_a_halt(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real, late = clock.now, timedelta()
    monkeypatch.setattr(clock, "now", lambda: real() + late)

    def slow(arguments: Any) -> str:
        nonlocal late
        late += timedelta(seconds=10)
        return "done"

    desk.noted(result=slow)
    desk.noted(name="refund", manual=True, result=slow)
    desk.run(call("work"), call("refund"), call("work", {"n": 1}), limits={"max_seconds": 25})
    assert desk.reason == "manual_tool_calls"
    assert 10 <= desk.last_run.seconds < 20
    late += timedelta(hours=5)  # nobody decides
    sessions.approve(desk.open()[0], by=None)
    late += timedelta(hours=5)  # nobody works
    desk.drive()
    assert (desk.reason, desk.last_run.halted_metadata["limit"]) == ("limit", "max_seconds")
    assert 30 <= desk.last_run.seconds < 40
    assert 30 <= session_detail(desk.user, desk.session.pk)["session"]["run"]["seconds"] < 40


@pytest.mark.row("L10")
def test_a_worker_that_died_was_at_work_until_its_lease_ran_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    session = desk.start(say("Done."))
    assert claim_run(session.pk, uuid4()) is not None
    row = Session.objects.get(pk=session.pk)
    moment = clock.now() - timedelta(hours=2)
    row.lease_until = moment
    row.save()
    run = desk.last_run
    run.working_since = moment - timedelta(seconds=20)
    run.save()
    desk.drive()
    assert 20 <= desk.last_run.seconds < 60
    assert desk.last_run.working_since is None


@pytest.mark.row("L10")
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_call": 3}, "'max_call' is not a limit; known are"),
        ({"max_calls": 0}, "not a positive number"),
        ({"max_cost": "much"}, "'much'"),
        ([], "JSON object"),
    ],
)
def test_a_wrong_limit_of_an_engine_is_refused_by_name(limits: Any, words: str) -> None:
    if limits == []:
        limits = ["max_calls"]
    with pytest.raises(InvalidInputError, match=words) as error:
        save_engine(Engine(name="bad", model="planner:desk", limits=limits))
    assert error.value.info["field"] == "limits"


@pytest.mark.row("L10")
def test_the_settings_give_the_default_and_an_engine_may_switch_it_off(desk: Desk, settings: Any) -> None:
    settings.ALLM = {**getattr(settings, "ALLM", {}), "LIMITS": {"max_calls": 2}}
    desk.noted()
    desk.run(*COUNTED[:3], say("Done."))
    assert (desk.reason, desk.last_run.turns) == ("limit", 2)
    desk.run(*COUNTED[:3], say("Done."), limits={"max_calls": None})
    assert desk.reason == "completed"


@pytest.mark.row("L10")
@pytest.mark.parametrize("limits", [{"max_call": 1}, {"max_calls": -1}, {"max_turns": 3}, 7])
def test_wrong_limits_in_the_settings_are_named(settings: Any, limits: Any) -> None:
    from allm_django.conf import conf

    settings.ALLM = {**getattr(settings, "ALLM", {}), "LIMITS": limits}
    with pytest.raises(ConfigurationError, match="LIMITS"):
        conf()


@pytest.mark.row("L09", "L10")
def test_cost_is_exact_and_a_sum_with_a_gap_is_named_partial(desk: Desk) -> None:
    desk.noted()
    priced = usage(input_tokens=10, output_tokens=5, cost=Decimal("0.1"))
    desk.run([priced, call("work")], [priced, call("work", {"n": 1})], [usage(input_tokens=1), say("Done.")])
    shown = session_detail(desk.user, desk.session.pk)["session"]
    assert shown["run"]["usage"]["cost"] == shown["usage"]["cost"] == "0.2"
    assert shown["usage"]["partial"] == ["output_tokens", "cached_tokens", "reasoning_tokens", "cost"]
    assert Usage.from_json(shown["usage"]) == Usage(
        21, 10, cost=Decimal("0.2"), partial=tuple(shown["usage"]["partial"])
    )


@pytest.mark.row("L11")
def test_the_terminal_tool_ends_a_stored_run_undispatched(desk: Desk) -> None:
    desk.noted(name="finish", schema=COUNT)
    desk.run(call("finish", {"n": "x"}), call("finish", {"n": 7}), terminal_tool="finish")
    assert (desk.reason, desk.session.status, desk.ran) == ("terminal_tool", "completed", [])
    assert (desk.calls()[-1].outcome, desk.calls()[-1].result) == ("succeeded", {"n": 7})


@pytest.mark.row("L09")
def test_what_an_answer_that_broke_off_cost_is_unknown(desk: Desk) -> None:
    desk.noted()
    desk.run([usage(input_tokens=10), call("work")], cut("Half an ans"))
    assert desk.last_run.usage["input_tokens"] == 10
    assert "input_tokens" in desk.last_run.usage["partial"]
    assert desk.session.usage == desk.last_run.usage
