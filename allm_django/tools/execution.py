"""Run one handler to its end or its timeout, whatever it does (T07, T11–T17, T24)."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from asgiref.sync import SyncToAsync

from allm_django.core.encode import DEFAULT_CAP, model_copy, to_json, to_text
from allm_django.core.results import AskUser, Halt
from allm_django.core.types import JSON, JSONObject
from allm_django.errors import EncodingError, InvalidArgumentsError, ToolDefinitionError, ToolError
from allm_django.tools.context import ToolContext
from allm_django.tools.registry import BoundHandler
from allm_django.tools.threads import Lane, SyncExecutor

MAX_DETAIL = 20_000  # characters of a traceback

Encoder = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Execution:
    """How a handler ended.

    ``value`` is the whole result, ``content`` the model's copy of it. ``code`` and ``message`` (safe for the model)
    are set for errors and timeouts; ``detail`` is for staff only. ``question`` and ``options`` belong to ``ask``,
    ``word`` to ``halt``. ``late`` (timeouts only) gives the Execution that still comes; it is cancelled if none can
    come any more.
    """

    kind: Literal["ok", "error", "ask", "halt", "timeout"]
    value: JSON = None
    content: str = ""
    code: str = ""
    message: str = ""
    detail: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    word: str = ""
    late: Awaitable[Execution] | None = None


async def execute(
    bound: BoundHandler | None,
    arguments: JSONObject,
    ctx: ToolContext,
    *,
    timeout: float,
    executor: SyncExecutor,
    encoder: Encoder | None = None,
    cap: int = DEFAULT_CAP,
) -> Execution:
    """Run a handler for at most ``timeout`` seconds; raises nothing but the caller's own cancellation.

    Sync handlers run on ``executor``, async ones on the running loop with a thread of their own for their sync parts.
    ``encoder`` gives the model's copy of results that are not text; ``cap`` bounds it, in characters.
    """
    if bound is None:
        return _error("not_found", "This tool has no handler here.")
    finish = _Finish(encoder, cap)
    if bound.is_async:
        return await _run_async(bound, arguments, ctx, timeout, executor, finish)
    return await _run_sync(bound, arguments, ctx, timeout, executor, finish)


async def _run_sync(
    bound: BoundHandler,
    arguments: JSONObject,
    ctx: ToolContext,
    timeout: float,
    executor: SyncExecutor,
    finish: _Finish,
) -> Execution:
    try:
        future = executor.submit(finish.call, bound, arguments, ctx)
    except ToolError as error:
        return _error("tool_error", error.message)
    ended = _awaitable(future)
    try:
        done, _ = await asyncio.wait({ended}, timeout=timeout)
    except asyncio.CancelledError:
        executor.give_up(future)
        raise
    if done:
        return ended.result()
    if executor.give_up(future):
        return _error("timeout", f"All workers were busy for {timeout:g} seconds; the tool was not started.")
    return _timeout(timeout, ended)


async def _run_async(
    bound: BoundHandler,
    arguments: JSONObject,
    ctx: ToolContext,
    timeout: float,
    executor: SyncExecutor,
    finish: _Finish,
) -> Execution:
    task = asyncio.create_task(finish.await_call(bound, arguments, ctx, executor.lane()))
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done:
        return task.result()
    task.cancel()
    return _timeout(timeout, task)


def _awaitable(future: Future[Execution]) -> asyncio.Future[Execution]:
    """``future`` for this loop; unlike asyncio's own bridge, at peace with a loop that is closed by then."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Execution] = loop.create_future()

    def tell() -> None:
        if ended.done():
            return
        if future.cancelled():
            ended.cancel()
        else:
            ended.set_result(future.result())

    def done(_: Future[Execution]) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell)

    future.add_done_callback(done)
    return ended


