"""OpenAI's Responses API."""

from __future__ import annotations

from typing import Any

import pytest

from allm_django.core.types import Message
from allm_django.errors import StreamBrokenError
from allm_django.providers.base import RawCall
from tests.integration.providers.reading import LOOK, model_at, read, request, result, said
from tests.integration.providers.server import Server, sse

pytestmark = pytest.mark.asyncio(loop_scope="module")


def response(status: str, output: list[Any], **more: Any) -> dict[str, Any]:
    base = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-4o", "status": status}
    return {**base, "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], **more}


def answer(*, complete: bool = True) -> list[bytes]:
    text = {"type": "output_text", "text": "", "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    call = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "look", "arguments": "", "status": "x"}
    whole = {**call, "arguments": '{"q": "x"}', "status": "completed"}
    done_message = {**message, "status": "completed", "content": [{**text, "text": "Hello"}]}
    usage = {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 8,
    }
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {"type": "response.content_part.added", **at, "part": text},
        {"type": "response.output_text.delta", **at, "delta": "Hel"},
        {"type": "response.output_text.delta", **at, "delta": "lo"},
        {"type": "response.output_item.done", "output_index": 0, "item": done_message},
        {"type": "response.output_item.added", "output_index": 1, "item": call},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": '{"q": '},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": '"x"}'},
        {"type": "response.output_item.done", "output_index": 1, "item": whole},
    ]
    end = {"type": "response.completed", "response": response("completed", [done_message, whole], usage=usage)}
    events += [end] if complete else []
    return sse(*({**event, "sequence_number": number} for number, event in enumerate(events)))


async def test_text_calls_and_usage(server: Server) -> None:
    server.answer(answer())
    end = await read(model_at(server, "openai-responses"))
    assert (end.text, end.calls) == ("Hello", (RawCall("c1", "look", '{"q": "x"}'),))
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.reasoning_tokens) == (5, 3, 1)
    assert server.seen[0].path == "/v1/responses"
    assert server.seen[0].json["tools"][0]["parameters"] == LOOK.schema


async def test_an_answer_that_is_not_completed_is_broken_off(server: Server) -> None:
    server.answer(answer(complete=False))
    with pytest.raises(StreamBrokenError):
        await read(model_at(server, "openai-responses"))


async def test_its_own_answer_is_replayed_under_our_call_ids(server: Server) -> None:
    server.answer(answer())
    model = model_at(server, "openai-responses")
    end = await read(model)
    await read(model, request(Message("user", "hi"), said(end, "x1"), result("x1", "found")))
    sent = server.seen[1].json["input"]
    assert [item["call_id"] for item in sent if "call_id" in item] == ["x1", "x1"]
