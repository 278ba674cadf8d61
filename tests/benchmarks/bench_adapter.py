"""CPU of our adapter per delta, against pydantic-ai's own stream read bare.

Run: python -m tests.benchmarks.bench_adapter
A child process streams chat completions over loopback; the figure is CPU time of the reading thread.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection

from pydantic_ai import direct
from pydantic_ai.messages import ModelRequest as LibraryRequest

from allm_django.core.types import Message, ModelRequest
from allm_django.providers.bridge import usable_model
from allm_django.providers.resolve import resolve_model
from tests.integration.providers.server import chat_text, running_server

TARGET = 1.15


def serve(deltas: int, pipe: Connection) -> None:
    """Stream the same long answer to whoever asks."""
    with running_server() as server:
        server.answer(chat_text(*["word "] * deltas))
        pipe.send(server.url + "/v1")
        pipe.recv()


async def read_bare(url: str) -> float:
    """Seconds of CPU that pydantic-ai takes."""
    model = await usable_model("compatible:build", "bench", "", url)
    start = time.thread_time()
    async with direct.model_request_stream(model, [LibraryRequest.user_text_prompt("go")]) as events:
        async for _event in events:
            pass
    return time.thread_time() - start


async def read_ours(url: str) -> float:
    """Seconds of CPU that we take."""
    model = resolve_model("compatible:bench", base_url=url)
    start = time.thread_time()
    async for _delta in model.stream(ModelRequest((Message("user", "go"),))):
        pass
    return time.thread_time() - start


async def measure(url: str, rounds: int) -> tuple[list[float], list[float]]:
    """CPU seconds of each round, bare and ours by turns."""
    bare, ours = [], []
    for _ in range(rounds + 1):  # the first warms up
        bare.append(await read_bare(url))
        ours.append(await read_ours(url))
    return bare[1:], ours[1:]


def main() -> None:
    """Print the figures; the exit status says whether the target holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deltas", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ours_end, theirs = multiprocessing.get_context("spawn").Pipe()
    child = multiprocessing.get_context("spawn").Process(target=serve, args=(options.deltas, theirs), daemon=True)
    child.start()
    bare, ours = asyncio.run(measure(ours_end.recv(), options.rounds))
    ours_end.send("stop")
    child.join()
    ratio = statistics.median(o / b for o, b in zip(ours, bare, strict=True))
    per_delta = [statistics.median(times) / options.deltas * 1e6 for times in (bare, ours)]
    print(f"bare {per_delta[0]:.1f} µs a delta, ours {per_delta[1]:.1f} µs, ratio {ratio:.3f} (target ≤ {TARGET})")
    raise SystemExit(ratio > TARGET)


if __name__ == "__main__":
    main()
