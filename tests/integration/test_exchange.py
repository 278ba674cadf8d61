"""Sessions as versioned JSON: out, in, round; what is refused, what is hidden, what arrives closed (S07)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allm_django import sessions
from allm_django.core import exchange
from allm_django.core.encode import MASK
from allm_django.core.history import check_history
from allm_django.errors import InvalidInputError, NotFoundError
from allm_django.models import Decision, Engine, Event, Message, Run, Session, ToolCall, ToolVersion
from allm_django.store.history import load_history
from allm_django.testing import call, cut, drive, fail, say
from tests.integration.cast import Browser, a_tool, an_engine, halted, person, without_runner
from tests.integration.desk import COUNT, Desk
from tests.integration.standing import die_at, executing

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("S07")]
ROWS = (Session, Run, Message, ToolCall, Decision, Event, ToolVersion)


def lived(desk: Desk) -> Session:
    """A session with most kinds of endings, all of them settled."""
    desk.noted(schema=COUNT)
    desk.noted("refund", manual=True, schema=COUNT, sensitive=["n"])
    made = [call("refund", {"n": n}) for n in (1, 2, 3, 4)]
    desk.run(
        [say("I will."), *made, call("work", {"n": 1}), call("work", {}), call("nothing")],
        cut("Half"),
        say("Done."),
        fail(400),
    )
    for row, verb in zip(desk.open(), ("approve", "edit", "reject", "answer"), strict=True):
        more = {"arguments": {"n": 9}} if verb == "edit" else {"value": [1]} if verb == "answer" else {}
        sessions.decide(row, verb, by=None, version=None, reason="so", **more)
    desk.drive()
    for text in ("On.", "And on."):
        sessions.reply(desk.session, text)
        desk.drive()
    return desk.session


def comparable(data: dict[str, Any]) -> dict[str, Any]:
    """An export without what an import says of itself: that someone else recorded who decided."""
    text = json.dumps(data).replace(" (imported)", "")
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_session_comes_back_as_it_was_and_can_go_on(desk: Desk) -> None:
    session = lived(desk)
    data = json.loads(json.dumps(sessions.export(session, clear=True)))
    other = sessions.import_(data, user=desk.user, engine=session.engine)
    assert other.pk != session.pk
    assert comparable(sessions.export(other, clear=True)) == comparable(data)
    assert load_history(other.pk) == load_history(session.pk)
    assert (other.status, other.waiting, other.active_run) == ("error", 0, None)
    sessions.reply(other, "And?")
    assert drive(other, type(desk.model)([say("Here.")])).status == "completed"
    check_history(load_history(other.pk))


def test_the_async_twins_do_the_same(desk: Desk) -> None:
    from asgiref.sync import async_to_sync

    session = lived(desk)
    data = async_to_sync(sessions.aexport)(session)
    assert async_to_sync(sessions.aimport)(data, user=None, engine=session.engine.name).title == session.title


# -- random sessions --------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(TEXT, JSONS, max_size=2)
TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda moment: moment.isoformat() + "Z")
USAGES = st.fixed_dictionaries(
    {"input_tokens": st.integers(0, 99)}, optional={"cost": st.just("0.125"), "partial": st.just(["output_tokens"])}
)
ERRORS = st.fixed_dictionaries({"code": st.just("no"), "message": TEXT, "detail": TEXT})
WHO = TEXT.map(lambda name: name + " (imported)")
TOOLS = st.fixed_dictionaries(
    {
        "name": st.just("work"),
        "version": st.integers(1, 9),
        "title": TEXT,
        "schema": st.just(COUNT),
        "manual": st.booleans(),
        "sensitive": st.lists(st.sampled_from(["n", "card"]), unique=True),
        "metadata": OBJECTS,
    }
)
DECISIONS = st.fixed_dictionaries(
    {
        "call_version": st.integers(1, 9),
        "who": WHO,
        "verb": st.sampled_from(exchange.VERBS[1:]),
        "arguments_before": st.none() | OBJECTS,
        "arguments_after": st.none() | OBJECTS,
        "reason": TEXT,
        "value": JSONS,
        "outcome": st.sampled_from(["ready", "rejected"]),
        "created_at": TIMES,
    }
)
DECIDED = st.fixed_dictionaries({"by": WHO, "verb": st.just("approve"), "at": TIMES, "reason": TEXT})
CALLS = st.fixed_dictionaries(
    {
        "label": TEXT,
        "provider_id": TEXT,
        "name": TEXT,
        "tool": st.none() | TOOLS,
        "raw_arguments": TEXT,
        "asked_arguments": st.none() | OBJECTS,
        "arguments": st.none() | OBJECTS,
        "why": TEXT,
        "version": st.integers(1, 9),
        "state": st.just("settled"),
        "outcome": st.sampled_from(["succeeded", "failed", "rejected", "expired"]),
        "effect": st.sampled_from(["", "terminal_tool"]),
        "question": st.none() | OBJECTS,
        "result": JSONS,
        "content": TEXT,
        "error": st.none() | ERRORS,
        "late_result": JSONS,
        "attempt": st.integers(0, 3),
        "decided": st.none() | DECIDED,
        "decisions": st.lists(DECISIONS, max_size=2),
        "steps": st.just([]),
        "created_at": TIMES,
        "started_at": st.none() | TIMES,
        "finished_at": st.none() | TIMES,
    }
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "text": TEXT,
        "thinking": TEXT,
        "broken": TEXT,
        "model": TEXT,
        "finish_reason": TEXT,
        "dump": st.none() | OBJECTS,
        "usage": st.none() | USAGES,
        "created_at": TIMES,
        "completed_at": st.none() | TIMES,
        "calls": st.lists(CALLS, max_size=2),
    }
)
RUNS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["chat", "step"]),
        "state": st.just("ended"),
        "halted_reason": st.sampled_from(["completed", "error", "enough"]),
        "halted_metadata": OBJECTS,
        "request_id": TEXT,
        "error": st.none() | ERRORS.map(lambda error: {**error, "retryable": False}),
        "usage": USAGES,
        "turns": st.integers(0, 9),
        "calls_used": st.integers(0, 9),
        "seconds": st.floats(0, 99),
        "output": st.none() | OBJECTS,
        "started_at": st.none() | TIMES,
        "ended_at": TIMES,
    }
)


@st.composite
def exports(draw: st.DrawFn) -> dict[str, Any]:
    """An export of a session at rest."""
    runs = draw(st.lists(RUNS, max_size=3))
    for place, run in enumerate(runs):
        run["created_at"] = f"2025-01-01T00:00:0{place}Z"
    messages = draw(st.lists(MESSAGES, max_size=4))
    number = 0
    for place, message in enumerate(messages):
        message["run"] = draw(st.sampled_from([None, *range(len(runs))]))
        message["complete"] = not message["broken"]
        if message["run"] is None or message["broken"] or message["role"] != "assistant":
            message["calls"] = []
        for index, made in enumerate(message["calls"]):
            made["call_id"] = f"call_{place}_{index}"
            for decision in made["decisions"]:
                number += 1
                decision["number"] = number
    session = {"title": draw(TEXT), "engine": "desk", "usage": draw(USAGES), "created_at": draw(TIMES)}
    session |= {"allowed_tools": draw(st.none() | st.lists(st.just("work"), max_size=1)), "context": None}
    head = {"format": exchange.FORMAT, "version": exchange.VERSION, "masked": False}
    return {**head, "session": session, "runs": runs, "messages": messages}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=exports())
def test_a_random_session_goes_round(data: dict[str, Any]) -> None:
    engine = Engine.objects.get_or_create(name="desk", defaults={"model": "planner:desk"})[0]
    session = sessions.import_(data, user=None, engine=engine)
    assert sessions.export(session, clear=True) == json.loads(json.dumps(data).replace(".000000Z", "Z"))


# -- what is refused --------------------------------------------------------------------------------------------------


def put(data: Any, path: str, value: Any) -> Any:
    """A copy of ``data`` with another value at ``path``; an ellipsis takes it out."""
    data = deepcopy(data)
    *steps, last = path.split(".")
    place = data
    for step in steps:
        place = place[int(step) if step.isdecimal() else step]
    if value is ...:
        del place[last]
    else:
        place[int(last) if last.isdecimal() else last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("format", "other"),
        ("format", ...),
        ("version", 2),
        ("version", "1"),
        ("version", True),
        ("surprise", 1),
        ("session", []),
        ("session.title", "x" * 201),
        ("session.title", "a\x00"),
        ("session.usage.input_tokens", "7"),
        ("session.usage.cost", "much"),
        ("runs.0.usage.partial", ["all"]),
        ("runs", {}),
        ("runs.0.state", "flying"),
        ("runs.0.turns", -1),
        ("runs.0.created_at", "yesterday"),
        ("runs.0.created_at", "2025-01-01T00:00:00"),
        ("messages.0.role", "tool"),
        ("messages.0.run", 99),
        ("messages.0.text", 7),
        ("messages.0.text", ...),
        ("messages.1.complete", "yes"),
        ("messages.1.broken", "both"),
        ("messages.1.calls.0.call_id", "a b"),
        ("messages.1.calls.1.call_id", "call_1"),
        ("messages.1.calls.0.outcome", ""),
        ("messages.1.calls.0.outcome", "won"),
        ("messages.1.calls.0.tool.sensitive", [1]),
        ("messages.1.calls.0.tool.schema", {"type": 7}),
        ("messages.1.calls.0.decisions.0.verb", "bless"),
        ("messages.1.calls.0.arguments", [1]),
        ("messages.1.calls.0.result", float("nan")),
        ("messages.1.calls.0.handler", "os.system"),
    ],
)
def test_what_is_not_of_the_format_is_refused_by_its_name_and_nothing_is_written(
    desk: Desk, path: str, value: Any
) -> None:
    session = lived(desk)
    data = sessions.export(session, clear=True)
    data["messages"][1]["calls"][0]["call_id"] = "call_1"
    data = put(data, path, value)
    before = [model.objects.count() for model in ROWS]  # type: ignore[attr-defined]
    with pytest.raises(InvalidInputError) as caught:
        sessions.import_(data, user=desk.user, engine=session.engine)
    wanted = "messages.1.calls" if path.endswith("complete") and value is False else path
    assert caught.value.field.startswith(wanted)
    assert path.split(".")[-1] in caught.value.message
    assert [model.objects.count() for model in ROWS] == before  # type: ignore[attr-defined]


@pytest.mark.parametrize("data", [None, [], "text", 7, {}])
def test_what_is_no_export_at_all_is_refused(desk: Desk, data: Any) -> None:
    with pytest.raises(InvalidInputError, match="format"):
        sessions.import_(data, user=desk.user, engine=desk.engine())


def test_an_engine_that_is_not_there_is_named(desk: Desk) -> None:
    with pytest.raises(NotFoundError, match="'nobody'"):
        sessions.import_(sessions.export(lived(desk)), user=desk.user, engine="nobody")


def test_an_older_version_is_brought_up_to_date(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sessions.export(lived(desk), clear=True)
    old = {**put(data, "masked", ...), "version": 0}
    monkeypatch.setitem(exchange.UPGRADES, 0, lambda given: {**given, "version": 1, "masked": False})
    session = sessions.import_(old, user=desk.user, engine=desk.engine())
    assert session.messages.count() == len(data["messages"])


# -- what arrives closed ----------------------------------------------------------------------------------------------


def test_calls_that_waited_arrive_cancelled_and_the_run_has_ended(desk: Desk) -> None:
    desk.noted(manual=True)
    desk.run(call("work"), say("never"))
    session = sessions.import_(sessions.export(desk.session), user=desk.user, engine=desk.session.engine)
    row = session.calls.get()
    assert (session.status, session.waiting) == ("completed", 0)
    assert (row.state, row.outcome, row.error["code"]) == ("settled", "cancelled", "cancelled")
    assert "not run" in row.content
    assert desk.call().state == "pending"
    sessions.reply(session, "And?")
    check_history(load_history(session.pk))


def test_a_call_at_work_arrives_cancelled_and_does_not_claim_that_it_was_not_run(desk: Desk) -> None:
    executing(desk)
    session = sessions.import_(sessions.export(desk.session), user=desk.user, engine=desk.session.engine)
    assert "may have taken effect" in session.calls.get().content


def test_a_stream_arrives_broken_off(desk: Desk) -> None:
    desk.start(say("Hello."))
    die_at(desk, "begin_step:after")
    session = sessions.import_(sessions.export(desk.session), user=desk.user, engine=desk.session.engine)
    assert bool(session.messages.get(role="assistant").broken)
    assert (session.status, session.runs.get().halted_reason) == ("completed", "cancelled")


def test_who_decided_is_what_the_file_says_and_no_account_here(desk: Desk) -> None:
    session = lived(desk)
    other = sessions.import_(sessions.export(session), user=desk.user, engine=session.engine)
    rows = list(other.decisions.order_by("number"))
    assert [(row.who, row.user) for row in rows] == [("the application (imported)", None)] * 4
    assert [row.verb for row in rows] == ["approve", "edit", "reject", "answer"]
    assert {call.decided_by for call in other.calls.all()} == {None}


def test_a_context_is_not_taken_from_a_file(desk: Desk) -> None:
    desk.start(say("Hello."), session={"context": {"tenant": 1}})
    data = sessions.export(desk.session)
    assert data["session"]["context"] == {"tenant": 1}
    assert sessions.import_(data, user=None, engine=desk.session.engine).context is None
    assert sessions.import_(data, user=None, engine=desk.session.engine, context=7).context == 7


# -- who sees what ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cards() -> Iterator[dict[str, Any]]:
    """A session of Ann's with one call decided and one that waits, both with a card's number."""
    ann = person("ann", "chat")
    a_tool(sensitive=["card"])
    session = halted(ann, {"order": 1, "card": "4111-1111"}, {"order": 2, "card": "4222-2222"}, engine=an_engine())
    sessions.reject(session.calls.order_by("position")[0], by=None)
    with without_runner():
        yield {"ann": ann, "session": session}


def test_sensitive_fields_are_masked_wherever_they_stand(cards: dict[str, Any]) -> None:
    text = json.dumps(sessions.export(cards["session"], by=cards["ann"]), ensure_ascii=False)
    assert ("4111-1111" in text, "4222-2222" in text, MASK in text) == (False, False, True)
    assert "4111-1111" not in json.dumps(sessions.export(cards["session"]))
    assert "4111-1111" in json.dumps(sessions.export(cards["session"], clear=True))


def test_who_may_decide_a_call_sees_it_clear_while_it_waits(cards: dict[str, Any]) -> None:
    kim = person("kim", "decide_toolcall", "view_session")
    text = json.dumps(sessions.export(cards["session"], by=kim))
    assert ("4111-1111" in text, "4222-2222" in text) == (False, True)


def test_what_was_masked_stays_masked_where_it_is_imported(cards: dict[str, Any]) -> None:
    data = sessions.export(cards["session"], clear=True)
    other = sessions.import_(data, user=cards["ann"], engine=cards["session"].engine)
    assert "4111-1111" not in json.dumps([event.data for event in Event.objects.filter(session=other)])
    assert "4111-1111" not in json.dumps(sessions.export(other, by=cards["ann"]))


def test_the_api_gives_the_file_to_who_may_see_the_session(cards: dict[str, Any]) -> None:
    path = f"sessions/{cards['session'].pk}/export/"
    answer = Browser(cards["ann"]).get(path)
    assert (answer.status_code, answer.json()["format"]) == (200, "allm_django.session")
    assert answer["Content-Disposition"] == f'attachment; filename="session-{cards["session"].pk}.json"'
    assert answer.json() == sessions.export(cards["session"], by=cards["ann"])
    assert Browser(person("eve", "chat")).get(path).status_code == 404
    with pytest.raises(NotFoundError):
        sessions.export(cards["session"], by=person("mal", "chat"))


def test_the_commands_write_and_read_a_file(desk: Desk, tmp_path: Path) -> None:
    session, file, said = lived(desk), tmp_path / "session.json", StringIO()
    with file.open("w") as out:
        call_command("allm_export", str(session.pk), "--clear", stdout=out)
    call_command("allm_import", str(file), "--user", "ann", stdout=said)
    other = Session.objects.get(pk=said.getvalue().strip())
    assert (other.owner, other.engine) == (desk.user, session.engine)
    assert load_history(other.pk) == load_history(session.pk)
    file.write_text("[")
    for wrong in (("--user", "nobody"), ("--user", "ann")):
        with pytest.raises(CommandError):
            call_command("allm_import", str(file), *wrong)
