"""Running one handler: every way to end, and none that breaks the loop (T07, T11–T17, T24)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from allm_django.core.results import AskUser, Halt
from allm_django.core.types import ToolCall
from allm_django.errors import ToolError
from allm_django.tools.context import ToolContext
from allm_django.tools.execution import Execution, execute
from allm_django.tools.registry import bind, define
from allm_django.tools.threads import HandlerThreads

pytestmark = pytest.mark.asyncio

CTX = ToolContext(context=None, session_id=None, tool_call=ToolCall("c1", "t"))
WAIT = 20
SOON = 0.05  # seconds; a handler under test waits for longer than this, on purpose


@pytest.fixture
def pool() -> Iterator[HandlerThreads]:
    made = HandlerThreads(2, 1, lambda: None)
    yield made
    made.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


async def run(pool: HandlerThreads, handler: Any, arguments: Any = None, **options: Any) -> Execution:
    bound = bind(handler) if handler is not None else None
    return await execute(bound, arguments or {}, CTX, executor=pool, **{"timeout": WAIT, **options})


def both(function: Any) -> list[Any]:
    """The same body as a sync and as an async handler."""

    async def asynchronous(arguments: Any) -> Any:
        return function(arguments)

    return [function, asynchronous]


def returning(value: Any) -> list[Any]:
    return both(lambda arguments: value)


def raising(error: BaseException) -> list[Any]:
    def handler(arguments: Any) -> Any:
        raise error

    return both(handler)


@pytest.mark.row("T11")
@pytest.mark.parametrize("handler", returning({"a": [1]}))
async def test_a_value_comes_back_whole_and_as_the_models_copy(pool: HandlerThreads, handler: Any) -> None:
    assert await run(pool, handler) == Execution("ok", value={"a": [1]}, content='{"a":[1]}')


@pytest.mark.parametrize("handler", returning('{"a":  1}'))
async def test_text_is_verbatim(pool: HandlerThreads, handler: Any) -> None:
    assert (await run(pool, handler, encoder=lambda value: "never")).content == '{"a":  1}'


async def test_handlers_get_their_arguments_and_context(pool: HandlerThreads) -> None:
    async def asynchronous(arguments: Any, ctx: Any) -> Any:
        return [arguments["a"], ctx.tool_call.id]

    def synchronous(arguments: Any, ctx: Any) -> Any:
        return [arguments["a"], ctx.tool_call.id]

    for handler in (asynchronous, synchronous):
        assert (await run(pool, handler, {"a": 1})).value == [1, "c1"]


@pytest.mark.row("T07")
async def test_no_handler_is_not_found(pool: HandlerThreads) -> None:
    execution = await run(pool, None)
    assert (execution.kind, execution.code) == ("error", "not_found")


@pytest.mark.row("T12")
@pytest.mark.parametrize("handler", [*returning(ToolError("No stock.")), *raising(ToolError("No stock."))])
async def test_a_tool_error_reaches_the_model_in_its_own_words(pool: HandlerThreads, handler: Any) -> None:
    execution = await run(pool, handler)
    assert (execution.kind, execution.code, execution.content) == ("error", "tool_error", "No stock.")


@pytest.mark.row("T16")
@pytest.mark.parametrize("handler", raising(ValueError("password=canary")))
async def test_an_exception_tells_the_model_its_kind_and_staff_everything(pool: HandlerThreads, handler: Any) -> None:
    execution = await run(pool, handler)
    assert (execution.kind, execution.code) == ("error", "handler_raised")
    assert execution.message == execution.content == "The tool failed (ValueError)."
    assert "Traceback" in execution.detail
    assert "password=canary" in execution.detail


@pytest.mark.row("T16")
@pytest.mark.parametrize(
    "handler",
    [
        handler
        for error in (SystemExit(1), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError(), GeneratorExit())
        for handler in raising(error)
        if not (isinstance(error, StopIteration) and asyncio.iscoroutinefunction(handler))
    ],
)
async def test_no_exception_of_a_handler_escapes(pool: HandlerThreads, handler: Any) -> None:
    assert (await run(pool, handler)).code == "handler_raised"
    assert (await run(pool, lambda arguments: 1)).value == 1


@pytest.mark.row("T13")
@pytest.mark.parametrize("handler", returning(AskUser("Which?", ["a", "b"])))
async def test_a_question_is_asked(pool: HandlerThreads, handler: Any) -> None:
    assert await run(pool, handler) == Execution("ask", question="Which?", options=("a", "b"))


@pytest.mark.row("T14")
@pytest.mark.parametrize("handler", returning(Halt("handed_over", {"to": 1})))
async def test_a_halt_carries_its_word_and_its_value(pool: HandlerThreads, handler: Any) -> None:
    assert await run(pool, handler) == Execution("halt", value={"to": 1}, content='{"to":1}', word="handed_over")


@pytest.mark.row("T13", "T14", "T15")
async def test_an_illegal_halt_or_question_is_an_invalid_return(pool: HandlerThreads) -> None:
    for handler in (lambda arguments: Halt("completed"), lambda arguments: AskUser(" ")):
        execution = await run(pool, handler)
        assert (execution.kind, execution.code) == ("error", "invalid_return")


@pytest.mark.row("T15")
async def test_a_coroutine_from_a_sync_handler_is_an_invalid_return(pool: HandlerThreads) -> None:
    execution = await run(pool, lambda arguments: asyncio.sleep(0))
    assert (execution.code, "async def" in execution.detail) == ("invalid_return", True)
    assert (await run(pool, lambda arguments: ValueError("x"))).code == "invalid_return"


@pytest.mark.row("T15")
@pytest.mark.parametrize(
    "handler", [*returning(b"x"), *returning({"a": float("nan")}), *returning(Halt("w", object()))]
)
async def test_what_is_not_json_is_an_encoding_failure(pool: HandlerThreads, handler: Any) -> None:
    execution = await run(pool, handler)
    assert (execution.kind, execution.code) == ("error", "encoding_failed")
    assert execution.detail


@pytest.mark.row("T21")
async def test_arguments_that_do_not_convert_are_invalid(pool: HandlerThreads) -> None:
    ran: list[int] = []

    def count(number: int) -> None:
        ran.append(number)

    definition = define(count)
    execution = await execute(bind(definition), {"number": "x"}, CTX, timeout=WAIT, executor=pool)
    assert (execution.code, ran) == ("invalid_arguments", [])
    assert "number" in execution.message


@pytest.mark.row("T24")
async def test_an_encoder_writes_the_models_copy_only(pool: HandlerThreads) -> None:
    execution = await run(pool, lambda arguments: {"a": 1}, encoder=lambda value: f"<{value['a']}>")
    assert (execution.value, execution.content) == ({"a": 1}, "<1>")


@pytest.mark.row("T24")
@pytest.mark.parametrize("encoder", [lambda value: 1 / 0, lambda value: None, lambda value: b"x"])
async def test_a_failing_encoder_is_an_encoding_failure(pool: HandlerThreads, encoder: Any) -> None:
    assert (await run(pool, lambda arguments: {"a": 1}, encoder=encoder)).code == "encoding_failed"


@pytest.mark.row("T24")
async def test_the_models_copy_is_capped_and_the_whole_kept(pool: HandlerThreads) -> None:
    execution = await run(pool, lambda arguments: "x" * 500, cap=100)
    assert execution.value == "x" * 500
    assert len(execution.content) <= 100
    assert "left out" in execution.content


async def test_hidden_characters_that_can_not_be_stored_never_come_out(pool: HandlerThreads) -> None:
    for handler in (*returning("a\x00"), *raising(ToolError("a\x00")), *raising(ValueError("a\x00\ud800"))):
        execution = await run(pool, handler)
        assert "\x00" not in execution.content + execution.detail + str(execution.value)
        execution.detail.encode()


@pytest.mark.row("T17")
async def test_a_sync_handler_that_hangs_times_out_and_its_result_comes_late(
    pool: HandlerThreads, gate: threading.Event
) -> None:
    def handler(arguments: Any) -> Any:
        gate.wait(WAIT)
        return {"done": 1}

    execution = await run(pool, handler, timeout=SOON)
    assert (execution.kind, execution.code) == ("timeout", "timeout")
    assert "0.05 seconds" in execution.message
    assert pool.hung == 1
    gate.set()
    assert execution.late is not None
    assert await execution.late == Execution("ok", value={"done": 1}, content='{"done":1}')


@pytest.mark.row("T17")
async def test_an_async_handler_is_cancelled_when_its_time_is_up(pool: HandlerThreads) -> None:
    ended: list[str] = []

    async def handler(arguments: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    execution = await run(pool, handler, timeout=SOON)
    assert execution.kind == "timeout"
    assert execution.late is not None
    with pytest.raises(asyncio.CancelledError):
        await execution.late
    assert ended == ["cleaned up"]


@pytest.mark.row("T17")
async def test_an_async_handler_that_ends_in_spite_of_it_is_late(pool: HandlerThreads) -> None:
    async def handler(arguments: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "rolled back"

    execution = await run(pool, handler, timeout=SOON)
    assert execution.late is not None
    assert (await execution.late).value == "rolled back"


async def test_a_handler_for_which_no_thread_was_free_did_not_start(
    pool: HandlerThreads, gate: threading.Event
) -> None:
    ran: list[int] = []
    busy = [pool.submit(gate.wait, WAIT) for _ in range(2)]
    execution = await run(pool, lambda arguments: ran.append(1), timeout=SOON)
    assert (execution.kind, execution.code) == ("error", "timeout")
    assert "not started" in execution.message
    gate.set()
    for future in busy:
        await asyncio.wrap_future(future)
    await pool.run(lambda: None)
    assert ran == []


async def test_when_too_many_hang_a_call_fails_at_once(pool: HandlerThreads, gate: threading.Event) -> None:
    hung = [await run(pool, lambda arguments: gate.wait(WAIT), timeout=SOON) for _ in range(2)]
    assert [execution.kind for execution in hung] == ["timeout", "timeout"]
    execution = await run(pool, lambda arguments: 1)
    assert (execution.kind, execution.code) == ("error", "tool_error")


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_callers_own_cancellation_passes_through(
    pool: HandlerThreads, gate: threading.Event, kind: str
) -> None:
    loop, started = asyncio.get_running_loop(), asyncio.Event()

    def synchronous(arguments: Any) -> None:
        loop.call_soon_threadsafe(started.set)
        gate.wait(WAIT)

    async def asynchronous(arguments: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run(pool, synchronous if kind == "sync" else asynchronous))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.hung == (kind == "sync")


async def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_never_starts(
    pool: HandlerThreads, gate: threading.Event
) -> None:
    ran: list[int] = []
    busy = [pool.submit(gate.wait, WAIT) for _ in range(2)]
    task = asyncio.create_task(run(pool, lambda arguments: ran.append(1)))
    await asyncio.sleep(0)  # let it ask for a thread
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    for future in busy:
        await asyncio.wrap_future(future)
    await pool.run(lambda: None)
    assert ran == []


async def test_async_handlers_do_not_share_the_thread_of_their_sync_parts(
    pool: HandlerThreads, gate: threading.Event
) -> None:
    second_ran = asyncio.Event()

    async def first(arguments: Any) -> Any:
        return await sync_to_async(gate.wait)(WAIT)

    async def second(arguments: Any) -> Any:
        idents = {await sync_to_async(threading.get_ident)() for _ in range(3)}
        second_ran.set()
        return len(idents)

    blocked = asyncio.create_task(run(pool, first))
    assert (await run(pool, second)).value == 1
    assert second_ran.is_set()
    assert not blocked.done()
    gate.set()
    assert (await blocked).value is True


async def test_an_async_handler_whose_sync_part_hangs_does_not_stop_the_loop(
    pool: HandlerThreads, gate: threading.Event
) -> None:
    async def handler(arguments: Any) -> Any:
        return await sync_to_async(gate.wait)(WAIT)

    assert (await run(pool, handler, timeout=SOON)).kind == "timeout"
    assert (await run(pool, lambda arguments: 1)).value == 1


async def test_the_thread_of_an_async_handlers_sync_parts_is_closed_down(gate: threading.Event) -> None:
    pool = HandlerThreads(1, 1, lambda: None, farewell=gate.set)

    async def handler(arguments: Any) -> Any:
        return await sync_to_async(lambda: "x")()

    assert (await run(pool, handler)).value == "x"
    assert await asyncio.to_thread(gate.wait, WAIT)


async def test_context_variables_reach_both_kinds(pool: HandlerThreads) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("here")
    for handler in both(lambda arguments: variable.get()):
        assert (await run(pool, handler)).value == "here"
