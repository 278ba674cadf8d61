"""Spans of the stateless loop, and that nobody pays for them who did not ask (L19)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

import allm_django as allm
from allm_django.loop.environment import environment
from allm_django.providers.scripted import ScriptedModel, call, fail, raw_call, say, usage
from tests.tracing import Taken, traced
from tests.unit.loop.twins import asking

pytestmark = pytest.mark.row("L19")

CANARY = "canary-7431"


@allm.tool(sensitive=["card"])
def pay(card: str, note: str = "") -> str:
    """Pay."""
    return f"Paid: {note}"


@allm.tool
def break_down(reason: str) -> str:
    """Break down."""
    raise ValueError(reason)


@allm.tool(manual=True)
def refund(order: int) -> str:
    """Refund an order."""
    raise AssertionError("a manual tool ran")


@pytest.fixture
def spans() -> Iterator[Taken]:
    with traced() as taken:
        yield taken


@pytest.fixture
def content() -> Iterator[None]:
    before, environment.telemetry_content = environment.telemetry_content, lambda: True
    yield
    environment.telemetry_content = before


def engine(*entries: Any, **values: Any) -> allm.EngineSpec:
    values = {"model": ScriptedModel(entries), "tools": [pay, break_down, refund], "name": "desk", **values}
    return allm.EngineSpec(**values)


def test_a_run_holds_its_steps_and_they_their_model_and_tool_calls(spans: Taken) -> None:
    given = engine([call("pay", {"card": "1", "note": "x"}), call("break_down", {"reason": "y"})], say("Done."))
    allm.chat(given, asking(), request_id="r-1")
    name = given.model.id.partition(":")[2]
    assert spans.tree() == [
        "invoke_agent desk",
        "  step",
        f"    chat {name}",
        "    execute_tool pay",
        "    execute_tool break_down",
        "  step",
        f"    chat {name}",
    ]
    assert {span.attributes["allm.request_id"] for span in spans.all()} == {"r-1"}
    run = spans.one("invoke_agent desk")
    assert run.attributes["gen_ai.agent.name"] == "desk"
    assert (run.attributes["allm.halted_reason"], run.status.status_code) == ("completed", StatusCode.UNSET)


def test_a_model_call_says_what_was_asked_of_whom_and_what_it_used(spans: Taken) -> None:
    given = engine(
        [say("Hello."), usage(input_tokens=7, output_tokens=3)], params={"temperature": 0.5, "max_tokens": 10}
    )
    allm.chat(given, asking())
    name = given.model.id.partition(":")[2]
    span = spans.one(f"chat {name}")
    assert span.kind is SpanKind.CLIENT
    assert span.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": name,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 10,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.response.finish_reasons": ("stop",),
        "allm.request_id": span.attributes["allm.request_id"],
    }
    run = spans.one("invoke_agent desk").attributes
    assert (run["gen_ai.usage.input_tokens"], run["gen_ai.usage.output_tokens"]) == (7, 3)


def test_a_tool_call_says_which_and_how_it_ended(spans: Taken) -> None:
    result = allm.chat(engine([call("break_down", {"reason": CANARY})], say("Done.")), asking())
    span = spans.one("execute_tool break_down")
    assert span.attributes["gen_ai.operation.name"] == "execute_tool"
    assert span.attributes["gen_ai.tool.name"] == "break_down"
    assert span.attributes["gen_ai.tool.call.id"] == result.steps[0].tool_calls[0].id
    assert span.attributes["error.type"] == "handler_raised"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


def test_a_providers_failure_is_on_the_model_call_and_on_the_run(spans: Taken) -> None:
    allm.chat(engine(fail(401, message=CANARY)), asking())
    failed = [span.name.partition(" ")[0] for span in spans.all() if span.status.status_code is StatusCode.ERROR]
    assert failed == ["invoke_agent", "chat"]
    assert {span.attributes["error.type"] for span in spans.all() if span.name != "step"} == {"provider"}
    assert CANARY not in spans.text()


def test_a_halt_for_a_person_is_no_error(spans: Taken) -> None:
    allm.chat(engine(call("refund", {"order": 1})), asking())
    run = spans.one("invoke_agent desk")
    assert run.attributes["allm.halted_reason"] == "manual_tool_calls"
    assert run.status.status_code is StatusCode.UNSET


def test_spans_hold_no_content_unless_it_is_switched_on(spans: Taken) -> None:
    given = engine(
        [say(CANARY), call("pay", {"card": CANARY, "note": CANARY}), call("break_down", {"reason": CANARY})],
        say(CANARY),
        system=CANARY,
        context=CANARY,
    )
    allm.chat(given, [allm.user(CANARY)])
    assert CANARY not in spans.text()


def test_switched_on_they_hold_messages_arguments_and_results_but_nothing_sensitive(
    spans: Taken, content: None
) -> None:
    given = engine([call("pay", {"card": CANARY, "note": "books"})], say("Done."), system="Be brief.")
    allm.chat(given, [allm.user("Buy books.")])
    tool = spans.one("execute_tool pay").attributes
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"card": "••••••", "note": "books"}
    assert tool["gen_ai.tool.call.result"] == "Paid: books"
    first, last = [span.attributes for span in spans.all() if span.name.startswith("chat")]
    assert json.loads(first["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    (answered,) = json.loads(first["gen_ai.output.messages"])
    assert [part["arguments"] for part in answered["parts"]] == [{"card": "••••••", "note": "books"}]
    sent = json.loads(last["gen_ai.input.messages"])
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[2]["parts"][0]["response"] == "Paid: books"
    assert CANARY not in spans.text()


def test_a_call_of_a_tool_nobody_knows_or_that_can_not_be_read_is_hidden_whole(spans: Taken, content: None) -> None:
    given = engine([call("unknown", {"card": CANARY}), raw_call("pay", f'{{"card": "{CANARY}')], say("Done."))
    allm.chat(given, asking())
    assert CANARY not in spans.text()


def test_the_run_is_part_of_the_callers_trace_and_a_handlers_own_spans_of_its_call(spans: Taken) -> None:
    tracer = trace.get_tracer("host")
    threads = []

    @allm.tool
    def look_up() -> str:
        """Look up."""
        threads.append(threading.current_thread())
        with tracer.start_as_current_span("query"):
            return "found"

    async def main() -> None:
        with tracer.start_as_current_span("request"):
            await allm.achat(engine(call("look_up"), say("Done."), tools=[look_up]), asking())

    asyncio.run(main())
    assert [line for line in spans.tree() if "chat" not in line] == [
        "request",
        "  invoke_agent desk",
        "    step",
        "      execute_tool look_up",
        "        query",
        "    step",
    ]
    assert threads[0] is not threading.current_thread()


def test_a_stream_that_is_left_ends_its_spans_without_an_error(spans: Taken) -> None:
    async def main() -> None:
        agen = allm.astream(engine(say("A long answer.")), asking())
        async for event in agen:
            if event.kind == "TextStreamed":
                break
        await agen.aclose()

    asyncio.run(main())
    assert spans.one("invoke_agent desk").status.status_code is StatusCode.UNSET


WITHOUT = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
"""
RUN = """
import sys
import allm_django as allm
from allm_django.testing import ScriptedModel, call, say

@allm.tool
def look() -> str:
    "Look."
    return "seen"

result = allm.chat(allm.EngineSpec(model=ScriptedModel([call("look"), say("Done.")]), tools=[look]), [allm.user("Go.")])
assert result.text == "Done.", result
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


@pytest.mark.parametrize("before", [WITHOUT, ""])
def test_who_has_not_set_opentelemetry_up_imports_none_of_it(before: str) -> None:
    done = subprocess.run([sys.executable, "-c", before + RUN], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
