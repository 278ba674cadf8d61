"""A step of the in-memory loop against one of Pydantic AI's Agent with its own function model, in the same run.

Run: python -m tests.benchmarks.bench_peers [--steps 8] [--rounds 15]
A step: the model asks for one trivial tool, whose result goes back to it. Both read the model as a stream, call the
same async function and keep the whole conversation. The rounds take turns, and the medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeAlias

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import UsageLimits

import allm_django as allm
from allm_django.testing import ScriptedModel, call, say

Run: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

MAX_RATIO = 1.0
WORDS = "There is something here."


async def look(place: int) -> str:
    """Look at a place."""
    return f"{WORDS} {place}"


def by_us(steps: int) -> Run:
    """Our loop over a script."""
    model = ScriptedModel([*(call("look", {"place": n}) for n in range(steps)), say("Done.")])
    engine = allm.EngineSpec(model=model, tools=[allm.tool(idempotent=True)(look)], max_turns=steps + 1)

    async def run() -> None:
        result = await allm.achat(engine, [allm.user("Go on.")])
        assert (result.text, len(result.steps), result.halted_reason) == ("Done.", steps + 1, "completed")

    return run


def peer(steps: int) -> tuple[Agent[None, str], Callable[[], int]]:
    """Pydantic AI's agent with a function model that asks as often; and how often it has asked."""
    asked = 0

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        nonlocal asked
        asked += 1
        if asked > steps:
            yield "Done."
        else:
            yield {0: DeltaToolCall("look", json.dumps({"place": asked - 1}), tool_call_id=f"call_{asked}")}

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal asked
        asked += 1
        if asked > steps:
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart("look", {"place": asked - 1}, tool_call_id=f"call_{asked}")])

    return Agent(FunctionModel(answer, stream_function=stream), tools=[look]), lambda: asked


def by_peer(steps: int) -> Run:
    """The agent's plain run: whole answers."""
    agent, asked = peer(steps)

    async def run() -> None:
        result = await agent.run("Go on.", usage_limits=UsageLimits(request_limit=steps + 1))
        assert (result.output, asked()) == ("Done.", steps + 1)

    return run


def by_peer_streaming(steps: int) -> Run:
    """The agent reading its model as a stream, as our loop always does."""
    agent, asked = peer(steps)

    async def run() -> None:
        async with agent.run_stream("Go on.", usage_limits=UsageLimits(request_limit=steps + 1)) as result:
            assert (await result.get_output(), asked()) == ("Done.", steps + 1)

    return run


def seconds_a_step(way: Callable[[int], Run], steps: int) -> float:
    """One run by the clock; what is set up before it does not count."""
    run = way(steps)

    async def measured() -> float:
        start = time.perf_counter()
        await run()
        return time.perf_counter() - start

    return asyncio.run(measured()) / steps


def main() -> None:
    """Print the figures; the exit status says whether the bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    ways = {"allm_django": by_us, "pydantic_ai run": by_peer, "pydantic_ai run_stream": by_peer_streaming}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds + 1):  # the first warms up
        for name, way in ways.items():
            taken[name].append(seconds_a_step(way, options.steps))
    ours, plain, streaming = (statistics.median(figures[1:]) for figures in taken.values())
    for name, figures in taken.items():
        print(f"{name}: {statistics.median(figures[1:]) * 1e6:.0f} µs a step")
    print(f"ratio to run {ours / plain:.2f}, to run_stream {ours / streaming:.2f} (bar ≤ {MAX_RATIO})")
    raise SystemExit(ours / plain > MAX_RATIO)


if __name__ == "__main__":
    main()
