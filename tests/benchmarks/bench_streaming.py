"""Streaming to many browsers: what arrives, how late, and what it costs the server against a bare socket.

Run: python -m tests.benchmarks.bench_streaming [--clients 100] [--seconds 10]
Each client watches a session of its own, 50 tokens a second: model → runner → stored chunks → hub → socket on uvicorn.
The baseline is a bare ASGI socket on uvicorn that sends the same tokens one by one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

FOLDER = Path(tempfile.mkdtemp(prefix="allm-bench-"))
os.environ |= {"ALLM_BENCH": str(FOLDER), "DJANGO_SETTINGS_MODULE": "tests.benchmarks.stream_settings"}

import django  # noqa: E402

django.setup()

from websockets.client import ClientProtocol  # noqa: E402
from websockets.frames import Frame, Opcode  # noqa: E402
from websockets.protocol import State  # noqa: E402
from websockets.uri import parse_uri  # noqa: E402

from tests.benchmarks.stream_server import PER_SECOND, START  # noqa: E402
from tests.services import free_port  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MAX_LATE_MS = 60
MAX_CPU = 1.5
Measured: TypeAlias = "tuple[list[Seen], float]"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Seen:
    """What one client got: the text in order, and each token's age in seconds."""

    text: str = ""
    ages: list[float] = field(default_factory=list)
    in_order: bool = True

    def take(self, moment: float, frame: dict[str, Any]) -> None:
        """A piece of text, and when it came."""
        self.in_order = self.in_order and frame["offset"] == len(self.text)
        self.text += frame["text"]
        self.ages += [moment - float(token) for token in frame["text"].split()]


@contextmanager
def server(app: str, folder: Path) -> Iterator[tuple[int, int]]:
    """uvicorn with ``app``: its process id and port, once it listens."""
    port = free_port()
    environment = os.environ | {"ALLM_BENCH": str(folder), "ALLM_BENCH_SERVER": "1"}
    options = ["--ws", "websockets-sansio", "--ws-per-message-deflate", "false", "--log-level", "warning"]
    command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), *options]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        asyncio.run(listening(port))
        yield process.pid, port
    finally:
        process.terminate()
        sys.stderr.write(process.communicate()[1])


async def listening(port: int) -> None:
    """Wait for a server."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


def cpu_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Recorder(asyncio.Protocol):
    """A WebSocket client that notes when bytes arrive and reads them afterwards: a hundred clients that parsed here, in
    one process, would wait for each other and not for the server.
    """

    def __init__(self, url: str, hello: dict[str, Any], last_words: tuple[bytes, ...], **headers: str) -> None:
        self.client, self.headers = ClientProtocol(parse_uri(url)), headers
        self.hello, self.last_words = json.dumps(hello).encode(), last_words
        self.came: list[tuple[float, bytes]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        request = self.client.connect()
        request.headers.update(self.headers)
        self.client.send_request(request)
        self._send()

    def data_received(self, data: bytes) -> None:
        self.came.append((time.time(), data))
        if self.client.state is State.CONNECTING:
            self.client.receive_data(self.came.pop()[1])
            assert self.client.state is State.OPEN, self.client.handshake_exc
            self.client.send_text(self.hello)
            self._send()
        elif any(words in data for words in self.last_words):
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)

    def frames(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """What came, and when."""
        parts = b""
        for moment, data in self.came:
            self.client.receive_data(data)
            for frame in self.client.events_received():
                if isinstance(frame, Frame) and frame.opcode in (Opcode.TEXT, Opcode.CONT):
                    parts += frame.data
                    if frame.fin:
                        yield moment, json.loads(parts)
                        parts = b""

    def _send(self) -> None:
        for data in self.client.data_to_send():
            self.transport.write(data)


async def recorded(port: int, recorder: Recorder) -> Iterator[tuple[float, dict[str, Any]]]:
    """All that a client got, once it has ended."""
    await asyncio.get_running_loop().create_connection(lambda: recorder, "127.0.0.1", port)
    await recorder.ended
    return recorder.frames()


async def watch_bare(port: int, wanted: dict[str, Any]) -> Seen:
    """A client of the bare socket."""
    seen = Seen()
    for moment, frame in await recorded(port, Recorder(f"ws://127.0.0.1:{port}/", wanted, ())):
        seen.take(moment, frame)
    return seen


async def watch_session(port: int, session: str, cookie: str) -> Seen:
    """A client of ours: to the run's end."""
    seen = Seen()
    url = f"ws://127.0.0.1:{port}/ws/allm/sessions/{session}/"
    hello = {"type": "hello", "event": 0, "message": None, "offset": 0}
    headers = {"Origin": f"http://127.0.0.1:{port}", "Cookie": cookie}
    recorder = Recorder(url, hello, (b"RunEnded", b"RunFailed"), **headers)
    for moment, data in await recorded(port, recorder):
        if data["type"] == "text":
            seen.take(moment, data)
        elif data["type"] == "event" and data["kind"] == "MessageCompleted":
            whole = data["messages"][0]["text"]
            seen.in_order = seen.in_order and whole.startswith(seen.text)
            seen.take(moment, {"offset": len(seen.text), "text": whole[len(seen.text) :]})
    return seen


