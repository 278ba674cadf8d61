"""Compact tools: what the model sees of them, how it asks for more, and what a wrong call is told (T22)."""

from __future__ import annotations

import json
from typing import Any

import pytest

import allm_django as allm
from allm_django.core.history import check_history
from allm_django.providers.scripted import ScriptedModel, call, raw_call, say
from tests.unit.loop.twins import ANY, Loop, asking, tool_messages

pytestmark = pytest.mark.row("T22")

REFUND = {
    "type": "object",
    "properties": {"order": {"type": "integer"}, "amount": {"type": "string", "description": "In euros."}},
    "required": ["order"],
    "additionalProperties": False,
}
DESCRIPTION = "Refund an order.  Gives\nback what was paid. Ask before."


def refund(**values: Any) -> allm.ToolSpec:
    defaults = {"description": DESCRIPTION, "schema": REFUND, "handler": lambda arguments: "ran", "compact": True}
    return allm.ToolSpec("refund", **{**defaults, **values})


def plain(name: str = "plain") -> allm.ToolSpec:
    return allm.ToolSpec(name, "A plain tool. In full.", ANY, lambda arguments: "ran")


def sent(loop: Loop, tools: list[allm.ToolSpec], **options: Any) -> tuple[allm.ToolSpec, ...]:
    """The tools of the only request."""
    model = ScriptedModel([say("x")])
    loop(allm.EngineSpec(model, tools), asking(), **options)
    return model.requests[0].tools


def test_the_model_sees_a_line_and_the_names_of_the_arguments(loop: Loop) -> None:
    first, second, _ = sent(loop, [refund(), plain()])
    assert (first.name, first.description) == ("refund", "Refund an order.")
    assert first.schema == {"type": "object", "properties": {"order": {}, "amount": {}}}
    assert (second.description, second.schema) == ("A plain tool. In full.", ANY)


def test_a_summary_is_the_line(loop: Loop) -> None:
    assert sent(loop, [refund(summary="Money back.")])[0].description == "Money back."


def test_a_long_first_sentence_is_cut(loop: Loop) -> None:
    line = sent(loop, [refund(description="word " * 100)])[0].description
    assert (len(line), line[-1]) == (120, "…")


def test_requests_keep_the_tools_order_with_help_at_the_end(loop: Loop) -> None:
    tools = [plain("b"), refund(), plain("a")]
    requests = [sent(loop, tools), sent(loop, tools)]
    assert [spec.name for spec in requests[0]] == ["b", "refund", "a", "tool_help"]
    assert requests[0] == requests[1]


def test_without_a_compact_tool_there_is_no_help(loop: Loop) -> None:
    assert [spec.name for spec in sent(loop, [plain()])] == ["plain"]
    model = ScriptedModel([call("tool_help", {"names": ["plain"]}), say("x")])
    assert "unknown_tool" in tool_messages(loop(allm.EngineSpec(model, [plain()]), asking()))[0]


def test_a_forced_tool_is_sent_in_full(loop: Loop) -> None:
    other = allm.ToolSpec("other", DESCRIPTION, REFUND, compact=True)
    first, second, last = sent(loop, [refund(), other], tool_choice="refund")
    assert (first.description, first.schema) == (DESCRIPTION, REFUND)
    assert (second.schema["properties"], last.name) == ({"order": {}, "amount": {}}, "tool_help")


def test_help_gives_the_whole_definitions_and_the_loop_goes_on(loop: Loop) -> None:
    asked = call("tool_help", {"names": ["refund", "plain", "refund"]})
    model = ScriptedModel([asked, call("refund", {"order": 7}), say("Done.")])
    result = loop(allm.EngineSpec(model, [refund(), plain()]), asking())
    told, ran = tool_messages(result)
    assert json.loads(told) == {
        "tools": [
            {"name": "refund", "description": DESCRIPTION, "schema": REFUND},
            {"name": "plain", "description": "A plain tool. In full.", "schema": ANY},
        ]
    }
    assert (ran, result.text, result.halted_reason) == ("ran", "Done.", "completed")
    check_history(model.requests[-1].messages)


def test_help_about_a_tool_that_is_not_on_offer_says_what_is(loop: Loop) -> None:
    model = ScriptedModel([call("tool_help", {"names": ["refunds"]}), say("x")])
    told = json.loads(tool_messages(loop(allm.EngineSpec(model, [refund(), plain()]), asking()))[0])
    assert told == {"tools": [], "unknown": ["refunds"], "on_offer": ["plain", "refund"]}


@pytest.mark.parametrize("raw", ["{}", '{"names": []}', '{"names": "refund"}', "["])
def test_help_that_is_asked_for_wrongly_says_what_to_mend(loop: Loop, raw: str) -> None:
    model = ScriptedModel([raw_call("tool_help", raw), say("x")])
    assert "invalid_arguments" in tool_messages(loop(allm.EngineSpec(model, [refund()]), asking()))[0]


@pytest.mark.parametrize("raw", ["", "{}", '{"order": "seven"}', '{"order": 7'])
@pytest.mark.parametrize("manual", [False, True])
def test_a_compact_tool_called_wrongly_is_answered_with_its_whole_definition(
    loop: Loop, raw: str, manual: bool
) -> None:
    model = ScriptedModel([raw_call("refund", raw), say("x")])
    result = loop(allm.EngineSpec(model, [refund(manual=manual)]), asking())
    told = json.loads(tool_messages(result)[0])
    assert (told["error"], bool(told["message"])) == ("invalid_arguments", True)
    assert told["tool"] == {"name": "refund", "description": DESCRIPTION, "schema": REFUND}
    assert result.halted_reason == "completed"


def test_arguments_are_judged_by_the_whole_schema(loop: Loop) -> None:
    model = ScriptedModel([call("refund", {"order": 7, "note": "x"}), call("refund", {"order": 7}), say("x")])
    bad, good = tool_messages(loop(allm.EngineSpec(model, [refund()]), asking()))
    assert "note" in bad
    assert good == "ran"


def test_in_manual_mode_help_is_answered_and_the_tools_calls_are_returned(loop: Loop) -> None:
    made = [call("tool_help", {"names": ["refund"]}), call("refund", {"order": 7})]
    result = loop(allm.EngineSpec(ScriptedModel([made]), [refund()], mode="manual"), asking())
    assert [waiting.name for waiting in result.metadata["manual_tool_calls"]] == ["refund"]
    assert json.loads(tool_messages(result)[0])["tools"][0]["schema"] == REFUND
