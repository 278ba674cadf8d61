"""Rows 13, 14, 25–27, 34, 35, 39, 40: what the API gives to whom, and what it takes."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.urls import include, path
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.test import APIClient

from allm_django import sessions
from allm_django.models import Decision, Session
from allm_django.testing import ScriptedModel, drive, say
from tests.integration.cast import (
    Browser,
    a_tool,
    again,
    an_engine,
    halted,
    person,
    waiting_call,
    without_runner,
)

pytestmark = pytest.mark.django_db
urlpatterns = [path("", include("allm_django.urls"))]
SESSION_READS = ("sessions/{}/", "sessions/{}/messages/", "sessions/{}/events/")
SESSION_WRITES = ("messages", "cancel", "resume", "step")


class TokenLogin(BaseAuthentication):
    """A host project's own way to log in: by a header, no cookie."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        """The user that the header names."""
        name = request.headers.get("X-Token")
        return (User.objects.get(username=name), None) if name else None


@pytest.fixture(autouse=True)
def _no_runner() -> Iterator[None]:
    cache.clear()
    with without_runner():
        yield


def body_of(answer: Any) -> dict[str, Any]:
    """A problem without what is different for each request."""
    found = answer.json()
    assert answer.headers["Content-Type"] == "application/problem+json"
    return {name: value for name, value in found.items() if name != "request_id"}


def write(browser: Browser, session: object, verb: str) -> Any:
    """One of the commands on a session."""
    return browser.post(f"sessions/{session}/{verb}/", {"text": "Hi"} if verb == "messages" else {})


@pytest.mark.parametrize("role", [("chat",), ("decide_toolcall",), ("chat", "decide_toolcall", "decide_own_toolcall")])
def test_missing_and_invisible_sessions_are_answered_alike(role: tuple[str, ...]) -> None:
    a_tool()
    session = halted(person("ann", "chat"), {"order": 1})
    browser = Browser(person("stranger", *role))
    for wanted in SESSION_READS:
        invisible, missing = (browser.get(wanted.format(key)) for key in (session.pk, uuid.uuid4()))
        assert (invisible.status_code, body_of(invisible)) == (404, body_of(missing)), wanted
        assert body_of(browser.get(wanted.format("not-a-uuid"))) == body_of(missing)
    for verb in SESSION_WRITES:
        invisible, missing = (write(browser, key, verb) for key in (session.pk, uuid.uuid4()))
        assert (invisible.status_code, body_of(invisible)) == (404, body_of(missing)), verb
    assert browser.get("sessions/", scope="all").json()["results"] == []
    session.refresh_from_db()
    assert session.status == "awaiting_tools"


@pytest.mark.parametrize("role", [("chat",), ("decide_toolcall",)])
def test_missing_and_invisible_calls_are_answered_alike(role: tuple[str, ...]) -> None:
    a_tool(groups=["finance"])
    call = waiting_call(person("ann", "chat"))
    browser = Browser(person("stranger", *role))
    decision = {"verb": "reject", "version": call.version}
    for key in (call.pk, "not-a-uuid"):
        assert body_of(browser.get(f"calls/{key}/")) == body_of(browser.get(f"calls/{uuid.uuid4()}/"))
        refused = browser.post(f"calls/{key}/decide/", decision)
        missing = browser.post(f"calls/{uuid.uuid4()}/decide/", decision)
        assert (refused.status_code, body_of(refused)) == (404, body_of(missing))
    assert not Decision.objects.exists()


def test_a_visible_object_and_a_forbidden_verb_is_403() -> None:
    a_tool()
    ann = person("ann", "chat")
    call = waiting_call(ann)
    auditor = Browser(person("auditor", "view_session", "chat"))
    for verb in SESSION_WRITES:
        assert write(auditor, call.session_id, verb).status_code == 403, verb
    for browser in (auditor, Browser(ann)):
        assert body_of(browser.decide(call, "reject"))["status"] == 403
    call.refresh_from_db()
    assert (call.state, Decision.objects.count()) == ("pending", 0)


