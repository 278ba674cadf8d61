"""Anthropic's messages."""

from __future__ import annotations

from typing import Any

import pytest

from allm_django.core.types import Message, ToolCall, Usage
from allm_django.errors import InvalidInputError, StreamBrokenError
from allm_django.providers.base import RawCall
from tests.integration.providers.reading import LOOK, model_at, read, request, result, said
from tests.integration.providers.server import Server, chat_text, claude

pytestmark = pytest.mark.asyncio(loop_scope="module")

Block = tuple[dict[str, Any], list[dict[str, Any]]]


def text(*pieces: str) -> Block:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]


def tool_use(id: str, name: str, *pieces: str) -> Block:
    start = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def thinking(*pieces: str, signature: str) -> Block:
    deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    return {"type": "thinking", "thinking": "", "signature": ""}, [
        *deltas,
        {"type": "signature_delta", "signature": signature},
    ]


def redacted(data: str) -> Block:
    return {"type": "redacted_thinking", "data": data}, []


@pytest.mark.row("L09")
async def test_text_usage_and_finish_reason(server: Server) -> None:
    server.answer(claude(text("Hel", "lo")))
    end = await read(model_at(server, "anthropic"))
    assert (end.text, end.finish_reason) == ("Hello", "end_turn")
    assert (end.usage.input_tokens, end.usage.output_tokens) == (10, 7)


async def test_parallel_calls_split_at_odd_places(server: Server) -> None:
    server.answer(
        claude(
            text("Look: "),
            tool_use("t1", "look", '{"q', '": "x\\', 'u00e9"}'),
            tool_use("t2", "look", "", '{"q": "y"}'),
            tool_use("t3", "save"),
            stop="tool_use",
        )
    )
    end = await read(model_at(server, "anthropic"))
    assert end.calls == (
        RawCall("t1", "look", '{"q": "x\\u00e9"}'),
        RawCall("t2", "look", '{"q": "y"}'),
        RawCall("t3", "save", ""),
    )
    assert end.finish_reason == "tool_use"


@pytest.mark.parametrize("arguments", ['{"q": ', "not JSON", "[1]"])
async def test_arguments_are_kept_as_the_model_wrote_them(server: Server, arguments: str) -> None:
    server.answer(claude(tool_use("t1", "look", *arguments), stop="max_tokens"))
    end = await read(model_at(server, "anthropic"))
    assert (end.calls, end.finish_reason) == ((RawCall("t1", "look", arguments),), "max_tokens")


@pytest.mark.row("L14")
async def test_an_answer_without_stop_reason_is_broken_off(server: Server) -> None:
    server.answer(claude(text("Hel"), tool_use("t1", "save", "{}"), stop=None))
    with pytest.raises(StreamBrokenError, match="finish reason"):
        await read(model_at(server, "anthropic"))


async def test_thinking_is_replayed_whole_with_its_signatures_and_our_call_ids(server: Server) -> None:
    server.answer(
        claude(
            thinking("Hm, ", "look.", signature="signed=="),
            redacted("encrypted=="),
            text("Wait."),
            tool_use("t1", "look", '{"q": "x"}'),
            tool_use("t1", "save"),
            stop="tool_use",
        )
    )
    model = model_at(server, "anthropic")
    end = await read(model)
    assert end.thinking == "Hm, look."
    history = [Message("user", "hi"), said(end, "x1", "x2"), result("x1", "found"), result("x2", "No.", is_error=True)]
    await read(model, request(*history))
    user, assistant, results = server.seen[1].json["messages"]
    assert user["content"] in ("hi", [{"type": "text", "text": "hi"}])
    assert assistant["content"] == [
        {"type": "thinking", "thinking": "Hm, look.", "signature": "signed=="},
        {"type": "redacted_thinking", "data": "encrypted=="},
        {"type": "text", "text": "Wait."},
        {"type": "tool_use", "id": "x1", "name": "look", "input": {"q": "x"}},
        {"type": "tool_use", "id": "x2", "name": "save", "input": {}},
    ]
    first, second = results["content"]
    assert (first["tool_use_id"], first["is_error"], second["tool_use_id"], second["is_error"]) == (
        ("x1", False, "x2", True)
    )
    assert "No." in str(second["content"])


async def test_thinking_does_not_follow_to_another_provider(server: Server) -> None:
    server.answer(claude(thinking("private", signature="s=="), text("Hi")), chat_text("Ho"))
    end = await read(model_at(server, "anthropic"))
    await read(model_at(server, "openai"), request(Message("user", "hi"), said(end), Message("user", "go")))
    assert server.seen[1].json["messages"][1] == {"role": "assistant", "content": "Hi"}


async def test_the_request_says_all_and_leaves_schemas_alone(server: Server) -> None:
    server.answer(claude(text("Hi")))
    asked = request(
        Message("user", "hi"),
        Message("assistant", "", (ToolCall("1", "look", None, '{"q": '),)),
        result("1", "Mend it.", is_error=True),
        system="Rules.",
        params={"temperature": 0.5, "max_tokens": 99, "stop": ["END"]},
    )
    await read(model_at(server, "anthropic"), asked)
    sent = server.seen[0].json
    assert sent["tools"][0]["input_schema"] == LOOK.schema
    assert not sent["tools"][0].get("strict")
    assert (sent["temperature"], sent["max_tokens"], sent["stop_sequences"]) == (0.5, 99, ["END"])
    assert "Rules." in str(sent["system"])
    assert '{"q": ' in str(sent["messages"][1]["content"][0]["input"])


@pytest.mark.row("T23")
@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("save", {"type": "tool", "name": "save"}),
    ],
)
async def test_the_tool_choice_is_passed_on(server: Server, choice: str, sent: dict[str, Any]) -> None:
    server.answer(claude(text("Hi")))
    await read(model_at(server, "anthropic"), request(tool_choice=choice))
    got = server.seen[0].json["tool_choice"]
    assert {key: got.get(key) for key in sent} == sent


async def test_forcing_a_tool_while_thinking_is_refused_with_the_reason(server: Server) -> None:
    with pytest.raises(InvalidInputError, match="anthropic cannot do this") as caught:
        await read(
            model_at(server, "anthropic"), request(tool_choice="save", params={"thinking": True, "max_tokens": 9000})
        )
    assert caught.value.field == "tool_choice"
    assert server.seen == []


async def test_a_parameter_it_does_not_know_is_refused(server: Server) -> None:
    with pytest.raises(InvalidInputError, match="anthropic does not know this parameter") as caught:
        await read(model_at(server, "anthropic"), request(params={"seed": 1}))
    assert caught.value.field == "params.seed"


@pytest.mark.row("L17")
async def test_the_key_is_sent_in_its_header_and_nowhere_else(server: Server) -> None:
    server.answer(claude(text("Hi")))
    end = await read(model_at(server, "anthropic", keys={"anthropic": "k-123456"}))
    seen = server.seen[0]
    assert [name for name, value in seen.headers.items() if "k-123456" in value] == ["authorization"]
    assert "k-123456" not in seen.path + str(seen.json) + str(end.dump)
    assert end.usage != Usage()
