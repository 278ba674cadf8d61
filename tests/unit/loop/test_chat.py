"""The stateless loop through its public names: modes, halts, turns, tools on offer (L01–L07, L16, T04, T10, T23)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

import allm_django as allm
from allm_django.core import events
from allm_django.errors import AllmError, InvalidInputError, LoopContextError, ToolDefinitionError
from allm_django.providers.scripted import ScriptedModel, call, cut, say, usage
from tests.unit.loop.twins import ANY, LOOPS, Loop, asking, double, refund, tool_messages


def engine(entries: list[Any], **values: Any) -> allm.EngineSpec:
    return allm.EngineSpec(**{"model": ScriptedModel(entries), "tools": [double, refund], **values})


# -- step, chat, stream (L01) ---------------------------------------------------------------------------------------


@pytest.mark.row("L01")
def test_the_loop_runs_calls_until_the_model_answers(loop: Loop) -> None:
    given = engine([[say("Let me see."), call("double", {"n": 4})], say("It is 8.")])
    result = loop(given, asking())
    assert (result.text, result.halted_reason, result.halted) == ("It is 8.", "completed", False)
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert tool_messages(result) == ["8"]
    assert [step.text for step in result.steps] == ["Let me see.", "It is 8."]
    assert [message.content for message in result.steps[0].tool_results] == ["8"]


@pytest.mark.row("L01")
@pytest.mark.parametrize(
    "entries",
    [
        [say("Hello.")],
        [[call("double", {"n": 1}), call("refund", {"order": 7}), call("nothing")]],
        [[call("double", {"n": "x"})], say("Sorry.")],
        [call("double", {"n": 1}), cut("Half an ans")],
    ],
)
def test_all_four_doors_give_the_same(entries: list[Any]) -> None:
    results = [door(engine(entries), asking()) for door in LOOPS.values()]
    assert all(result == results[0] for result in results)


@pytest.mark.row("L01")
def test_a_step_is_one_round_trip_and_its_calls() -> None:
    given = engine([call("double", {"n": 4}), say("It is 8.")])
    first = allm.step(given, asking())
    assert (first.done, first.halted_reason, [m.content for m in first.tool_results]) == (False, "", ["8"])
    assert [made.name for made in first.tool_calls] == ["double"]
    second = asyncio.run(allm.astep(given, first.messages))
    assert (second.done, second.halted_reason, second.text) == (True, "completed", "It is 8.")


@pytest.mark.row("L01", "L04")
def test_a_step_with_a_manual_call_says_why_it_would_not_go_on() -> None:
    step = allm.step(engine([call("refund", {"order": 7})]), asking())
    assert (step.done, step.halted_reason) == (True, "manual_tool_calls")
    assert [made.arguments for made in step.metadata["manual_tool_calls"]] == [{"order": 7}]


@pytest.mark.row("L01", "S08")
def test_the_stream_tells_everything_in_order() -> None:
    given = engine([[say("Let me see."), call("double", {"n": 4})], say("It is 8.")])
    kinds = [type(event).__name__ for event in allm.stream(given, asking())]
    told = [kind for index, kind in enumerate(kinds) if index == 0 or kind != kinds[index - 1]]
    assert told == [
        "RunStarted",
        "StepStarted",
        "TextStreamed",
        "ArgumentsStreamed",
        "MessageCompleted",
        "CallStarted",
        "CallSettled",
        "StepCompleted",
        "StepStarted",
        "TextStreamed",
        "MessageCompleted",
        "StepCompleted",
        "RunHalted",
    ]


@pytest.mark.row("L01", "S08")
def test_streamed_pieces_add_up_to_the_message() -> None:
    given = engine([[say("A longer text, in pieces."), call("double", {"n": 4})], say("Done.")])
    told = list(allm.stream(given, asking()))
    text = "".join(event.text for event in told if isinstance(event, events.TextStreamed))
    arguments = "".join(event.text for event in told if isinstance(event, events.ArgumentsStreamed))
    assert (text, arguments) == ("A longer text, in pieces.Done.", '{"n": 4}')


def test_the_text_of_a_loop_that_got_no_answer_is_not_an_older_one(loop: Loop) -> None:
    history = [allm.user("Hi."), allm.assistant("Hello."), allm.user("Go.")]
    result = loop(engine([]), history)
    assert (result.halted_reason, result.text) == ("error", "")


@pytest.mark.row("L09")
def test_usage_is_summed_and_what_is_unknown_stays_unknown(loop: Loop) -> None:
    first = [usage(input_tokens=10, output_tokens=2), call("double", {"n": 1})]
    result = loop(engine([first, [usage(input_tokens=5), say("2")]]), asking())
    gaps = ("output_tokens", "cached_tokens", "reasoning_tokens", "cost")
    assert result.usage == allm.Usage(input_tokens=15, output_tokens=2, partial=gaps)
    assert [step.usage.input_tokens for step in result.steps] == [10, 5]
    assert result.usage.cost is None


@pytest.mark.row("L02")
def test_the_loop_needs_no_django_settings() -> None:
    """L02: a process that never configures Django."""
    script = """
