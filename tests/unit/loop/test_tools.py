"""Calls inside the loop: all that a handler, its arguments and its engine can do (T07, T11–T21, T24, T25)."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import allm_django as allm
from allm_django.core import events
from allm_django.core.states import HaltedReason
from allm_django.core.types import ToolResult
from allm_django.errors import ToolDefinitionError
from allm_django.providers.scripted import ScriptedModel, call, raw_call, say
from allm_django.tools.registry import registry
from tests.unit.loop.twins import ANY, EMPTY, Loop, asking, tool_messages

SOON = 0.02  # seconds; handlers under test never end by themselves before that
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def spec(handler: Any, name: str = "work", **values: Any) -> allm.ToolSpec:
    return allm.ToolSpec(name, "Works.", values.pop("schema", ANY), handler, **values)


def run(loop: Loop, handler: Any, **options: Any) -> allm.ChatResult:
    """The loop over one call of a tool with this handler, and an answer."""
    tools = [handler if isinstance(handler, allm.ToolSpec) else spec(handler)]
    engine = allm.EngineSpec(ScriptedModel([call("work"), say("Done.")]), tools, **options)
    return loop(engine, asking())


def told(loop: Loop, handler: Any, **options: Any) -> str:
    """What the model was told of the one call."""
    return tool_messages(run(loop, handler, **options))[0]


@allm.tool(schema=ANY)
def shout(arguments: dict[str, Any]) -> str:
    return "Hey!"


@dataclass
class Parcel:
    weight: Decimal
    sent: date


# -- results (T11–T16) ----------------------------------------------------------------------------------------------


@pytest.mark.row("T11")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is: \"'{", "as it is: \"'{"),
        ("", ""),
        (None, "null"),
        (0, "0"),
        ([1, {"a": None}], '[1,{"a":null}]'),
        (Parcel(Decimal("1.50"), date(2030, 1, 2)), '{"weight":"1.50","sent":"2030-01-02"}'),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_a_result_is_told_as_json_and_text_verbatim(loop: Loop, value: Any, text: str) -> None:
    assert told(loop, lambda arguments: value) == text


def tool_error_raised(arguments: Any) -> Any:
    raise allm.ToolError("There is no such order.")


async def tool_error_raised_async(arguments: Any) -> Any:
    raise allm.ToolError("There is no such order.")


@pytest.mark.row("T12")
@pytest.mark.parametrize(
    "handler",
    [tool_error_raised, tool_error_raised_async, lambda arguments: allm.ToolError("There is no such order.")],
)
def test_a_tools_own_error_reaches_the_model_in_its_words(loop: Loop, handler: Any) -> None:
    result = run(loop, handler)
    assert tool_messages(result) == ['{"error":"tool_error","message":"There is no such order."}']
    assert [message.is_error for message in result.messages if message.role == "tool"] == [True]
    assert result.text == "Done."


@pytest.mark.row("T16")
def test_an_exception_reaches_the_model_without_its_words(loop: Loop) -> None:
    def handler(arguments: Any) -> Any:
        raise ValueError("password is hunter2")

    result = run(loop, handler)
    assert "handler_raised" in tool_messages(result)[0]
    assert "hunter2" not in repr(result)


@pytest.mark.row("T16")
def test_the_staffs_detail_of_an_exception_is_in_the_event() -> None:
    def handler(arguments: Any) -> Any:
        raise ValueError("password is hunter2")

    engine = allm.EngineSpec(ScriptedModel([call("work"), say("Done.")]), [spec(handler)])
    settled = [event for event in allm.stream(engine, asking()) if isinstance(event, events.CallSettled)]
    assert "hunter2" in settled[0].result.detail


@pytest.mark.row("T15")
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (object(), "encoding_failed"),
        (b"x", "encoding_failed"),
        (float("nan"), "encoding_failed"),
        (ValueError("x"), "invalid_return"),
    ],
)
def test_what_is_no_result_is_an_error_and_the_loop_goes_on(loop: Loop, value: Any, code: str) -> None:
    result = run(loop, lambda arguments: value)
    assert code in tool_messages(result)[0]
    assert result.text == "Done."


@pytest.mark.row("T14", "L05")
def test_a_halt_stops_the_loop_with_its_own_reason_and_its_value_is_the_result(loop: Loop) -> None:
    result = run(loop, lambda arguments: allm.Halt("out_of_stock", {"left": 0}))
    assert (result.halted_reason, tool_messages(result), len(result.steps)) == ("out_of_stock", ['{"left":0}'], 1)


@pytest.mark.row("T14")
@pytest.mark.parametrize("reason", [*HaltedReason, "", "x" * 65])
def test_a_halt_with_a_reason_of_the_loop_itself_is_an_error_result(loop: Loop, reason: str) -> None:
    result = run(loop, lambda arguments: allm.Halt(reason))
    assert "invalid_return" in tool_messages(result)[0]
    assert result.halted_reason == "completed"


@pytest.mark.row("T13")
def test_two_questions_are_returned_in_the_order_of_their_calls_whichever_was_asked_first(loop: Loop) -> None:
    second = asyncio.Event()

    async def ask(arguments: Any) -> allm.AskUser:
        if arguments["q"] == "Two":
            second.set()
        else:
            await second.wait()
            for _ in range(9):
                await asyncio.sleep(0)
        return allm.AskUser(f"{arguments['q']}?")

    tools = [spec(ask)]
    engine = allm.EngineSpec(ScriptedModel([[call("work", {"q": "One"}), call("work", {"q": "Two"})]]), tools)
    result = loop(engine, asking())
    assert (result.halted_reason, result.pending_question) == ("ask_user", "One?")
    assert [question["text"] for question in result.metadata["questions"]] == ["One?", "Two?"]


@pytest.mark.row("T07")
def test_a_tool_without_a_handler_is_not_found(loop: Loop) -> None:
    assert "not_found" in told(loop, spec(None))


@pytest.mark.row("T07")
def test_a_manual_tool_without_a_handler_waits(loop: Loop) -> None:
    assert run(loop, spec(None, manual=True)).halted_reason == "manual_tool_calls"


@pytest.mark.row("T08")
@pytest.mark.parametrize("handler", [lambda: None, lambda a, b, c: None, lambda *a: None, "no.such.key"])
def test_a_handler_that_cant_be_called_is_refused_before_the_model_is_called(loop: Loop, handler: Any) -> None:
    model = ScriptedModel([call("work"), say("never")])
    with pytest.raises(ToolDefinitionError, match=r"handler|no\.such\.key"):
        loop(allm.EngineSpec(model, [spec(handler)]), asking())
    assert model.requests == []


@pytest.mark.row("T06", "L02")
def test_a_handler_may_be_named_by_its_registered_key(loop: Loop) -> None:
    with registry.registered(shout) as definition:
        assert told(loop, spec(definition.key)) == "Hey!"


# -- timeouts (T17) -------------------------------------------------------------------------------------------------


@pytest.mark.row("T17")
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_timeout_is_a_tool_error_that_says_whether_it_may_have_run(loop: Loop, idempotent: bool) -> None:
    cancelled = threading.Event()

    async def endless(arguments: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    result = run(loop, spec(endless, timeout=SOON, idempotent=idempotent))
    assert '"error":"timeout"' in tool_messages(result)[0]
    assert ("may have taken effect" in tool_messages(result)[0]) != idempotent
    assert (result.text, cancelled.is_set()) == ("Done.", True)


@pytest.mark.row("T17")
def test_a_sync_handler_that_hangs_does_not_hold_up_the_loop(loop: Loop) -> None:
    let_go = threading.Event()
    result = run(loop, spec(lambda arguments: let_go.wait(), timeout=SOON))
    let_go.set()
    assert '"error":"timeout"' in tool_messages(result)[0]
    assert result.text == "Done."


# -- side by side (T18) ---------------------------------------------------------------------------------------------


@pytest.mark.row("T18")
def test_sync_calls_of_a_turn_run_side_by_side_and_results_keep_the_order_asked(loop: Loop) -> None:
    together = threading.Barrier(3, timeout=20)

    def meet(arguments: Any) -> int:
        together.wait()  # breaks unless all three are here
        return int(arguments["n"])

    made = [call("work", {"n": n}) for n in (3, 1, 2)]
    engine = allm.EngineSpec(ScriptedModel([made, say("Done.")]), [spec(meet)])
    assert tool_messages(loop(engine, asking())) == ["3", "1", "2"]
    assert [m.content for m in engine.model.requests[-1].messages if m.role == "tool"] == ["3", "1", "2"]


@pytest.mark.row("T18")
def test_async_calls_run_side_by_side_and_the_last_asked_may_end_first(loop: Loop) -> None:
    ended: list[int] = []
    second = asyncio.Event()

    async def one(arguments: Any) -> int:
        await second.wait()
        ended.append(1)
        return 1

    async def two(arguments: Any) -> int:
        ended.append(2)
        second.set()
        return 2

    engine = allm.EngineSpec(
        ScriptedModel([[call("one"), call("two")], say("x")]), [spec(one, "one"), spec(two, "two")]
    )
    assert (tool_messages(loop(engine, asking())), ended) == (["1", "2"], [2, 1])


@pytest.mark.row("T18")
def test_no_more_calls_run_at_once_than_allowed(loop: Loop) -> None:
    running: list[int] = []
    most: list[int] = []

    async def work(arguments: Any) -> None:
        running.append(1)
        most.append(len(running))
        for _ in range(5):
            await asyncio.sleep(0)
        running.pop()

    engine = allm.EngineSpec(ScriptedModel([[call("work") for _ in range(6)], say("x")]), [spec(work)])
    assert len(tool_messages(loop(engine, asking(), max_parallel=2))) == 6
    assert max(most) == 2


@pytest.mark.row("T09", "T18", "S08")
def test_starts_progress_and_ends_are_told_live() -> None:
    def work(arguments: Any, ctx: allm.ToolContext) -> str:
        ctx.progress(0.5, "half way")
        return "done"

    engine = allm.EngineSpec(ScriptedModel([call("work"), say("x")]), [spec(work)])
    told = list(allm.stream(engine, asking()))
    kinds = [type(event).__name__ for event in told if type(event).__name__.startswith("Call")]
    assert kinds == ["CallStarted", "CallProgressed", "CallSettled"]
    progress = next(event for event in told if isinstance(event, events.CallProgressed))
    assert (progress.fraction, progress.text) == (0.5, "half way")


# -- on_tool_error (T12, T19) ---------------------------------------------------------------------------------------


@pytest.mark.row("T12", "T19")
def test_by_default_an_error_is_the_result_and_the_loop_goes_on(loop: Loop) -> None:
    assert run(loop, tool_error_raised).text == "Done."


@pytest.mark.row("T19", "L05")
@pytest.mark.parametrize("where", ["engine", "call"])
def test_halt_on_error_stops_with_the_error_as_result(loop: Loop, where: str) -> None:
    engine = allm.EngineSpec(
        ScriptedModel([call("work"), say("never")]),
        [spec(tool_error_raised)],
        on_tool_error="halt" if where == "engine" else "continue",
    )
    result = loop(engine, asking(), **({} if where == "engine" else {"on_tool_error": "halt"}))
    assert (result.halted_reason, len(result.steps)) == ("tool_error", 1)
    assert "There is no such order." in tool_messages(result)[0]


def policies(answer: Any) -> list[Any]:
    """The same policy sync and async."""

    def policy(made: allm.ToolCall, error: ToolResult) -> Any:
        return answer(made, error)

    async def asynchronous(made: allm.ToolCall, error: ToolResult) -> Any:
        return answer(made, error)

    return [policy, asynchronous]


@pytest.mark.row("T19")
@pytest.mark.parametrize("policy", policies(lambda made, error: {"instead": made.name, "of": error.code}))
def test_a_functions_answer_replaces_the_error(loop: Loop, policy: Any) -> None:
    assert told(loop, tool_error_raised, on_tool_error=policy) == '{"instead":"work","of":"tool_error"}'


@pytest.mark.row("T19")
@pytest.mark.parametrize("policy", policies(lambda made, error: allm.Halt("gave_up")))
def test_a_function_may_halt(loop: Loop, policy: Any) -> None:
    result = run(loop, tool_error_raised, on_tool_error=policy)
    assert (result.halted_reason, len(result.steps)) == ("gave_up", 1)
    assert "There is no such order." in tool_messages(result)[0]


@pytest.mark.row("T19")
@pytest.mark.parametrize("policy", policies(lambda made, error: error))
def test_a_function_may_leave_the_error_as_it_is(loop: Loop, policy: Any) -> None:
    result = run(loop, tool_error_raised, on_tool_error=policy)
    assert tool_messages(result) == ['{"error":"tool_error","message":"There is no such order."}']


@pytest.mark.row("T19")
@pytest.mark.parametrize("policy", policies(lambda made, error: 1 / 0))
def test_a_function_that_fails_halts_the_loop(loop: Loop, policy: Any) -> None:
    result = run(loop, tool_error_raised, on_tool_error=policy)
    assert result.halted_reason == "tool_error"


@pytest.mark.row("T19")
def test_a_function_is_asked_once_for_each_error_and_for_nothing_else(loop: Loop) -> None:
    asked: list[str] = []

    def policy(made: allm.ToolCall, error: ToolResult) -> str:
        asked.append(made.name)
        return "instead"

    tools = [spec(tool_error_raised, "bad"), spec(lambda arguments: "fine", "good")]
    engine = allm.EngineSpec(
        ScriptedModel([[call("bad"), call("good"), call("bad")], say("Done.")]), tools, on_tool_error=policy
    )
    assert tool_messages(loop(engine, asking())) == ["instead", "fine", "instead"]
    assert asked == ["bad", "bad"]


# -- arguments and names (T20, T21) ---------------------------------------------------------------------------------


@pytest.mark.row("T21")
@pytest.mark.parametrize("raw", ["", "null", "  ", "{}"])
def test_empty_arguments_are_an_empty_object(loop: Loop, raw: str) -> None:
    engine = allm.EngineSpec(
        ScriptedModel([raw_call("work", raw), say("x")]), [spec(lambda arguments: arguments, schema=EMPTY)]
    )
    assert tool_messages(loop(engine, asking())) == ["{}"]


@pytest.mark.row("T21")
@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ("[1]", "object"),
        ('"n"', "object"),
        ("{'n': 1}", "JSON"),
        ('{"n": 1', "break off"),
        ('{"n": "one"}', "n"),
        ("{}", "n"),
        ('{"n": 1, "m": 2}', "m"),
        ('{"n": NaN}', "NaN"),
    ],
)
@pytest.mark.parametrize("manual", [False, True])
def test_bad_arguments_are_told_what_to_mend_and_nobody_is_asked_and_nothing_runs(
    loop: Loop, raw: str, named: str, manual: bool
) -> None:
    def never(arguments: Any) -> Any:
        raise AssertionError("it ran")

    tools = [spec(never, schema=COUNT, manual=manual), spec(lambda arguments: "ran", "sibling")]
    engine = allm.EngineSpec(ScriptedModel([[raw_call("work", raw), call("sibling")], say("Done.")]), tools)
    result = loop(engine, asking())
    bad, sibling = tool_messages(result)
    assert '"error":"invalid_arguments"' in bad
    assert named in bad
    assert (sibling, result.text, result.metadata["manual_tool_calls"]) == ("ran", "Done.", [])


@pytest.mark.row("T20")
def test_an_unknown_tool_is_answered_with_the_names_on_offer_and_siblings_run(loop: Loop) -> None:
    tools = [spec(lambda arguments: "ran", "b"), spec(lambda arguments: "ran", "a")]
    engine = allm.EngineSpec(ScriptedModel([[call("c"), call("a")], say("Done.")]), tools)
    result = loop(engine, asking())
    unknown, sibling = tool_messages(result)
    assert "unknown_tool" in unknown
    assert "a, b" in unknown
    assert (sibling, result.halted_reason) == ("ran", "completed")


# -- encoder and executor (T24, T25) --------------------------------------------------------------------------------


@pytest.mark.row("T24")
@pytest.mark.parametrize("where", ["engine", "call"])
def test_an_encoder_gives_the_models_copy(loop: Loop, where: str) -> None:
    encoder = lambda value: f"<{value}>"  # noqa: E731
    tools = [spec(lambda arguments: [1, 2])]
    engine = allm.EngineSpec(
        ScriptedModel([call("work"), say("x")]), tools, encoder=encoder if where == "engine" else None
    )
    assert tool_messages(loop(engine, asking(), **({} if where == "engine" else {"encoder": encoder}))) == ["<[1, 2]>"]


@pytest.mark.row("T15", "T24")
@pytest.mark.parametrize("encoder", [lambda value: 1 / 0, lambda value: 3])
def test_an_encoder_that_fails_is_an_error_result(loop: Loop, encoder: Any) -> None:
    assert "encoding_failed" in told(loop, lambda arguments: [1], encoder=encoder)


@pytest.mark.row("T24")
def test_the_models_copy_is_capped_with_a_marker_and_the_whole_is_kept() -> None:
    engine = allm.EngineSpec(ScriptedModel([call("work"), say("x")]), [spec(lambda arguments: "ab" * 50_000)])
    settled = next(event for event in allm.stream(engine, asking()) if isinstance(event, events.CallSettled))
    assert len(settled.result.content) <= 32_768
    assert "left out" in settled.result.content
    assert settled.result.value == "ab" * 50_000


def sync_handler(arguments: Any) -> str:
    return "ran"


async def async_handler(arguments: Any) -> str:
    return "ran"


def sync_executor(handler: Any, arguments: Any, ctx: allm.ToolContext) -> Any:
    return handler({**arguments, "by": "executor"}, ctx)


async def async_executor(handler: Any, arguments: Any, ctx: allm.ToolContext) -> Any:
    result = handler(arguments, ctx)
    return await result if asyncio.iscoroutine(result) else result


@pytest.mark.row("T25")
@pytest.mark.parametrize("handler", [sync_handler, async_handler])
@pytest.mark.parametrize("executor", [sync_executor, async_executor])
def test_any_executor_runs_any_handler(loop: Loop, handler: Any, executor: Any) -> None:
    assert told(loop, handler, executor=executor) == "ran"


@pytest.mark.row("T25")
@pytest.mark.parametrize("where", ["engine", "call"])
def test_an_executor_stands_between_the_loop_and_the_handler(loop: Loop, where: str) -> None:
    engine = allm.EngineSpec(
        ScriptedModel([call("work", {"a": 1}), say("x")]),
        [spec(lambda arguments: arguments)],
        executor=sync_executor if where == "engine" else None,
    )
    result = loop(engine, asking(), **({} if where == "engine" else {"executor": sync_executor}))
    assert tool_messages(result) == ['{"a":1,"by":"executor"}']


@pytest.mark.row("T25")
def test_an_executor_that_fails_is_a_tool_error(loop: Loop) -> None:
    def broken(handler: Any, arguments: Any, ctx: Any) -> Any:
        raise OSError("no machine")

    assert "handler_raised" in told(loop, sync_handler, executor=broken)
