"""Spans and ids of stored runs: one trace a run, over halts and processes; ids in logs and answers (L19)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from django.contrib.auth.models import User
from opentelemetry import trace

import allm_django as allm
from allm_django import logs, runtime, sessions
from allm_django.core.states import CallState
from allm_django.models import Engine, Event
from allm_django.testing import ScriptedModel, call, say
from tests.integration.cast import Browser, an_engine, person, without_runner
from tests.integration.desk import Desk
from tests.integration.driving import call_of, session_of, tool, until
from tests.tracing import Taken, traced

pytestmark = pytest.mark.row("L19")

CANARY = "canary-7431"
OF_THE_REQUEST: ContextVar[str | None] = ContextVar("of_the_request", default=None)


@pytest.fixture(autouse=True)
def _no_runner() -> Iterator[None]:
    with without_runner():
        yield


@pytest.fixture
def spans() -> Iterator[Taken]:
    with traced() as taken:
        yield taken


def test_what_is_done_after_a_halt_is_in_the_trace_of_the_request_that_began_it(desk: Desk, spans: Taken) -> None:
    desk.noted(manual=True)
    with trace.get_tracer("host").start_as_current_span("request"):
        desk.start(call("work", {"a": 1}), say("Done."), name="desk", model="planner:m")
    desk.drive()
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    chat = f"chat {desk.model.id.partition(':')[2]}"
    assert spans.tree() == [
        "request",
        "  queue_run",
        "    invoke_agent desk",
        "      step",
        f"        {chat}",
        "    invoke_agent desk",
        "      step",
        "        execute_tool work",
        "      step",
        f"        {chat}",
    ]
    ours = [span.attributes for span in spans.all() if span.name != "request"]
    assert {found["gen_ai.conversation.id"] for found in ours} == {str(desk.session.pk)}
    assert {found["allm.request_id"] for found in ours} == {desk.last_run.request_id}
    assert spans.one("execute_tool work").attributes["gen_ai.tool.call.id"] == desk.call().call_id


def test_the_trace_is_that_of_the_run_though_nobody_traces_the_request(desk: Desk, spans: Taken) -> None:
    desk.noted(manual=True)
    desk.run(call("work"), say("Done."))
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    assert len({span.context.trace_id for span in spans.all()}) == 1
    assert spans.tree()[0] == "queue_run"


def test_spans_of_stored_runs_hold_nothing_that_was_said_or_done(desk: Desk, spans: Taken) -> None:
    desk.noted(result=CANARY, sensitive=["card"], schema={"type": "object"})
    desk.run([say(CANARY), call("work", {"card": CANARY})], say(CANARY), system=CANARY, context=CANARY)
    assert "execute_tool work" in [span.name for span in spans.all()]
    assert CANARY not in spans.text()


def test_switched_on_by_the_setting_they_do_but_sensitive_arguments_stay_masked(
    desk: Desk, spans: Taken, settings: Any
) -> None:
    settings.ALLM = {"TELEMETRY_CONTENT": True}
    desk.noted(sensitive=["card"])
    desk.run(call("work", {"card": CANARY, "note": "books"}), say("Done."))
    assert '"note":"books"' in spans.one("execute_tool work").attributes["gen_ai.tool.call.arguments"]
    assert CANARY not in spans.text()


def test_a_run_queued_while_nobody_traced_is_driven_in_a_trace_of_its_own(desk: Desk) -> None:
    desk.start(say("Done."), name="desk")
    with traced() as spans, trace.get_tracer("host").start_as_current_span("unrelated"):
        desk.drive()
        assert [line for line in spans.tree() if "agent" in line] == ["invoke_agent desk"]
    assert "traceparent" not in desk.last_run.settings


# -- the request's id -------------------------------------------------------------------------------------------------


def test_the_id_of_a_request_is_in_its_answer_and_on_the_run_and_its_events(db: None) -> None:
    an_engine()
    answer = Browser(person("ann", "chat")).post("sessions/", {"text": "Hello"}, **{"X-Request-ID": "proxy-1.a_b"})
    assert answer["X-Request-ID"] == "proxy-1.a_b"
    assert answer.json()["session"]["run"]["request_id"] == "proxy-1.a_b"
    shapes = [data["session"]["run"] for data in Event.objects.values_list("data", flat=True) if data.get("session")]
    assert {run["request_id"] for run in shapes if run} == {"proxy-1.a_b"}


@pytest.mark.parametrize("given", ["", "a" * 65, "a b", "a\tb", "é", "<b>"])
def test_an_id_that_is_not_usable_is_replaced(db: None, given: str) -> None:
    answer = Browser(person("ann", "chat")).post("sessions/", {}, **{"X-Request-ID": given})
    assert answer["X-Request-ID"] != given
    assert len(answer["X-Request-ID"]) == 32


def test_an_errors_answer_has_the_same_id_in_its_body(db: None) -> None:
    answer = Browser(person("ann", "chat")).post("nothing/", **{"X-Request-ID": "r-1"})
    assert (answer.status_code, answer["X-Request-ID"], answer.json()["request_id"]) == (404, "r-1", "r-1")
    assert logs.ids() == logs.Ids()


def test_a_run_started_by_a_handler_has_an_id_of_its_own(desk: Desk) -> None:
    desk.tool(lambda arguments, ctx: str(sessions.start(ctx.engine, user=ctx.user, text="Go.").pk))
    desk.run(call("work"), say("Done."))
    inner = desk.user.allm_sessions.exclude(pk=desk.session.pk).get()
    assert inner.runs.get().request_id not in ("", desk.last_run.request_id)


def test_log_lines_of_a_drive_name_the_request_and_the_session(running: None, caplog: Any) -> None:
    caplog.handler.addFilter(logs.RequestIds())

    def work() -> str:
        """Work."""
        logging.getLogger("shop").warning("a host's line")
        raise SystemError

    with tool(work, manual=False):
        session = session_of(ScriptedModel([call("work"), say("Done.")]))
        until(lambda: session.runs.filter(halted_reason="completed").exists())
    (line,) = [record for record in caplog.records if record.name == "shop"]
    assert (line.request_id, line.session_id) == (session.runs.get().request_id, str(session.pk))


def test_our_own_loggers_need_no_set_up_for_it(running: None, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("It broke.")

    monkeypatch.setattr("allm_django.runtime.runner.make_driver", broken)
    session = session_of(ScriptedModel([say("Done.")]))
    until(lambda: session.runs.filter(halted_reason="error").exists())
    (record,) = [record for record in caplog.records if record.getMessage().endswith("the engine failed.")]
    assert (record.request_id, record.session_id) == (session.runs.get().request_id, str(session.pk))
    logging.getLogger("allm_django.runtime").error("outside")
    assert (caplog.records[-1].request_id, caplog.records[-1].session_id) == ("-", "-")


def test_the_real_runner_drives_in_the_runs_trace_not_in_that_of_who_woke_it(running: None, spans: Taken) -> None:
    def work() -> str:
        """Work."""
        return "done"

    with tool(work, manual=True):
        session = session_of(ScriptedModel([call("work"), say("Done.")]))
        until(lambda: session.runs.filter(state="waiting").exists())
        waiting = call_of(session, CallState.PENDING)
        with trace.get_tracer("host").start_as_current_span("approval"):
            sessions.approve(waiting, by=User.objects.create_superuser("boss"))
        until(lambda: session.runs.filter(halted_reason="completed").exists())
        runtime.shutdown()
    name = Engine.objects.get().name
    tree = spans.tree()
    assert tree.count(f"  invoke_agent {name}") == 2
    assert "    step" in tree
    assert "      execute_tool work" in tree
    assert tree[0] == "queue_run"


def test_what_a_request_keeps_in_context_variables_is_not_seen_by_the_run_it_wakes(running: None) -> None:
    seen: list[Any] = []

    def work() -> str:
        """Work."""
        seen.append(OF_THE_REQUEST.get())
        return "done"

    runtime.ensure_started()
    with tool(work, manual=False):
        token = OF_THE_REQUEST.set("ann's")
        session = session_of(ScriptedModel([call("work"), say("Done.")]))
        OF_THE_REQUEST.reset(token)
        until(lambda: session.runs.filter(halted_reason="completed").exists())
    assert seen == [None]


def test_steps_of_a_recipe_are_inside_its_span_also_after_a_halt(desk: Desk, spans: Taken) -> None:
    plan = allm.Plan(serial=[allm.Step("price")], parallel=[allm.Step("refund"), allm.Step("price", {}, "again")])
    desk.recipe(lambda arguments: plan)
    desk.noted("price")
    desk.noted("refund", manual=True)
    desk.run(call("plan", id="p"), say("Done."), name="desk")
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    chat = f"chat {desk.model.id.partition(':')[2]}"
    first = ["      step", f"        {chat}", "        execute_tool plan", *["          execute_tool price"] * 2]
    second = [
        "      step",
        "        execute_tool plan",
        "          execute_tool refund",
        "      step",
        f"        {chat}",
    ]
    agent = "    invoke_agent desk"
    assert [line[2:] for line in [*[agent, *first], *[agent, *second]]] == spans.tree()[1:]
    outcomes = [span.attributes["allm.outcome"] for span in spans.all() if span.name == "execute_tool plan"]
    assert outcomes == ["delegated", "succeeded"]
    assert {span.attributes["gen_ai.tool.call.id"] for span in spans.all() if "execute_tool" in span.name} == {
        "p",
        "p/1",
        "p/2",
        "p/3",
    }