class _Finish:
    """Turns what a handler does into an Execution."""

    def __init__(self, encoder: Encoder | None, cap: int) -> None:
        self._encoder, self._cap = encoder, cap

    def call(self, bound: BoundHandler, arguments: JSONObject, ctx: ToolContext) -> Execution:
        """Call a sync handler; never raises."""
        try:
            return self.returned(bound.call(arguments, ctx))
        except BaseException as error:  # SystemExit and its like are a handler's failure too
            return raised(error)

    async def await_call(self, bound: BoundHandler, arguments: JSONObject, ctx: ToolContext, lane: Lane) -> Execution:
        """Await an async handler; raises nothing but this task's own cancellation."""
        async with _OwnThread(lane):
            try:
                return self.returned(await bound.call(arguments, ctx))
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                return raised(error)
            except BaseException as error:
                return raised(error)

    def returned(self, value: Any) -> Execution:
        """The end of a handler that returned ``value``."""
        if isinstance(value, ToolError):
            return raised(value)
        if isinstance(value, AskUser):
            options = tuple(map(to_text, value.options))
            return Execution("ask", question=to_text(value.question), options=options)
        if inspect.isawaitable(value) or isinstance(value, BaseException):
            if inspect.iscoroutine(value):
                value.close()
            name = type(value).__name__
            return _error("invalid_return", f"The tool returned {name}, which is no result.", _ADVICE)
        word = to_text(value.reason) if isinstance(value, Halt) else ""
        try:
            whole, content = self._encoded(value.value if isinstance(value, Halt) else value)
        except EncodingError as error:
            return _error("encoding_failed", "The tool's result can't be written as JSON.", error.message)
        return Execution("halt" if word else "ok", value=whole, content=content, word=word)

    def _encoded(self, value: Any) -> tuple[JSON, str]:
        if self._encoder is None or isinstance(value, str):
            whole = to_json(value)
            return whole, model_copy(to_text(whole), self._cap)
        try:
            text = self._encoder(value)
        except Exception as error:
            raise EncodingError(f"The encoder failed: {_traced(error)}") from error
        if not isinstance(text, str):
            raise EncodingError(f"The encoder gave {type(text).__name__}; text is needed.")
        return to_json(value), model_copy(to_text(text), self._cap)


_ADVICE = "Await it inside an async def handler; return plain values, AskUser, Halt or ToolError."


class _OwnThread:
    """One thread for the ``sync_to_async`` parts of one async handler, closed without waiting for it.

    asgiref's ThreadSensitiveContext keeps to an outer one, and waits on the event loop for a thread that hangs.
    """

    _exited = False  # asgiref asks

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def __aenter__(self) -> None:
        variable: Any = SyncToAsync.thread_sensitive_context
        executors: Any = SyncToAsync.context_to_thread_executor
        self._token = variable.set(self)
        executors[self] = self._lane

    async def __aexit__(self, *_: object) -> None:
        variable: Any = SyncToAsync.thread_sensitive_context
        executors: Any = SyncToAsync.context_to_thread_executor
        executors.pop(self, None)
        variable.reset(self._token)
        self._exited = True
        self._lane.close()


def raised(error: BaseException) -> Execution:
    """The end of a handler that raised: only a ToolError's own words reach the model (T12, T16)."""
    if isinstance(error, InvalidArgumentsError):
        return _error("invalid_arguments", str(error.message))
    if isinstance(error, ToolError):
        return _error("tool_error", str(error.message), error.detail)
    if isinstance(error, ToolDefinitionError):  # an AskUser or Halt that can't be
        return _error("invalid_return", error.message, _traced(error))
    return _error("handler_raised", f"The tool failed ({type(error).__name__}).", _traced(error))


def _traced(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-MAX_DETAIL:]


def _error(code: str, message: str, detail: str = "") -> Execution:
    message = model_copy(to_text(message))
    return Execution("error", content=message, code=code, message=message, detail=to_text(detail))


def _timeout(seconds: float, late: Awaitable[Execution]) -> Execution:
    message = f"The tool did not finish within {seconds:g} seconds."
    return Execution("timeout", content=message, code="timeout", message=message, late=late)