def test_a_decider_reads_the_card_and_nothing_else_of_the_session() -> None:
    a_tool()
    ann = person("ann", "chat")
    call = waiting_call(ann)
    kim = Browser(person("kim", "decide_toolcall"))
    assert kim.get(f"calls/{call.pk}/").status_code == 200
    for wanted in SESSION_READS:
        assert kim.get(wanted.format(call.session_id)).status_code == 404
    assert kim.get("calls/", scope="mine").json()["results"] == []


def test_without_a_login_it_is_401_and_without_a_permission_403() -> None:
    an_engine()
    for wanted in ("sessions/", "calls/", "engines/", "schema/", "nothing/", f"sessions/{uuid.uuid4()}/"):
        assert body_of(Browser().get(wanted))["status"] == 401
        assert body_of(Browser(person(wanted)).get(wanted))["status"] == 403


def test_a_deactivated_person_is_out_at_once() -> None:
    ann = person("ann", "chat")
    browser = Browser(ann)
    assert browser.get("sessions/").status_code == 200
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert browser.get("sessions/").status_code == 401


def test_a_password_change_ends_other_logins() -> None:
    ann = person("ann", "chat")
    browser = Browser(ann)
    ann.set_password("other")
    ann.save()
    assert browser.get("sessions/").status_code == 401


def test_a_permission_that_is_taken_away_counts_at_the_next_request() -> None:
    ann = person("ann", "chat")
    browser = Browser(ann)
    ann.user_permissions.clear()
    assert browser.get("sessions/").status_code == 403
    assert not again(ann).has_perm("allm_django.chat")


def test_writes_by_cookie_need_the_csrf_token() -> None:
    a_tool()
    call = waiting_call(person("ann", "chat"))
    kim = Browser(person("kim", "decide_toolcall"))
    kim.token = "b" * 32
    refused = kim.decide(call, "reject")
    assert body_of(refused)["status"] == 403
    assert "CSRF" in refused.json()["detail"]
    assert not Decision.objects.exists()


def test_clients_with_a_token_need_no_csrf_where_the_host_has_tokens(settings: Any) -> None:
    person("ann", "chat")
    an_engine()
    client = APIClient(enforce_csrf_checks=True)
    start = {"path": "/api/sessions/", "data": {"text": "Hi"}, "format": "json", "headers": {"X-Token": "ann"}}
    assert client.post(**start).status_code == 401
    settings.REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": [f"{__name__}.TokenLogin"]}
    assert client.post(**start).status_code == 201


