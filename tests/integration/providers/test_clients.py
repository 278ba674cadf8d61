"""Connections: one client per event loop, closed with it, and ended when nobody reads on."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import pytest

from allm_django.providers.base import Model, TextDelta
from tests.integration.providers.reading import model_at, read, request
from tests.integration.providers.server import HANG, Reply, Server, chat, chat_text, claude, gemini, sse

BEGUN = {
    "openai": sse(chat({"content": "Hel"})),
    "openai-responses": sse(
        {"type": "response.created", "response": {"id": "r", "object": "response", "output": [], "model": "gpt-4o"}},
        {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": "Hel"},
    ),
    "compatible": sse(chat({"content": "Hel"})),
    "anthropic": claude(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Hel"}]))[:3],
    "google": sse(gemini({"text": "Hel"})),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kind", BEGUN)
async def test_leaving_the_stream_ends_the_request_at_the_server(server: Server, kind: str) -> None:
    server.answer([*BEGUN[kind], HANG])
    async with aclosing(model_at(server, kind).stream(request())) as stream:
        assert await anext(stream) == TextDelta("Hel")
    assert await asyncio.to_thread(server.left.get, timeout=10)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kind", BEGUN)
async def test_cancelling_the_task_ends_the_request_at_the_server(server: Server, kind: str) -> None:
    server.answer([*BEGUN[kind], HANG])
    begun = asyncio.Event()

    async def reading() -> None:
        async with aclosing(model_at(server, kind).stream(request())) as stream:
            async for _delta in stream:
                begun.set()

    task = asyncio.create_task(reading())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.left.get, timeout=10)


@pytest.mark.asyncio(loop_scope="module")
async def test_cancelling_before_the_first_delta_ends_the_request_too(server: Server) -> None:
    server.answer([HANG])
    task = asyncio.create_task(read(model_at(server, "openai")))
    await asyncio.to_thread(server.arrived.get, timeout=10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.left.get, timeout=10)


@pytest.mark.asyncio(loop_scope="module")
async def test_one_loop_keeps_its_connection(server: Server) -> None:
    server.answer(chat_text("Hi"))
    for _ in range(3):
        await read(model_at(server, "openai"))
    assert len(server.seen) == 3
    assert server.connections <= 1  # or none: that of another test is still open


@pytest.mark.asyncio(loop_scope="module")
async def test_many_streams_at_once_in_one_loop(server: Server) -> None:
    server.answer(chat_text("Hi"))
    model = model_at(server, "openai")
    ends = await asyncio.gather(*(read(model) for _ in range(20)))
    assert {end.text for end in ends} == {"Hi"}


@pytest.mark.asyncio(loop_scope="module")
async def test_keys_of_one_provider_are_kept_apart(server: Server) -> None:
    server.answer(Reply(chat_text("Hi"), headers={"content-type": "text/event-stream", "set-cookie": "who=a; Path=/"}))
    for key in ("k-a", "k-b"):
        await read(model_at(server, "openai", keys={"openai": key}))
    assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer k-a", "Bearer k-b"]
    assert "cookie" not in server.seen[1].headers


def run_loops(model: Model, times: int) -> list[str]:
    return [asyncio.run(read(model)).text for _ in range(times)]


@pytest.mark.parametrize("kind", ["openai", "google"])
def test_one_model_serves_several_loops_one_after_the_other(server: Server, kind: str) -> None:
    server.answer(chat_text("Hi") if kind == "openai" else sse(gemini({"text": "Hi"}, finish="STOP")))
    assert run_loops(model_at(server, kind), 3) == ["Hi"] * 3


def test_one_model_serves_several_loops_at_once(server: Server) -> None:
    server.answer(chat_text("Hi"))
    model = model_at(server, "openai")
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.extend(run_loops(model, 3))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["Hi"] * 12


def test_a_loop_may_end_in_mid_stream(server: Server) -> None:
    server.answer([*BEGUN["openai"], HANG])
    left: list[Any] = []

    async def walk_away() -> None:
        stream = model_at(server, "openai").stream(request())
        left.append(stream)
        assert await anext(stream) == TextDelta("Hel")

    asyncio.run(walk_away())
    assert server.left.get(timeout=10)
