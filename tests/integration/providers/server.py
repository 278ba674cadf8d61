"""A provider on loopback: answers what the test scripted, remembers what it was sent, sees clients leave."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

DROP = object()  # the connection is reset here
HANG = object()  # nothing more comes; the server waits for the client to leave


@dataclass
class Reply:
    """One HTTP answer; ``body`` holds bytes, DROP and HANG."""

    body: Sequence[Any]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})


@dataclass
class Seen:
    """One HTTP request."""

    path: str
    headers: dict[str, str]
    json: Any


def sse(*payloads: Any, done: bool = False) -> list[bytes]:
    """Server-sent events; each payload gets an ``event:`` line if it has a type (as Anthropic's do)."""
    events = []
    for payload in payloads:
        kind = f"event: {payload['type']}\n" if isinstance(payload, dict) and "type" in payload else ""
        events.append(f"{kind}data: {json.dumps(payload)}\n\n".encode())
    return [*events, b"data: [DONE]\n\n"] if done else events


def refusal(status: int, body: Any, **headers: str) -> Reply:
    """An error answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply([json.dumps(body).encode()], status, {"content-type": "application/json", **named})


class Server:
    """Answers the scripted replies in order, the last one again and again."""

    def __init__(self) -> None:
        self.forget()
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._tasks: set[asyncio.Task[Any]] = set()

    def forget(self) -> None:
        """Begin anew: the next test."""
        self.replies: list[Reply] = []
        self.seen: list[Seen] = []
        self.connections = 0
        self.arrived: queue.Queue[str] = queue.Queue()
        self.left: queue.Queue[str] = queue.Queue()  # paths whose client left before the end

    def answer(self, *replies: Reply | Sequence[Any]) -> None:
        """What the next requests get."""
        self.replies = [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = first.split(" ")[1]
        self.seen.append(Seen(path, headers, json.loads(body or b"null")))
        self.arrived.put(path)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        left = self.left  # this test's, even if the client leaves after it
        writer.write(_head(reply))
        whole = await self._send(reply, reader, writer)
        if HANG in reply.body:
            left.put(path)
        return whole

    async def _send(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        for piece in reply.body:
            if piece is DROP:
                await writer.drain()
                writer.transport.abort()
                return False
            if piece is HANG:
                with suppress(ConnectionError):
                    await reader.read()
                return False
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _head(reply: Reply) -> bytes:
    headers = {**reply.headers, "transfer-encoding": "chunked"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {reply.status} Scripted\r\n{lines}\r\n".encode()


@contextmanager
def running_server() -> Iterator[Server]:
    """A server for as long as the block."""
    server = Server()
    server.start()
    try:
        yield server
    finally:
        server.stop()


# --- what the three protocols look like -----------------------------------------------------------------


def chat(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of a chat completion."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    return {**base, "choices": choices, **more}


def chat_call(
    arguments: str = "", *, name: str | None = None, id: str | None = None, index: int | None = 0
) -> dict[str, Any]:
    """A chunk with a piece of a tool call."""
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    piece: dict[str, Any] = {"index": index, "function": function}
    if id is not None:
        piece |= {"id": id, "type": "function"}
    return chat({"tool_calls": [piece]})


def chat_text(*texts: str, **usage: Any) -> list[bytes]:
    """A whole answer of plain text."""
    last = [chat(usage=usage)] if usage else []
    return sse(chat({"role": "assistant"}), *(chat({"content": t}) for t in texts), chat({}, "stop"), *last, done=True)


def claude(*blocks: tuple[dict[str, Any], Sequence[dict[str, Any]]], stop: str | None = "end_turn") -> list[bytes]:
    """A whole Anthropic answer; each block is its start and its deltas."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (start, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    if stop:
        delta = {"stop_reason": stop, "stop_sequence": None}
        events += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}, {"type": "message_stop"}]
    return sse(*events)


def gemini(*parts: dict[str, Any], finish: str | None = None, **usage: int) -> dict[str, Any]:
    """A chunk of a Gemini answer."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    more = {"usageMetadata": usage} if usage else {}
    return {"candidates": [candidate], "modelVersion": "gemini-2.5-flash", **more}
