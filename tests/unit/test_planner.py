"""The demo's planner: what it understands, and that it tells the truth about what it was given."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from allm_django.core.types import Message, ModelRequest, ToolCall, ToolSpec
from allm_django.errors import ConfigurationError
from allm_django.providers.base import CallDelta, Finished, Model, TextDelta
from project.support.planner import Planner, planner

NAMES = ["find_orders", "order_status", "refund_order", "send_email", "ask_delivery_day", "set_delivery_day",
         "hand_over", "weekly_report", "close_case"]  # fmt: skip
TOOLS = tuple(ToolSpec(name, name, {"type": "object"}) for name in NAMES)


def ask(*messages: Message, tools: tuple[ToolSpec, ...] = TOOLS) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """What the planner says, and the calls it makes."""

    async def collect() -> list[Any]:
        return [delta async for delta in Planner(delay=0).stream(ModelRequest(messages, tools))]

    *deltas, last = asyncio.run(collect())
    assert isinstance(last, Finished)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == last.text
    streamed = [(d.name, d.arguments) for d in deltas if isinstance(d, CallDelta)]
    assert streamed == [(call.name, call.arguments) for call in last.calls]
    return last.text, [(name, json.loads(arguments)) for name, arguments in streamed]


def said(text: str, *before: Message, tools: tuple[ToolSpec, ...] = TOOLS) -> Any:
    return ask(*before, Message("user", text), tools=tools)


def after(text: str, name: str, arguments: dict[str, Any], content: str, is_error: bool = False) -> str:
    """What the planner says once its call came back with ``content``."""
    call = ToolCall("c1", name, arguments)
    answer, calls = ask(
        Message("user", text),
        Message("assistant", calls=(call,)),
        Message("tool", content, tool_call_id="c1", is_error=is_error),
    )
    assert calls == []
    return answer


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Where is order 1042?", [("order_status", {"order_id": 1042})]),
        ("Show the orders of Anna Weber", [("find_orders", {"customer": "Anna Weber"})]),
        ("Which orders are packed?", [("find_orders", {"customer": "", "status": "packed"})]),
        ("When should order 1051 be delivered?", [("ask_delivery_day", {"order_id": 1051})]),
        ("Deliver order 1051 on 2030-01-31", [("set_delivery_day", {"order_id": 1051, "day": "2030-01-31"})]),
        (
            "Close the case of order 1042 with 24.50 euros, a cup was broken",
            [("close_case", {"order_id": 1042, "amount": 24.5, "reason": "A cup was broken."})],
        ),
        ("Make the weekly report", [("weekly_report", {})]),
        ("Hand this over to a colleague", [("hand_over", {"note": "Hand this over to a colleague."})]),
        (
            "Refund 49 euros on order 1042, the cup was broken",
            [("refund_order", {"order_id": 1042, "amount": 49, "reason": "The cup was broken."})],
        ),
        (
            "refund €10,5 for order #1042 because it came late",
            [("refund_order", {"order_id": 1042, "amount": 10.5, "reason": "It came late."})],
        ),
    ],
)
def test_a_sentence_becomes_the_call_it_asks_for(text: str, calls: list[Any]) -> None:
    assert said(text) == ("", calls)


def test_two_wishes_in_one_sentence_become_two_calls_of_one_turn() -> None:
    _, calls = said("E-mail the customer of order 1042 that the parcel is late AND refund 10 euros")
    assert [name for name, _ in calls] == ["send_email", "refund_order"]
    assert "The parcel is late." in calls[0][1]["body"]
    assert calls[1][1]["amount"] == 10
    assert calls[1][1]["order_id"] == 1042


def test_an_order_named_earlier_is_understood() -> None:
    earlier = [Message("user", "Where is order 1042?"), Message("assistant", "Delivered.")]
    assert said("Refund 5 euros, it was late", *earlier)[1][0][1]["order_id"] == 1042


@pytest.mark.parametrize(
    "text", ["Refund order 1042", "Refund €1,000.50 on order 1042", "Refund 49 euros", "Where is it?"]
)
def test_what_is_missing_is_asked_for_and_nothing_is_called(text: str) -> None:
    answer, calls = said(text)
    assert calls == []
    assert "for example" in answer


def test_other_sentences_get_an_honest_answer() -> None:
    answer, calls = said("What is the meaning of life?")
    assert calls == []
    assert "not a language model" in answer


def test_a_tool_that_is_not_offered_is_named_and_not_called() -> None:
    answer, calls = said("Make the weekly report", tools=TOOLS[:2])
    assert calls == []
    assert "weekly_report" in answer


def test_a_rejection_is_reported_with_its_reason() -> None:
    answer = after("Refund 49 euros on order 1042", "refund_order", {}, "A person rejected this call; Reason: no", True)
    assert answer.startswith("The refund was not done")
    assert "Reason: no" in answer


def test_an_edit_is_reported_as_one() -> None:
    result = json.dumps({"refund": 1, "order_id": 1042, "amount": "40.00", "left": "98.00"})
    note = {"note": "…", "asked": {"amount": 49}, "ran_with": {"amount": 40}, "result": result}
    answer = after("Refund 49 euros on order 1042", "refund_order", {}, json.dumps(note))
    assert "amount from 49 to 40" in answer
    assert "€40.00 went back" in answer


@pytest.mark.parametrize("content", ["done by phone", "[]", "17", '{"other": 1}', ""])
def test_a_result_given_by_hand_is_quoted_not_invented(content: str) -> None:
    assert "the result I was given is" in after("Refund 9 euros on order 1042", "refund_order", {}, content)


def test_the_chosen_day_is_set() -> None:
    call = ToolCall("c1", "ask_delivery_day", {"order_id": 1051})
    turn = [Message("user", "When should order 1051 be delivered?"), Message("assistant", calls=(call,))]
    _, calls = ask(*turn, Message("tool", "Friday, 2030-02-01", tool_call_id="c1"))
    assert calls == [("set_delivery_day", {"order_id": 1051, "day": "2030-02-01"})]
    answer, calls = ask(*turn, Message("tool", "whenever", tool_call_id="c1"))
    assert calls == []
    assert "Nothing was changed" in answer


def test_ids_of_calls_do_not_repeat_in_a_conversation() -> None:
    async def ids(*messages: Message) -> list[str]:
        deltas = [d async for d in Planner(delay=0).stream(ModelRequest(messages, TOOLS))]
        return [call.id for call in deltas[-1].calls]  # type: ignore[union-attr]

    first = asyncio.run(ids(Message("user", "Where is order 1042?")))
    longer = (Message("user", "Hello"), Message("assistant", "Hello."), Message("user", "Where is order 1042?"))
    assert len({*first, *asyncio.run(ids(*longer))}) == 2


def test_only_the_support_planner_exists() -> None:
    assert isinstance(planner("support"), Model)
    with pytest.raises(ConfigurationError, match="planner:sales"):
        planner("sales")