import sys
import allm_django as allm
from allm_django.providers.scripted import ScriptedModel, call, say

@allm.tool
def double(n: int) -> int:
    "Double."
    return 2 * n

engine = allm.EngineSpec(ScriptedModel([call("double", {"n": 4}), say("8")]), [double])
result = allm.chat(engine, [allm.user("4?")])
assert [m.content for m in result.messages][1:] == ["", "8", "8"], result
assert [type(e).__name__ for e in allm.stream(allm.EngineSpec(ScriptedModel([say("x")])), [allm.user("?")])]
assert "django.conf" not in sys.modules, "Django was loaded"
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, env={})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("first", ["allm.chat", "import_module('allm_django.chat')"])
def test_the_chat_page_of_the_same_name_does_not_take_the_functions_place(first: str) -> None:
    script = f"""
import sys
from importlib import import_module
import allm_django as allm
{first}
page = import_module("allm_django.chat")
assert allm.chat is import_module("allm_django.loop.api").chat, allm.chat
assert page is sys.modules["allm_django.chat"] is not allm.chat
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, env={})
    assert (done.returncode, done.stderr) == (0, "")


# -- where the sync twins may run -----------------------------------------------------------------------------------


@pytest.mark.row("L01")
@pytest.mark.parametrize("name", ["chat", "step", "stream"])
@pytest.mark.asyncio
async def test_a_sync_twin_refuses_a_running_event_loop_and_names_the_async_one(name: str) -> None:
    with pytest.raises(LoopContextError, match=f"a{name}"):
        list(getattr(allm, name)(engine([say("x")]), asking()))


@pytest.mark.parametrize("name", ["chat", "step", "stream"])
@pytest.mark.django_db
def test_a_sync_twin_refuses_an_open_transaction(name: str) -> None:
    with pytest.raises(LoopContextError, match="transaction"):
        list(getattr(allm, name)(engine([say("x")]), asking()))


# -- modes (L03, L04) -----------------------------------------------------------------------------------------------


@pytest.mark.row("L03", "L05")
def test_the_whole_loop_manual_returns_every_call_and_ignores_the_tools_flag(loop: Loop) -> None:
    given = engine([[call("refund", {"order": 7}), call("double", {"n": 4})]], mode="manual")
    result = loop(given, asking())
    assert (result.halted_reason, tool_messages(result)) == ("manual_tool_calls", [])
    assert [made.name for made in result.metadata["manual_tool_calls"]] == ["refund", "double"]


@pytest.mark.row("L03")
def test_the_mode_of_the_call_wins_over_the_engines(loop: Loop) -> None:
    given = engine([call("double", {"n": 4}), say("8")], mode="manual")
    assert loop(given, asking(), mode="auto").text == "8"


@pytest.mark.row("L04")
def test_a_turn_with_a_manual_call_runs_its_other_calls_then_halts(loop: Loop) -> None:
    made = [call("refund", {"order": 1}), call("double", {"n": 4}), call("refund", {"order": 2}), call("nothing")]
    result = loop(engine([made]), asking())
    assert result.halted_reason == "manual_tool_calls"
    assert [waiting.arguments for waiting in result.metadata["manual_tool_calls"]] == [{"order": 1}, {"order": 2}]
    assert [content for content in tool_messages(result) if content == "8"] == ["8"]
    assert len(tool_messages(result)) == 2


@pytest.mark.row("L04", "L05")
@pytest.mark.parametrize("how", ["asks", "halts", "fails"])
def test_pending_calls_are_returned_in_order_whatever_else_happened(loop: Loop, how: str) -> None:
    def busy(arguments: dict[str, Any]) -> Any:
        if how == "fails":
            raise allm.ToolError("no")
        return allm.AskUser("Sure?") if how == "asks" else allm.Halt("out_of_stock", 3)

    tools = [refund, allm.ToolSpec("busy", "Busy.", ANY, busy)]
    made = [call("refund", {"order": 2}), call("busy"), call("refund", {"order": 1})]
    result = loop(engine([made], tools=tools, on_tool_error="halt"), asking())
    assert result.halted_reason == {"asks": "ask_user", "halts": "out_of_stock", "fails": "tool_error"}[how]
    assert [waiting.arguments for waiting in result.metadata["manual_tool_calls"]] == [{"order": 2}, {"order": 1}]


# -- turns (L06) ----------------------------------------------------------------------------------------------------


@pytest.mark.row("L06")
def test_max_turns_of_the_call_wins_over_the_engines_and_that_over_the_default(loop: Loop) -> None:
    endless = ScriptedModel([call("double", {"n": 1})], loop=True)
    for options, turns in (({}, 8), ({"max_turns": 3}, 3)):
        assert len(loop(engine([], model=endless), asking(), **options).steps) == turns
    given = engine([], model=endless, max_turns=2)
    assert len(loop(given, asking()).steps) == 2
    assert len(loop(given, asking(), max_turns=4).steps) == 4
    assert loop(given, asking()).halted_reason == "max_turns"


@pytest.mark.row("L06")
@pytest.mark.parametrize("turns", [0, -1, True, 1.5, "3"])
def test_a_max_turns_that_is_no_positive_number_is_refused(loop: Loop, turns: Any) -> None:
    given = engine([say("x")])
    with pytest.raises(InvalidInputError, match="max_turns"):
        loop(given, asking(), max_turns=turns)
    with pytest.raises(InvalidInputError, match="max_turns"):
        loop(engine([say("x")], max_turns=turns), asking())
    assert given.model.requests == []


@pytest.mark.row("L06")
def test_on_the_last_turn_pending_calls_are_not_lost(loop: Loop) -> None:
    made = [call("double", {"n": 4}), call("refund", {"order": 7})]
    result = loop(engine([made], max_turns=1), asking())
    assert result.halted_reason == "manual_tool_calls"
    assert [waiting.arguments for waiting in result.metadata["manual_tool_calls"]] == [{"order": 7}]
    assert tool_messages(result) == ["8"]


# -- halt_when (L07) ------------------------------------------------------------------------------------------------


def is_eight(step: Any) -> bool:
    return [message.content for message in step.results] == ["8"]


async def is_eight_async(step: Any) -> bool:
    return is_eight(step)


@pytest.mark.row("L07")
@pytest.mark.parametrize("predicate", [is_eight, is_eight_async, lambda step: is_eight_async(step)])
def test_halt_when_sees_each_step_and_stops_the_loop(loop: Loop, predicate: Any) -> None:
    given = engine([call("double", {"n": 1}), call("double", {"n": 4}), say("never")])
    result = loop(given, asking(), halt_when=predicate)
    assert (result.halted_reason, len(result.steps)) == ("halt_when", 2)


@pytest.mark.row("L05", "L07")
def test_halt_when_comes_before_max_turns(loop: Loop) -> None:
    result = loop(engine([call("double", {"n": 4})], max_turns=1, halt_when=is_eight), asking())
    assert result.halted_reason == "halt_when"


@pytest.mark.row("L07")
def test_an_exception_of_halt_when_halts_with_error_and_is_on_record(loop: Loop) -> None:
    def broken(step: Any) -> bool:
        raise ZeroDivisionError("in the predicate")

    result = loop(engine([call("double", {"n": 4}), say("never")], halt_when=broken), asking())
    assert result.halted_reason == "error"
    assert result.metadata["error"]["code"] == "halt_when"
    assert "in the predicate" in result.metadata["error"]["message"]
    assert tool_messages(result) == ["8"]


# -- tools on offer (T04, T23, L16) ---------------------------------------------------------------------------------


def other(name: str, value: Any) -> allm.ToolSpec:
    return allm.ToolSpec(name, f"Gives {value}.", ANY, lambda arguments: value)


@pytest.mark.row("T04")
@pytest.mark.parametrize("where", ["engine", "call"])
def test_two_tools_of_one_name_are_refused_before_the_model_is_called(loop: Loop, where: str) -> None:
    twice = [other("same", 1), other("same", 2)]
    given = engine([say("x")], tools=twice if where == "engine" else [])
    with pytest.raises(ToolDefinitionError, match="same"):
        loop(given, asking(), tools=twice if where == "call" else None)
    assert given.model.requests == []


@pytest.mark.row("L16")
def test_tools_of_the_call_replace_in_place_and_others_are_appended(loop: Loop) -> None:
    given = engine([[call("b"), call("d")], say("x")], tools=[other("a", 1), other("b", 2), other("c", 3)])
    result = loop(given, asking(), tools=[other("d", 40), other("b", 20)])
    assert [tool.name for tool in given.model.requests[0].tools] == ["a", "b", "c", "d"]
    assert tool_messages(result) == ["20", "40"]


@pytest.mark.row("T23")
@pytest.mark.parametrize("choice", ["auto", "none", "required", "double"])
def test_the_tool_choice_reaches_the_model(loop: Loop, choice: str) -> None:
    given = engine([say("x")], tool_choice=choice)
    loop(given, asking())
    loop(engine([say("x")], model=(second := ScriptedModel([say("x")]))), asking(), tool_choice=choice)
    assert (given.model.requests[0].tool_choice, second.requests[0].tool_choice) == (choice, choice)


@pytest.mark.row("T23")
@pytest.mark.parametrize("choice", ["nothing", "", None, ["double"]])
def test_a_tool_choice_that_is_not_on_offer_is_refused(loop: Loop, choice: Any) -> None:
    given = engine([say("x")])
    with pytest.raises(InvalidInputError, match="tool_choice"):
        loop(given, asking(), tool_choice=choice)
    assert given.model.requests == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"mode": "semi"}, "mode"),
        ({"temperature": 1}, "temperature"),
        ({"on_tool_error": "shrug"}, "on_tool_error"),
        ({"halt_when": "done"}, "halt_when"),
        ({"encoder": 3}, "encoder"),
        ({"executor": 3}, "executor"),
        ({"max_parallel": 0}, "max_parallel"),
        ({"params": [1]}, "params"),
        ({"tools": ["unheard_of"]}, "tools"),
    ],
)
def test_a_wrong_option_is_refused_by_name_before_the_model_is_called(
    loop: Loop, options: dict[str, Any], field: str
) -> None:
    given = engine([say("x")])
    with pytest.raises(InvalidInputError) as caught:
        loop(given, asking(), **options)
    assert caught.value.field == field
    assert given.model.requests == []


def test_what_is_no_engine_is_refused(loop: Loop) -> None:
    with pytest.raises(AllmError, match="EngineSpec"):
        loop("desk", asking())  # type: ignore[arg-type]


def test_the_model_gets_system_text_and_parameters_the_calls_own_first(loop: Loop) -> None:
    given = engine([say("x")], system="Be brief.", params={"temperature": 1, "seed": 4})
    loop(given, asking(), params={"temperature": 0})
    request = given.model.requests[0]
    assert (request.system, request.params) == ("Be brief.", {"temperature": 0, "seed": 4})


# -- context (T09, T10) ---------------------------------------------------------------------------------------------

UNSET = object()


@pytest.mark.row("T10")
@pytest.mark.parametrize("own", [UNSET, None, 0, "", False, [], {}, {"tenant": 7}])
def test_the_context_of_the_call_wins_unchanged_falsy_or_not(loop: Loop, own: Any) -> None:
    seen: list[Any] = []
    tools = [allm.ToolSpec("look", "Looks.", ANY, lambda arguments, ctx: seen.append(ctx.context))]
    given = engine([call("look"), say("x")], tools=tools, context={"tenant": 1})
    loop(given, asking(), **({} if own is UNSET else {"context": own}))
    assert seen == [{"tenant": 1} if own is UNSET else own]
    assert own is UNSET or seen[0] is own


@pytest.mark.row("T09")
def test_a_handler_is_told_its_circumstances(loop: Loop) -> None:
    seen: list[allm.ToolContext] = []
    tools = [allm.ToolSpec("look", "Looks.", ANY, lambda arguments, ctx: seen.append(ctx))]
    given = engine([call("look", {"a": 1}), say("x")], tools=tools, name="desk")
    loop(given, asking(), request_id="r-1")
    ctx = seen[0]
    assert (ctx.session_id, ctx.user, ctx.engine, ctx.request_id) == (None, None, "desk", "r-1")
    assert (ctx.tool_call.name, ctx.tool_call.arguments) == ("look", {"a": 1})
    assert ctx.tool_call.id in ctx.idempotency_key
