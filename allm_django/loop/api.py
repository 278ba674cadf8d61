"""The stateless use: ``chat``, ``step`` and ``stream`` over a plain list of messages, sync and async (L01).

No database, no Django settings. What a person must decide comes back as data; append the results and call again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar, Unpack

from allm_django.core import events
from allm_django.core.history import messages_from_json
from allm_django.core.states import HaltedReason
from allm_django.core.types import EngineSpec, Message
from allm_django.errors import LoopContextError
from allm_django.loop.advance import advance
from allm_django.loop.environment import environment
from allm_django.loop.prepare import Options, prepare
from allm_django.loop.results import ChatResult, Fold, StepResult

T = TypeVar("T")


def chat(engine: EngineSpec, messages: Sequence[Message], **options: Unpack[Options]) -> ChatResult:
    """Run the loop until it halts. Raises InvalidInputError (HistoryError, ToolDefinitionError) before the model
    is called, LoopContextError on a running event loop or inside a transaction; what fails later is the result's
    ``halted_reason``.
    """
    return _run_sync(lambda: achat(engine, messages, **options), "achat")


def step(engine: EngineSpec, messages: Sequence[Message], **options: Unpack[Options]) -> StepResult:
    """One model round trip and the automatic calls it asked for. Raises as :func:`chat`."""
    return _run_sync(lambda: astep(engine, messages, **options), "astep")


def stream(engine: EngineSpec, messages: Sequence[Message], **options: Unpack[Options]) -> Iterator[events.StreamEvent]:
    """The loop as an iterator of events; the last is RunHalted. Raises as :func:`chat`."""
    _refuse_loop("astream")
    agen = astream(engine, messages, **options)
    with asyncio.Runner() as runner:
        try:
            while (event := runner.run(anext_or_none(agen))) is not None:
                yield event
        finally:
            runner.run(agen.aclose())


async def achat(engine: EngineSpec, messages: Sequence[Message], **options: Unpack[Options]) -> ChatResult:
    """The async twin of :func:`chat`."""
    folded = Fold(messages_from_json(messages))
    async for event in astream(engine, messages, **options):
        folded.add(event)
    return folded.result()


async def astep(engine: EngineSpec, messages: Sequence[Message], **options: Unpack[Options]) -> StepResult:
    """The async twin of :func:`step`."""
    once = options.copy()
    once["max_turns"] = 1
    result = await achat(engine, messages, **once)
    last = result.steps[-1] if result.steps else None
    reason = "" if result.halted_reason == HaltedReason.MAX_TURNS else result.halted_reason
    return StepResult(
        result.messages,
        last.message if last else None,
        last.tool_results if last else (),
        bool(reason),
        reason,
        result.usage,
        result.metadata,
        result.used,
    )


async def astream(
    engine: EngineSpec, messages: Sequence[Message], **options: Unpack[Options]
) -> AsyncGenerator[events.StreamEvent, None]:
    """The async twin of :func:`stream`. Closing it stops the model's stream and starts no further call."""
    journal, model, loop_options = prepare(engine, messages, options)
    task = asyncio.ensure_future(advance(journal, model, loop_options))
    task.add_done_callback(lambda _: journal.events.put_nowait(None))
    try:
        while (event := await journal.events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def anext_or_none(agen: AsyncGenerator[T, None]) -> T | None:
    """The next item, or None at the end."""
    return await anext(agen, None)


def _refuse_loop(twin: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        environment.refuse_sync()
    else:
        raise LoopContextError(f"An event loop is running in this thread; await {twin}(…) instead.")


def _run_sync(make: Callable[[], Coroutine[Any, Any, T]], twin: str) -> T:
    _refuse_loop(twin)
    return asyncio.run(make())
