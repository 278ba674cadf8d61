"""What live news cost: N clients, each on a session of its own, R frames a second each, over a real server.

    python -m tests.benchmarks.bench_sockets [clients] [frames a second] [seconds]

The server (uvicorn) and the publisher are one process, the clients another. Prints the server's CPU milliseconds per
1,000 frames sent, what arrived, and how late (p50, p99).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from statistics import quantiles
from typing import Any

TEXT = "x" * 24


def main(clients: int, rate: int, seconds: int) -> None:
    """Serve, publish, measure."""
    import django
    from django.core.management import call_command

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    call_command("migrate", verbosity=0)
    from allm_django.runtime.hub import hub
    from tests.integration.cast import without_runner
    from tests.services import free_port

    with without_runner():
        cookie, ids = people_and_sessions(clients)
        port = free_port()
        server, thread = serve(port)
        arguments = [str(port), cookie, str(rate * seconds), *ids]
        command = [sys.executable, "-m", "tests.benchmarks.bench_sockets", "--client", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
            topics = hub.topics()
            before, started = time.process_time(), time.monotonic()
            publish(topics, rate, seconds)
            found = json.loads(client.stdout.readline())
            used, took = time.process_time() - before, time.monotonic() - started
        server.should_exit = True
        thread.join(20)
    frames = clients * rate * seconds
    late = [second * 1e3 for second in quantiles(found["late"], n=100)]
    sys.stdout.write(
        f"{clients} clients × {rate}/s × {seconds} s: {used * 1e6 / frames:.0f} ms CPU per 1,000 frames, "
        f"{found['arrived'] / frames:.0%} arrived in {took:.1f} s, p50 {late[49]:.0f} ms, p99 {late[98]:.0f} ms\n"
    )


def people_and_sessions(count: int) -> tuple[str, list[str]]:
    """A login's cookie, and the ids of that many sessions that it may see."""
    from allm_django.conf import conf
    from allm_django.models import Session
    from tests.integration.cast import Browser, an_engine, person

    object.__setattr__(conf(), "SOCKETS_PER_USER", count)
    ann, engine = person("ann", "chat"), an_engine()
    cookie = Browser(ann).client.cookies["sessionid"].value
    rows = Session.objects.bulk_create(Session(owner=ann, engine=engine) for _ in range(count))
    return cookie, [str(row.pk) for row in rows]


def serve(port: int) -> tuple[Any, threading.Thread]:
    """A server and its thread."""
    import uvicorn

    from project.asgi import application

    settings = uvicorn.Config(application, port=port, log_level="warning", ws_per_message_deflate=False, lifespan="off")
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    return server, thread


def publish(topics: list[str], rate: int, seconds: int) -> None:
    """As the runner does: one batch a tick with all sessions' news."""
    from allm_django.runtime.hub import hub
    from allm_django.runtime.news import text_news

    begin = time.monotonic()
    for tick in range(rate * seconds):
        while (pause := begin + tick / rate - time.monotonic()) > 0:
            time.sleep(pause)
        stamp = f"{time.time():.6f} {TEXT}"
        offset = tick * len(stamp)
        hub.publish({topic: [text_news(topic, offset, stamp)] for topic in topics})


async def listen(port: int, cookie: str, count: int, ids: list[str]) -> None:
    """All clients; says when all are there, then what they saw."""
    from websockets.asyncio.client import connect

    late: list[float] = []
    patient: dict[str, Any] = {"compression": None, "open_timeout": 120}
    there = asyncio.Barrier(len(ids) + 1)

    async def one(session: str) -> int:
        headers = {"Cookie": f"sessionid={cookie}"}
        url = f"ws://127.0.0.1:{port}/ws/allm/sessions/{session}/"
        async with connect(url, origin="http://127.0.0.1", additional_headers=headers, **patient) as socket:
            await socket.send('{"type":"hello"}')
            assert json.loads(await socket.recv())["type"] == "ready"
            await there.wait()
            for _ in range(count):
                frame = json.loads(await socket.recv())
                late.append(time.time() - float(frame["text"].split()[0]))
        return count

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(session)) for session in ids]
        await there.wait()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    arrived = sum(task.result() for task in tasks)
    sys.stdout.write(json.dumps({"arrived": arrived, "late": late[:: max(1, len(late) // 10_000)]}) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        asyncio.run(listen(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5:]))
    else:
        wanted = [int(word) for word in sys.argv[1:]]
        main(*(wanted + [100, 25, 5][len(wanted) :]))
