"""Google's Gemini API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allm_django.core.types import Message
from allm_django.errors import InvalidInputError, StreamBrokenError
from tests.integration.providers.reading import model_at, read, request, result, said
from tests.integration.providers.server import Server, gemini, sse

pytestmark = pytest.mark.asyncio(loop_scope="module")


def function_call(name: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args}, **more}


@pytest.mark.row("L09")
async def test_text_usage_and_finish_reason(server: Server) -> None:
    server.answer(
        sse(
            gemini({"text": "hm", "thought": True}),
            gemini({"text": "Hel"}, promptTokenCount=5, totalTokenCount=5),
            gemini(
                {"text": "lo"},
                finish="STOP",
                promptTokenCount=5,
                candidatesTokenCount=3,
                thoughtsTokenCount=2,
                totalTokenCount=10,
            ),
        )
    )
    end = await read(model_at(server, "google"))
    assert (end.text, end.thinking, end.finish_reason) == ("Hello", "hm", "STOP")
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.reasoning_tokens) == (5, 5, 2)
    assert end.usage.cost is not None
    assert "streamGenerateContent" in server.seen[0].path


async def test_parallel_calls_come_as_json_with_ids_of_their_own(server: Server) -> None:
    server.answer(
        sse(
            gemini({"text": "Look: "}, function_call("look", {"q": "ü"})),
            gemini(function_call("look", {"q": "y", "n": 2}), function_call("save", {}), finish="STOP"),
        )
    )
    end = await read(model_at(server, "google"))
    assert [(c.name, json.loads(c.arguments or "{}")) for c in end.calls] == [
        ("look", {"q": "ü"}),
        ("look", {"q": "y", "n": 2}),
        ("save", {}),
    ]
    assert len({c.id for c in end.calls}) == 3
    assert "ü" in end.calls[0].arguments


async def test_signatures_are_replayed_under_our_call_ids(server: Server) -> None:
    server.answer(
        sse(gemini(function_call("look", {"q": "x"}, thoughtSignature="c2lnbmVk"), finish="STOP")),
        sse(gemini({"text": "Done"}, finish="STOP")),
    )
    model = model_at(server, "google")
    end = await read(model)
    await read(model, request(Message("user", "hi"), said(end, "x1"), result("x1", "No.", is_error=True)))
    contents = server.seen[1].json["contents"]
    (call,) = contents[1]["parts"]
    assert (call["functionCall"]["name"], call["functionCall"]["args"]) == ("look", {"q": "x"})
    assert call["thoughtSignature"].replace("-", "+").rstrip("=") == "c2lnbmVk"
    (answer,) = contents[2]["parts"]
    assert answer["functionResponse"]["name"] == "look"
    assert "No." in json.dumps(answer["functionResponse"]["response"])
    assert call["functionCall"].get("id") == answer["functionResponse"].get("id")


@pytest.mark.row("L14")
async def test_an_answer_without_finish_reason_is_broken_off(server: Server) -> None:
    server.answer(sse(gemini({"text": "Hel"})))
    with pytest.raises(StreamBrokenError):
        await read(model_at(server, "google"))


@pytest.mark.row("T23")
@pytest.mark.parametrize(("choice", "mode"), [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY"), ("save", "ANY")])
async def test_the_tool_choice_is_passed_on(server: Server, choice: str, mode: str) -> None:
    server.answer(sse(gemini({"text": "Hi"}, finish="STOP")))
    await read(model_at(server, "google"), request(tool_choice=choice, system="Rules.", params={"max_tokens": 9}))
    sent = server.seen[0].json
    config = sent["toolConfig"]["functionCallingConfig"]
    assert config["mode"] == mode
    assert config.get("allowedFunctionNames", []) == (["save"] if choice == "save" else [])
    assert sent["generationConfig"]["maxOutputTokens"] == 9
    assert "Rules." in json.dumps(sent["systemInstruction"])


async def test_a_parameter_it_does_not_know_is_refused(server: Server) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await read(model_at(server, "google"), request(params={"parallel_tool_calls": False}))
    assert caught.value.field == "params.parallel_tool_calls"


@pytest.mark.row("L17")
async def test_the_key_is_sent_in_its_header_and_not_in_the_address(server: Server) -> None:
    server.answer(sse(gemini({"text": "Hi"}, finish="STOP")))
    await read(model_at(server, "google", keys={"google": "k-123456"}))
    assert server.seen[0].headers["x-goog-api-key"] == "k-123456"
    assert "k-123456" not in server.seen[0].path