async def measure(pid: int, watching: list[Any], ready: Callable[[], bool], seconds: float) -> Measured:
    """What all clients saw, and the server's CPU seconds while the tokens came; they begin once all is ``ready``."""
    tasks = [asyncio.ensure_future(one) for one in watching]
    while not await asyncio.to_thread(ready):  # noqa: ASYNC110 - another process gets ready
        await asyncio.sleep(0.1)
    start = time.time() + 2
    START.write_text(str(start))
    await asyncio.sleep(start - time.time())
    before = cpu_seconds(pid)
    await asyncio.sleep(seconds)
    used = cpu_seconds(pid) - before
    return list(await asyncio.gather(*tasks)), used


def run_bare(folder: Path, clients: int, seconds: float) -> Measured:
    """The baseline."""
    START.unlink(missing_ok=True)
    with server("tests.benchmarks.stream_server:bare", folder) as (pid, port):
        wanted = [{"seconds": seconds, "place": place / clients} for place in range(clients)]
        return asyncio.run(measure(pid, [watch_bare(port, one) for one in wanted], lambda: True, seconds))


def run_ours(folder: Path, clients: int, seconds: float) -> Measured:
    """The product."""
    from allm_django import sessions
    from allm_django.models import Message

    def ready() -> bool:
        return Message.objects.filter(complete=False).count() == clients

    START.unlink(missing_ok=True)
    engine, user, cookie = prepare()
    with server("project.asgi:application", folder) as (pid, port):
        texts = [{"seconds": seconds, "place": place / clients} for place in range(clients)]
        rows = [sessions.start(engine, user=user, text=json.dumps(text)) for text in texts]
        watching = [watch_session(port, str(row.pk), cookie) for row in rows]
        return asyncio.run(measure(pid, watching, ready, seconds))


def prepare() -> tuple[Any, Any, str]:
    """An engine, a user and the cookie of their login."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from allm_django.models import Engine

    call_command("migrate", verbosity=0)
    user = User.objects.create_superuser("bench", password="bench")
    client = Client()
    client.force_login(user)
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    return Engine.objects.create(name="bench", model="tokens:steady"), user, cookie


def told(name: str, seen: list[Seen], used: float, expected: int) -> tuple[float, float]:
    """Print the figures; the share delivered in order, and the 99th percentile of ages in ms.

    Ages leave out the last second: all answers end within the same 20 ms, and wait for each other to be completed.
    """
    ages = sorted(age * 1e3 for one in seen for age in one.ages[:-PER_SECOND])
    delivered = sum(len(one.ages) for one in seen if one.in_order) / expected
    late = ages[int(0.99 * len(ages))]
    print(
        f"{name}: {delivered:.2%} in order, p50 {statistics.median(ages):.1f} ms, p99 {late:.1f} ms, "
        f"server CPU {used / expected * 1e6:.1f} ms per 1,000 tokens"
    )
    return delivered, late


def main() -> None:
    """Print the figures; the exit status says whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    expected = int(options.seconds * PER_SECOND) * options.clients
    try:
        floor = run_bare(FOLDER, options.clients, options.seconds)
        ours = run_ours(FOLDER, options.clients, options.seconds)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    told("bare", *floor, expected)
    delivered, late = told("ours", *ours, expected)
    ratio = ours[1] / floor[1]
    print(
        f"CPU {ratio:.2f} × bare (bar ≤ {MAX_CPU}), p99 {late:.0f} ms (bar ≤ {MAX_LATE_MS}), {delivered:.0%} (bar 100%)"
    )
    raise SystemExit(delivered < 1 or late > MAX_LATE_MS or ratio > MAX_CPU)


if __name__ == "__main__":
    main()
