"""The API as its clients meet it: sessions, messages, events, calls, decisions, engines."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allm_django import sessions
from allm_django.core.encode import MASK
from allm_django.models import Decision, Message, Session, ToolCall
from allm_django.store.tools import save_tool
from allm_django.testing import ScriptedModel, drive, open_calls, say
from tests.integration.cast import Browser, a_tool, an_engine, halted, person, waiting_call, without_runner

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def _no_runner() -> Iterator[None]:
    with without_runner():
        yield


@pytest.fixture
def ann() -> User:
    """Who chats."""
    return person("ann", "chat", first_name="Ann", last_name="Lee")


@pytest.fixture
def kim() -> User:
    """Who decides."""
    return person("kim", "decide_toolcall")


def test_a_session_is_started_and_read_back(ann: User) -> None:
    an_engine(title="Desk", notice="Scripted.")
    answer = Browser(ann).post("sessions/", {"text": "Hello", "context": {"shop": 1}})
    assert answer.status_code == 201, answer.content
    made = answer.json()["session"]
    assert made["owner"] == {"id": str(ann.pk), "name": "Ann Lee"}
    assert made["engine"] == {"name": "desk", "title": "Desk", "notice": "Scripted."}
    assert (made["status"], made["run"]["state"], made["title"]) == ("running", "queued", "Hello")
    assert Session.objects.get(pk=made["id"]).context == {"shop": 1}
    read = Browser(ann).get(f"sessions/{made['id']}/").json()
    assert [(m["role"], m["text"]) for m in read["messages"]] == [("user", "Hello")]
    assert read["session"]["can"] == {"reply": False, "cancel": True, "resume": False, "supersede": False}
    assert (read["calls"], read["older"], read["event"]) == ([], False, made["event"])


def test_the_same_key_starts_one_session_and_another_request_under_it_is_refused(ann: User) -> None:
    an_engine()
    browser = Browser(ann)
    first, second = (browser.post("sessions/", {"text": "Hello"}, **{"Idempotency-Key": "k1"}) for _ in "ab")
    assert first.json()["session"]["id"] == second.json()["session"]["id"]
    other = browser.post("sessions/", {"text": "Goodbye"}, **{"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (409, "key_reused")
    assert Session.objects.count() == 1
    bad = browser.post("sessions/", {"text": "Hello"}, **{"Idempotency-Key": "k" * 201})
    assert (bad.status_code, bad.json()["field"]) == (400, "Idempotency-Key")


@pytest.mark.row("S02")
def test_a_reply_while_the_assistant_works_or_waits_says_which_it_is(ann: User) -> None:
    a_tool()
    an_engine()
    busy = sessions.start("desk", user=ann, text="Hello")
    refused = Browser(ann).post(f"sessions/{busy.pk}/messages/", {"text": "More"})
    assert (refused.status_code, refused.json()["code"]) == (409, "session_busy")
    waits = halted(ann, {"order": 1})
    refused = Browser(ann).post(f"sessions/{waits.pk}/messages/", {"text": "More"})
    assert (refused.status_code, refused.json()["code"]) == (409, "awaiting_decision")


def test_a_message_is_written_and_shown(ann: User) -> None:
    an_engine()
    session = drive(sessions.start("desk", user=ann, text="Hello"), ScriptedModel([say("Hi.")]))
    detail = Browser(ann).get(f"sessions/{session.pk}/").json()["session"]
    assert detail["can"] == {"reply": True, "cancel": False, "resume": False, "supersede": False}
    answer = Browser(ann).post(f"sessions/{session.pk}/messages/", {"text": "And now?"})
    assert answer.status_code == 202, answer.content
    assert answer.json()["message"]["text"] == "And now?"
    assert answer.json()["session"]["status"] == "running"


def test_stopping_resuming_and_stepping(ann: User) -> None:
    an_engine()
    browser = Browser(ann)
    session = sessions.start("desk", user=ann, text="Hello")
    stopped = browser.post(f"sessions/{session.pk}/cancel/")
    assert stopped.status_code == 202, stopped.content
    assert stopped.json()["session"]["run"]["halted_reason"] == "cancelled"
    assert browser.get(f"sessions/{session.pk}/").json()["session"]["can"]["resume"]
    again = browser.post(f"sessions/{session.pk}/resume/")
    assert (again.status_code, again.json()["session"]["status"]) == (202, "running")
    browser.post(f"sessions/{session.pk}/cancel/")
    step = browser.post(f"sessions/{session.pk}/step/")
    assert step.json()["session"]["run"]["kind"] == "step"
    browser.post(f"sessions/{session.pk}/cancel/")
    nothing = browser.post(f"sessions/{session.pk}/cancel/")
    assert (nothing.status_code, nothing.json()["code"]) == (409, "state")
    assert browser.post(f"sessions/{session.pk}/cancel/", {"force": True}).json()["field"] == "force"


def test_a_person_approves_and_the_answer_tells_who(ann: User, kim: User) -> None:
    a_tool(handler="", verbs=["approve", "edit", "answer", "reject"])
    call = waiting_call(ann)
    answer = Browser(kim).decide(call, "reject", reason="Too late.")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["call"]["state"], body["call"]["outcome"]) == ("settled", "rejected")
    assert body["call"]["decided"] | {"at": ""} == {"by": "kim", "verb": "reject", "reason": "Too late.", "at": ""}
    assert (body["decision"]["by"], body["decision"]["version"]) == ("kim", call.version)
    assert not body["call"]["may_decide"]
    assert body["call"]["verbs"] == []


def test_the_second_decision_loses_and_is_told_who_won(ann: User, kim: User) -> None:
    a_tool()
    call = waiting_call(ann)
    lee = person("lee", "decide_toolcall")
    assert Browser(kim).decide(call, "reject").status_code == 200
    lost = Browser(lee).decide(call, "answer", value="by hand")
    assert (lost.status_code, lost.json()["code"]) == (409, "already_decided")
    assert (lost.json()["call"]["outcome"], lost.json()["call"]["decided"]["by"]) == ("rejected", "kim")
    assert Decision.objects.count() == 1


def test_a_decision_on_another_version_than_the_one_seen_is_refused(ann: User, kim: User) -> None:
    a_tool()
    call = waiting_call(ann)
    refused = Browser(kim).post(f"calls/{call.pk}/decide/", {"verb": "reject", "version": call.version + 1})
    assert (refused.status_code, refused.json()["code"]) == (409, "version_mismatch")
    assert refused.json()["call"]["version"] == call.version
    assert not Decision.objects.exists()


def test_a_tool_that_changed_since_can_only_be_asked_again_or_closed(ann: User, kim: User) -> None:
    tool = a_tool(handler="project.support.tools.refund_order")
    call = waiting_call(ann)
    card = Browser(kim).get(f"calls/{call.pk}/").json()
    assert (card["verbs"], card["changed"]) == (["approve", "edit", "answer", "reject"], "")
    tool.description = "Refunds twice."
    save_tool(tool)
    card = Browser(kim).get(f"calls/{call.pk}/").json()
    assert card["verbs"] == ["answer", "reject", "reask"]
    assert [change["field"] for change in card["changes"]] == ["description"]
    refused = Browser(kim).decide(call, "approve")
    assert (refused.status_code, refused.json()["code"]) == (409, "changed_since_asked")


@pytest.mark.row("T26")
def test_cards_show_sensitive_fields_only_to_those_who_may_decide(ann: User, kim: User) -> None:
    a_tool(sensitive=["card"])
    call = waiting_call(ann, card="4111-1111")
    mine = Browser(ann).get(f"sessions/{call.session_id}/")
    assert b"4111-1111" not in mine.content
    shown = mine.json()["calls"][0]
    assert shown["arguments"]["card"] == shown["asked_arguments"]["card"] == shown["raw_arguments"] == MASK
    assert (shown["may_decide"], shown["verbs"]) == (False, [])
    assert "Refund" in shown["waiting_for"]
    card = Browser(kim).get(f"calls/{call.pk}/").json()
    assert card["arguments"] == {"order": 7, "card": "4111-1111"}
    assert (card["may_decide"], card["sensitive"], card["waiting_for"]) == (True, ["card"], "")
    assert (card["said"], card["asked_by"]["name"]) == ("I will refund it.", "Ann Lee")
    decided = Browser(kim).decide(call, "reject")
    assert b"4111-1111" not in decided.content
    assert b"4111-1111" not in Browser(ann).get(f"sessions/{call.session_id}/events/").content


def test_the_card_names_the_groups_that_are_waited_for(ann: User) -> None:
    a_tool(groups=["Legal", "Finance"], title="Refund an order")
    card = Browser(ann).get(f"calls/{waiting_call(ann).pk}/").json()
    assert card["waiting_for"] == "Waiting for someone of Finance, Legal to decide “Refund an order”."


def test_characters_that_hide_others_are_pointed_out(ann: User, kim: User) -> None:
    a_tool()
    plain, hidden = waiting_call(ann, card="déjà vu"), waiting_call(ann, card="pay\u202eedoc")
    flags = [Browser(kim).get(f"calls/{call.pk}/").json()["hidden_characters"] for call in (plain, hidden)]
    assert flags == [False, True]


def test_the_inbox_lists_what_waits_oldest_first(ann: User, kim: User) -> None:
    a_tool()
    calls = [waiting_call(ann, amount=n) for n in (1, 2, 3)]
    Browser(kim).decide(calls[1], "reject")
    inbox = Browser(kim).get("calls/", state="open", scope="decide").json()
    assert [row["id"] for row in inbox["results"]] == [str(calls[0].pk), str(calls[2].pk)]
    assert inbox["count"] == 2
    assert [row["id"] for row in Browser(ann).get("calls/", scope="mine").json()["results"]] == [
        str(calls[0].pk),
        str(calls[2].pk),
    ]
    assert Browser(ann).get("calls/").json() == {"results": [], "count": 0}
    assert Browser(kim).get("calls/", state="unknown").json()["count"] == 0


def test_sessions_are_listed_the_latest_first_and_paged(ann: User) -> None:
    engine = an_engine()
    made = [sessions.start(engine, user=ann, title=f"No. {n}") for n in range(35)]
    sessions.start(engine, user=person("bob", "chat"), title="Another's")
    page = Browser(ann).get("sessions/").json()
    rest = Browser(ann).get("sessions/", before=page["next"]).json()
    listed = [row["title"] for row in page["results"] + rest["results"]]
    assert listed == [session.title for session in reversed(made)]
    assert (len(page["results"]), rest["next"]) == (30, None)


def test_sessions_are_found_by_what_was_said_in_ones_own_and_by_title(ann: User) -> None:
    engine = an_engine()
    bob, auditor = person("bob", "chat"), person("auditor", "view_session")
    sessions.start(engine, user=ann, title="Shoes", text="about a green hat")
    sessions.start(engine, user=bob, title="Green", text="something else")
    find: Callable[..., list[str]] = lambda user, **query: [  # noqa: E731
        row["title"] for row in Browser(user).get("sessions/", **query).json()["results"]
    ]
    assert find(ann, q="GREEN") == ["Shoes"]
    assert find(ann, q="%") == []
    assert find(ann, q="green", scope="all") == []
    assert find(auditor, q="green", scope="all") == ["Green"]
    assert find(auditor) == []


def test_the_waiting_scope_lists_sessions_in_which_something_waits(ann: User) -> None:
    a_tool()
    session = halted(ann, {"order": 1})
    sessions.start(an_engine("second"), user=ann, title="Quiet")
    (row,) = Browser(ann).get("sessions/", scope="waiting").json()["results"]
    assert (row["id"], row["waiting"], row["status"]) == (str(session.pk), 1, "awaiting_tools")


def test_messages_are_paged_backwards_with_their_calls(ann: User) -> None:
    a_tool()
    session = halted(ann, {"order": 1}, {"order": 2})
    for number in range(3, 60):
        Message.objects.create(session=session, position=number, role="user", text=str(number))
    detail = Browser(ann).get(f"sessions/{session.pk}/").json()
    assert ([m["position"] for m in detail["messages"]], detail["older"]) == ([*range(10, 60)], True)
    page = Browser(ann).get(f"sessions/{session.pk}/messages/", before=10, limit=9).json()
    assert ([m["position"] for m in page["messages"]], page["older"]) == ([*range(1, 10)], False)
    ids = [str(call.pk) for call in open_calls(session)]
    assert page["messages"][1]["calls"] == ids == [call["id"] for call in page["calls"]]


def test_a_message_that_still_streams_is_shown_as_far_as_it_is_stored(ann: User) -> None:
    an_engine()
    session = sessions.start("desk", user=ann, text="Hello")
    message = Message.objects.create(session=session, position=2, role="assistant", complete=False)
    message.chunks.create(offset=0, text="Grüß ")
    message.chunks.create(offset=5, text="Gott")
    shown = Browser(ann).get(f"sessions/{session.pk}/").json()["messages"][1]
    assert (shown["text"], shown["streaming"], shown["complete"]) == ("Grüß Gott", True, False)


@pytest.mark.row("S08")
def test_events_are_read_by_number(ann: User) -> None:
    a_tool()
    session = halted(ann, {"order": 1})
    everything = Browser(ann).get(f"sessions/{session.pk}/events/").json()
    numbers = [event["n"] for event in everything["events"]]
    assert numbers == [*range(1, session.event_count + 1)]
    assert everything["last"] == session.event_count
    part = Browser(ann).get(f"sessions/{session.pk}/events/", after=2, limit=2).json()
    assert ([event["n"] for event in part["events"]], part["last"]) == ([3, 4], 4)
    end = Browser(ann).get(f"sessions/{session.pk}/events/", after=session.event_count).json()
    assert end == {"events": [], "last": session.event_count}


def test_engines_tell_their_tools_and_examples(ann: User) -> None:
    tool = a_tool(title="Refund an order")
    a_tool("lookup", manual=False, handler="project.support.tools.order_status")
    a_tool("broken", enabled=False)
    an_engine("all", title="All", examples=["Refund order 7."])
    an_engine("one", mode="manual").tools.set([tool])
    everything, one = Browser(ann).get("engines/").json()["results"]
    assert (everything["title"], everything["examples"]) == ("All", ["Refund order 7."])
    assert [(row["name"], row["manual"]) for row in everything["tools"]] == [("lookup", False), ("refund", True)]
    assert one["tools"] == [{"name": "refund", "title": "Refund an order", "manual": True}]


def test_engines_without_a_key_are_marked_unless_other_processes_do_the_work(
    ann: User, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    an_engine("keyless", model="openai:gpt-5-mini")
    an_engine("planner")
    marks = {row["name"]: row["ready"] for row in Browser(ann).get("engines/").json()["results"]}
    assert marks == {"keyless": False, "planner": True}
    settings.ALLM = {"DISPATCH": "tests.integration.cast.NoDispatch"}
    assert all(row["ready"] for row in Browser(ann).get("engines/").json()["results"])


def test_staff_see_the_details_of_a_runs_error_and_others_do_not(ann: User) -> None:
    an_engine()
    session = sessions.start("desk", user=ann, text="Hello")
    error = {"code": "provider", "message": "The provider failed.", "detail": "at 10.0.0.7", "retryable": True}
    session.runs.update(error=error)
    staff = person("staff", "view_session", is_staff=True)
    plain = Browser(ann).get(f"sessions/{session.pk}/")
    assert b"10.0.0.7" not in plain.content
    assert Browser(staff).get(f"sessions/{session.pk}/").json()["session"]["run"]["error"]["detail"] == "at 10.0.0.7"


@pytest.mark.parametrize("path", ["sessions/", "sessions/?scope=waiting", "calls/", "calls/?scope=mine", "detail"])
def test_the_number_of_queries_does_not_grow_with_the_rows(path: str, ann: User) -> None:
    for codename in ("decide_toolcall", "decide_own_toolcall"):
        ann.user_permissions.add(*person("x" + codename, codename).user_permissions.all())
    a_tool("refund", groups=["finance"])
    ann.groups.set(a_tool("other", groups=["finance"]).approver_groups.all())
    small = halted(ann, {"order": 1})
    counts: list[int] = []

    def queries(session: Session) -> int:
        browser = Browser(ann)
        with CaptureQueriesContext(connection) as seen:
            answer = browser.get(f"sessions/{session.pk}/" if path == "detail" else path)
        assert answer.status_code == 200
        counts.append(len(answer.json().get("results") or answer.json()["calls"]))
        return len(seen)

    before = queries(small)
    large = [halted(ann, *({"order": number} for number in range(5))) for _ in range(3)]
    assert queries(large[0]) == before
    assert counts[1] > counts[0]


def test_a_deleted_owner_leaves_a_readable_session(ann: User) -> None:
    a_tool()
    call = waiting_call(ann)
    ann.delete()
    auditor = person("auditor", "view_session")
    shown = Browser(auditor).get(f"sessions/{call.session_id}/").json()
    assert shown["session"]["owner"] == {"id": "", "name": "someone who has left"}
    assert ToolCall.objects.filter(pk=call.pk).exists()


def test_the_openapi_document_describes_every_endpoint_without_warnings(
    ann: User, capsys: pytest.CaptureFixture[str]
) -> None:
    document: dict[str, Any] = Browser(ann).get("schema/").json()
    words = capsys.readouterr()
    assert words.err == ""
    assert sorted(document["paths"]) == sorted(
        "/" + path
        for path in (
            "sessions/", "sessions/{session_id}/", "sessions/{session_id}/messages/", "sessions/{session_id}/events/",
            "sessions/{session_id}/cancel/", "sessions/{session_id}/resume/", "sessions/{session_id}/step/",
            "sessions/{session_id}/export/", "sessions/{session_id}/transcript/", "sessions/{session_id}/rename/",
            "calls/", "calls/{call_id}/", "calls/{call_id}/decide/", "calls/{call_id}/result/", "engines/",
            "grants/", "grants/{grant_id}/", "grants/{grant_id}/revoke/",
        )
    )  # fmt: skip
    assert document["servers"] == [{"url": "http://testserver/api"}]
    decide = document["paths"]["/calls/{call_id}/decide/"]["post"]
    assert {"200", "400", "401", "403", "404", "409", "413", "429"} == set(decide["responses"])
    assert "application/problem+json" in decide["responses"]["409"]["content"]


def test_what_the_api_does_not_have_is_answered_as_a_problem(ann: User) -> None:
    for path in ("nothing/", "sessions/abc/", f"sessions/{uuid.uuid4()}/nothing/", "calls/7/", "sessions"):
        answer = Browser(ann).get(path)
        assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json"), path
