"""Resuming a stateless loop from its messages, and what is refused before the model hears of it (L08, S06, T13)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import allm_django as allm
from allm_django.core.history import check_history, in_request_order, message_from_json, message_to_json
from allm_django.core.types import Message, ToolCall, Usage
from allm_django.errors import HistoryError, InvalidInputError
from allm_django.providers.scripted import ScriptedModel, call, cut, say
from tests.unit.loop.twins import ANY, Loop, asking


def spec(name: str, handler: Any = None, **values: Any) -> allm.ToolSpec:
    return allm.ToolSpec(name, f"The tool {name}.", ANY, handler, **values)


TOOLS = [
    spec("refund", manual=True),
    spec("look", lambda arguments: f"saw {arguments.get('q')}"),
    spec("ask", lambda arguments: allm.AskUser("Which one?", ["red", "blue"])),
]


def engine(*entries: Any) -> allm.EngineSpec:
    return allm.EngineSpec(ScriptedModel(entries), TOOLS)


def pending(result: allm.ChatResult) -> list[str]:
    return [made.id for made in result.metadata["manual_tool_calls"]]


def sent(spec: allm.EngineSpec) -> list[tuple[str, str]]:
    """Role and content of the last request's messages."""
    return [(message.role, message.content) for message in spec.model.requests[-1].messages]


@pytest.mark.row("L08")
def test_a_halted_loop_goes_on_with_one_result_per_pending_call(loop: Loop) -> None:
    desk = engine([call("refund", {"o": 1}), call("look", {"q": "x"}), call("refund", {"o": 2})], say("Done."))
    halted = loop(desk, asking())
    first, second = pending(halted)
    result = loop(
        desk, [*halted.messages, allm.tool_result(second, "two"), allm.tool_result(first, {"refunded": True})]
    )
    assert (result.text, result.halted_reason) == ("Done.", "completed")
    assert sent(desk)[2:] == [("tool", '{"refunded":true}'), ("tool", "saw x"), ("tool", "two")]


@pytest.mark.row("L08", "T13")
def test_a_question_is_answered_by_a_result_for_its_call(loop: Loop) -> None:
    desk = engine(call("ask"), say("Blue it is."))
    halted = loop(desk, asking())
    assert (halted.halted_reason, halted.pending_question) == ("ask_user", "Which one?")
    assert halted.metadata["questions"][0]["options"] == ["red", "blue"]
    assert halted.pending_tool_call_id is not None
    result = loop(desk, [*halted.messages, allm.tool_result(halted.pending_tool_call_id, "blue")])
    assert (result.text, sent(desk)[-1]) == ("Blue it is.", ("tool", "blue"))


@pytest.mark.row("L08")
def test_a_conversation_survives_json_and_goes_on_from_plain_objects(loop: Loop) -> None:
    desk = engine([say("Hm."), call("refund", {"o": 1}), call("look")], say("Done."))
    halted = loop(desk, [{"role": "user", "content": "Go."}])
    stored = json.loads(json.dumps([message_to_json(message) for message in halted.messages]))
    assert tuple(map(message_from_json, stored)) == halted.messages
    answer = {"role": "tool", "tool_call_id": pending(halted)[0], "content": "yes"}
    assert loop(desk, [*stored, answer]).text == "Done."


def refused(loop: Loop, messages: Any) -> HistoryError:
    desk = engine(say("never"))
    with pytest.raises(HistoryError) as caught:
        loop(desk, messages)
    assert desk.model.requests == []
    return caught.value


ASKED = Message("assistant", calls=(ToolCall("c1", "refund", {}), ToolCall("c2", "refund", {})))


@pytest.mark.row("L08")
@pytest.mark.parametrize(
    ("results", "named"),
    [
        ([], "c1"),
        ([("c2", "x")], "c1"),
        ([("c1", "x")], "c2"),
        ([("c1", "x"), ("c2", "x"), ("c1", "y")], "c1"),
        ([("c1", "x"), ("c2", "x"), ("c9", "y")], "c9"),
    ],
)
def test_a_missing_doubled_or_foreign_id_is_refused_by_name_before_the_model_is_called(
    loop: Loop, results: list[tuple[str, str]], named: str
) -> None:
    messages = [allm.user("Go."), ASKED, *(allm.tool_result(*result) for result in results)]
    assert repr(named) in refused(loop, messages).message


@pytest.mark.parametrize("between", [allm.user("And?"), allm.assistant("Hm.")])
def test_results_come_before_the_next_message(loop: Loop, between: Message) -> None:
    late = [allm.tool_result("c1", "x"), allm.tool_result("c2", "y")]
    assert "'c1'" in refused(loop, [allm.user("Go."), ASKED, between, *late]).message


def test_two_calls_of_one_id_are_refused(loop: Loop) -> None:
    turn = [replace(ASKED, calls=ASKED.calls[:1]), allm.tool_result("c1", "x")]
    assert "'c1'" in refused(loop, [allm.user("Go."), *turn, *turn]).message