def test_the_hosts_own_rest_framework_settings_change_nothing_else(settings: Any) -> None:
    settings.REST_FRAMEWORK = {
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.BrowsableAPIRenderer"],
        "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
        "EXCEPTION_HANDLER": "nowhere.handler",
    }
    ann = Browser(person("ann", "chat"))
    answer = ann.client.get("/api/sessions/", headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert body_of(ann.get("sessions/nothing/"))["status"] == 404


def test_answers_are_not_kept_by_anyone() -> None:
    answer = Browser(person("ann", "chat")).get("sessions/")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("field", ["approver", "by", "status", "state", "name", "arguments", "value", "reason", "key"])
def test_an_approval_takes_nothing_but_the_version_from_the_client(field: str) -> None:
    a_tool(handler="project.support.tools.refund_order")
    call = waiting_call(person("ann", "chat"))
    refused = Browser(person("kim", "decide_toolcall")).decide(call, "approve", **{field: {"order": 8}})
    assert (refused.status_code, refused.json()["field"]) == (400, field)
    call.refresh_from_db()
    assert (call.state, call.arguments) == ("pending", {"order": 7})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "verb"),
        ({"verb": None, "version": 1}, "verb"),
        ({"verb": "run", "version": 1}, "verb"),
        ({"verb": ["approve"], "version": 1}, "verb"),
        ({"verb": "approve"}, "version"),
        ({"verb": "approve", "version": "1"}, "version"),
        ({"verb": "approve", "version": True}, "version"),
        ({"verb": "approve", "version": 1.0}, "version"),
        ({"verb": "approve", "version": 2**70}, "version"),
        ({"verb": "edit", "version": 1}, "arguments"),
        ({"verb": "edit", "version": 1, "arguments": [1]}, "arguments"),
        ({"verb": "edit", "version": 1, "arguments": {"order": "seven"}}, "arguments"),
        ({"verb": "edit", "version": 1, "arguments": {"order": 1, "extra": 1}}, "arguments"),
        ({"verb": "edit", "version": 1, "arguments": {"order": 1, "card": "x" * 33_000}}, "arguments"),
        ({"verb": "answer", "version": 1}, "value"),
        ({"verb": "answer", "version": 1, "value": "\ud800"}, "value"),
        ({"verb": "reject", "version": 1, "reason": 7}, "reason"),
        ({"verb": "reject", "version": 1, "reason": "x" * 2_001}, "reason"),
        ({"verb": "reject", "version": 1, "reason": "a\x00b"}, "reason"),
        ({"verb": "reject", "version": 1, "reason": "\ud800"}, "reason"),
    ],
)
def test_a_decision_that_is_not_clear_runs_nothing_and_names_the_field(body: dict[str, Any], field: str) -> None:
    a_tool(handler="project.support.tools.refund_order")
    call = waiting_call(person("ann", "chat"))
    refused = Browser(person("kim", "decide_toolcall")).post(f"calls/{call.pk}/decide/", body)
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (400, "invalid_input", field)
    call.refresh_from_db()
    assert (call.state, Decision.objects.count()) == ("pending", 0)


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_arguments_are_not_deeper_than_32_levels() -> None:
    a_tool(handler="project.support.tools.refund_order", schema={"type": "object"})
    call = waiting_call(person("ann", "chat"))
    kim = Browser(person("kim", "decide_toolcall"))
    refused = kim.decide(call, "edit", arguments={"order": nested(32)})
    assert (refused.status_code, refused.json()["field"]) == (400, "arguments")
    assert "32" in refused.json()["detail"]
    assert kim.decide(call, "edit", arguments={"order": nested(31)}).status_code == 200


@pytest.mark.parametrize(
    "body", ["[" * 100_000, "{", "NaN", '{"text": NaN}', '{"text": "a", "text": "b"}', b"\xff\xfe", "[]", "null", "7"]
)
def test_a_body_that_is_not_one_clear_object_is_refused(body: Any) -> None:
    an_engine()
    refused = Browser(person("ann", "chat")).post("sessions/", body)
    assert body_of(refused)["status"] == 400
    assert not Session.objects.exists()


def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    an_engine()
    refused = Browser(person("ann", "chat")).post("sessions/", json.dumps({"text": "x" * 1_000_000}))
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


def test_other_kinds_of_body_are_refused() -> None:
    ann = Browser(person("ann", "chat"))
    refused = ann.client.post("/api/sessions/", {"text": "Hi"}, headers={"X-CSRFToken": ann.token})
    assert body_of(refused)["status"] == 415
    assert body_of(ann.client.delete("/api/sessions/", headers={"X-CSRFToken": ann.token}))["status"] == 405


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": "x" * 32_001}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": 7}, "text"),
        ({"text": "a\x00"}, "text"),
        ({"owner": 1}, "owner"),
        ({"engine": ["desk"]}, "engine"),
        ({"title": "x" * 201}, "title"),
        ({"context": nested(40)}, "context"),
    ],
)
def test_a_new_session_takes_only_what_it_knows(body: dict[str, Any], field: str) -> None:
    an_engine()
    refused = Browser(person("ann", "chat")).post("sessions/", body)
    assert (refused.status_code, refused.json()["field"]) == (400, field)
    assert not Session.objects.exists()