@pytest.mark.parametrize("messages", [[], [allm.system("Be brief.")], [allm.assistant("Hello.")]])
def test_a_conversation_without_a_user_message_is_refused(loop: Loop, messages: list[Message]) -> None:
    assert "user" in refused(loop, messages).message


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "robot", "content": ""}, "messages.1.role"),
        ({"content": "x"}, "messages.1.role"),
        ("hello", "messages.1"),
        (None, "messages.1"),
        ({"role": "user", "content": None}, "messages.1.content"),
        ({"role": "user", "content": 3}, "messages.1.content"),
        ({"role": "assistant", "calls": {"id": "c"}}, "messages.1.calls"),
        ({"role": "assistant", "calls": ["c1"]}, "messages.1.calls.0"),
        ({"role": "assistant", "calls": [{"name": "look"}]}, "messages.1.calls.0.id"),
        ({"role": "assistant", "calls": [{"id": "c", "name": 3}]}, "messages.1.calls.0.name"),
        ({"role": "assistant", "calls": [{"id": "c", "name": "x", "arguments": "{}"}]}, "messages.1.calls.0.arguments"),
        ({"role": "tool", "tool_call_id": 7, "content": "x"}, "messages.1.tool_call_id"),
        ({"role": "assistant", "content": "x", "usage": 3}, "messages.1.usage"),
        ({"role": "assistant", "content": "x", "dump": "x"}, "messages.1.dump"),
    ],
)
def test_a_message_that_is_none_is_refused_by_its_place(loop: Loop, message: Any, field: str) -> None:
    assert refused(loop, [allm.user("Go."), message]).field == field


@pytest.mark.parametrize("messages", ["Go.", allm.user("Go."), {"role": "user", "content": "Go."}])
def test_one_message_instead_of_a_list_is_refused(loop: Loop, messages: Any) -> None:
    desk = engine(say("never"))
    with pytest.raises(InvalidInputError, match="list"):
        loop(desk, messages)
    assert desk.model.requests == []


@pytest.mark.parametrize("call_id", ["", None, 7])
def test_a_result_needs_the_id_of_its_call(call_id: Any) -> None:
    with pytest.raises(HistoryError, match="id"):
        allm.tool_result(call_id, "x")


@pytest.mark.row("L14")
def test_a_broken_answer_stays_in_the_conversation_and_out_of_later_requests(loop: Loop) -> None:
    desk = engine(cut("Half an ans"), say("A whole one."))
    broken = loop(desk, asking())
    assert (broken.messages[-1].content, broken.messages[-1].complete) == ("Half an ans", False)
    result = loop(desk, broken.messages)
    assert (result.text, sent(desk)) == ("A whole one.", [("user", "Go.")])


@pytest.mark.row("S06")
def test_provider_ids_that_repeat_or_are_empty_become_ids_of_our_own(loop: Loop) -> None:
    odd = [call("look", {"q": "a"}, id=""), call("look", {"q": "b"}, id="same"), call("look", {"q": "c"}, id="same")]
    desk = engine(odd, call("look", {"q": "d"}, id="same"), say("Done."))
    result = loop(desk, asking())
    ids = [made.id for message in result.messages for made in message.calls]
    assert (len(ids), len(set(ids)), ids[1]) == (4, 4, "same")
    assert all(ids)
    check_history(result.messages)
    assert [content for role, content in sent(desk) if role == "tool"] == ["saw a", "saw b", "saw c", "saw d"]


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
OBJECTS = st.dictionaries(
    TEXTS, st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, st.lists, max_leaves=5)
)
COUNTS = st.none() | st.integers(0, 10**9)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    TEXTS,
    st.lists(st.builds(ToolCall, TEXTS, TEXTS, st.none() | OBJECTS, TEXTS), max_size=3).map(tuple),
    st.none() | TEXTS.filter(bool),
    st.booleans(),
    st.none() | OBJECTS.filter(bool),
    st.booleans(),
    st.none() | st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, st.none() | st.floats(0, 100)),
    TEXTS,
)


@given(MESSAGES)
@settings(max_examples=200, deadline=None)
def test_every_message_survives_a_json_round_trip(message: Message) -> None:
    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message


@st.composite
def threads(draw: st.DrawFn) -> list[Message]:
    """A valid conversation: each call has its result before the next message, in any order."""
    thread = [allm.user("Go.")]
    for turn in range(draw(st.integers(0, 4))):
        ids = [f"c{turn}.{number}" for number in range(draw(st.integers(0, 3)))]
        calls = tuple(ToolCall(id_, "look", {}) for id_ in ids)
        complete = draw(st.booleans())
        thread.append(Message("assistant", draw(TEXTS), calls if complete else (), complete=complete))
        thread += [allm.tool_result(id_, id_) for id_ in draw(st.permutations(ids)) if complete]
        thread += [allm.user("And?")] * draw(st.integers(0, 1))
    return thread


@pytest.mark.row("S06", "T18")
@given(threads())
@settings(max_examples=200, deadline=None)
def test_a_request_is_valid_and_holds_each_result_in_its_calls_order(thread: list[Message]) -> None:
    check_history(thread)
    request = list(in_request_order(thread))
    assert all(message.complete for message in request)
    while request:
        message, request = request[0], request[1:]
        results, request = request[: len(message.calls)], request[len(message.calls) :]
        assert [result.tool_call_id for result in results] == [made.id for made in message.calls]
        assert message.role != "tool"


@pytest.mark.row("L08", "S06")
@given(threads(), st.data())
@settings(max_examples=200, deadline=None)
def test_a_thread_that_lost_or_doubled_a_result_is_refused(thread: list[Message], data: st.DataObject) -> None:
    places = [place for place, message in enumerate(thread) if message.role == "tool"]
    if places:
        place = data.draw(st.sampled_from(places))
        changed = thread[:place] + [thread[place]] * data.draw(st.sampled_from([0, 2])) + thread[place + 1 :]
        with pytest.raises(HistoryError, match=str(thread[place].tool_call_id)):
            check_history(changed)