@pytest.mark.parametrize(
    "query",
    [
        "sessions/?scope=everyones", "sessions/?before=1", "sessions/?before=9.zz",
        f"sessions/?before={10**30}.{'a' * 32}", "sessions/?owner=1", "calls/?state=settled", "calls/?scope=all",
        "sessions/?q=%00",
    ],
)  # fmt: skip
def test_queries_take_only_what_they_know(query: str) -> None:
    assert body_of(Browser(person("ann", "chat")).get(query))["status"] == 400


def test_numbers_in_queries_are_bounded() -> None:
    ann = person("ann", "chat")
    session = sessions.start(an_engine(), user=ann)
    for query in ("messages/?limit=201", "messages/?before=-1", f"events/?after={2**63}", "events/?limit=0"):
        assert body_of(Browser(ann).get(f"sessions/{session.pk}/{query}"))["status"] == 400


def test_an_engine_of_other_groups_is_not_there() -> None:
    an_engine("secret", groups=["board"])
    an_engine("off", enabled=False)
    ann = Browser(person("ann", "chat"))
    answers = [body_of(ann.post("sessions/", {"engine": name})) for name in ("secret", "off", "none")]
    assert answers[0]["status"] == 404
    assert answers[0] == answers[1] == answers[2]
    assert ann.get("engines/").json() == {"results": []}


def test_requests_are_counted_per_person(settings: Any) -> None:
    settings.ALLM = {"REQUESTS_PER_MINUTE": 3}
    ann, bob = Browser(person("ann", "chat")), Browser(person("bob", "chat"))
    assert [ann.get("sessions/").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = ann.get("sessions/")
    assert body_of(refused)["code"] == "throttled"
    assert 0 < int(refused.headers["Retry-After"]) <= 61
    assert bob.get("sessions/").status_code == 200


def test_a_person_has_only_so_many_sessions_at_work(settings: Any) -> None:
    settings.ALLM = {"RUNNING_PER_USER": 2}
    engine = an_engine()
    ann, bob = person("ann", "chat"), person("bob", "chat")
    halted_one = drive(sessions.start(engine, user=ann, text="Hi"), ScriptedModel([say("Hello.")]))
    browser = Browser(ann)
    for key in ("k1", "k2"):
        assert browser.post("sessions/", {"text": "Hi"}, **{"Idempotency-Key": key}).status_code == 201
    refused = browser.post("sessions/", {"text": "Hi"})
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_running")
    assert write(browser, halted_one.pk, "messages").json()["code"] == "too_many_running"
    assert write(browser, halted_one.pk, "resume").json()["code"] == "too_many_running"
    again_ = browser.post("sessions/", {"text": "Hi"}, **{"Idempotency-Key": "k1"})
    assert again_.status_code == 201
    assert Browser(bob).post("sessions/", {"text": "Hi"}).status_code == 201


def test_what_nobody_foresaw_is_answered_in_general_words_with_an_id(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("password=hunter2 at 10.0.0.7")

    ann = Browser(person("ann", "chat"))
    ann.client.raise_request_exception = False
    monkeypatch.setattr("allm_django.api.views.engine_shapes", broken)
    answer = ann.get("engines/")
    assert body_of(answer)["code"] == "server_error"
    assert answer.status_code == 500
    assert b"hunter2" not in answer.content
    assert b"Traceback" not in answer.content
    (record,) = [record for record in caplog.records if record.name == "allm_django.api"]
    assert answer.json()["request_id"] in record.getMessage()
    assert record.exc_info is not None


def test_names_and_texts_cannot_forge_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="allm_django")
    a_tool()
    mallory = person("mallory\r\nINFO allowed", "chat")
    call = waiting_call(person("ann", "chat", first_name="Ann\nINFO approved"))
    browser = Browser(mallory)
    browser.decide(call, "reject", reason="no\nINFO approved")
    browser.get("sessions/x%0AINFO allowed/")
    browser.post("sessions/", {"text": "a\nINFO", "engine": "b\nINFO"}, **{"Idempotency-Key": "k"})
    assert all("INFO" not in record.getMessage() for record in caplog.records if record.name.startswith("allm_django"))
