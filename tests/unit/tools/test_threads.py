"""The pool of handler threads: bounded, clean, and alive when handlers hang (T17)."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from allm_django.errors import ToolError
from allm_django.tools.threads import HandlerThreads

WAIT = 20  # seconds after which a test gives up; nothing here takes that long


def nothing() -> None:
    pass


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


def make(size: int = 2, spare: int = 1, **options: Any) -> HandlerThreads:
    return HandlerThreads(size, spare, options.pop("cleanup", nothing), **options)


def hang(pool: HandlerThreads, gate: threading.Event) -> Any:
    """Start something that waits for the gate, and give it up once it runs."""
    started = threading.Event()

    def wait() -> str:
        started.set()
        gate.wait(WAIT)
        return "late"

    future = pool.submit(wait)
    assert started.wait(WAIT)
    assert pool.give_up(future) is False
    return future


@pytest.mark.asyncio
async def test_work_runs_elsewhere_and_gives_its_result_or_error() -> None:
    pool = make()
    assert await pool.run(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 / 0)
    pool.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError])
async def test_errors_that_mean_something_to_a_future_do_not_confuse_it(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError) as caught:
        await make().run(fail)
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.asyncio
async def test_context_variables_are_copied() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("outer")

    def work() -> str:
        seen = variable.get()
        variable.set("inner")
        return seen

    assert await make().run(work) == "outer"
    assert variable.get() == "outer"


def test_never_more_threads_than_its_size(gate: threading.Event) -> None:
    pool, seen, lock = make(size=2), set(), threading.Lock()

    def work() -> None:
        with lock:
            seen.add(threading.current_thread())

    first = [pool.submit(gate.wait, WAIT) for _ in range(2)]
    rest = [pool.submit(work) for _ in range(20)]
    assert not any(future.done() for future in rest)
    gate.set()
    for future in first + rest:
        future.result(WAIT)
    assert len(seen) <= 2
    pool.close()


def test_each_thread_is_cleaned_after_each_call_before_its_result_is_known() -> None:
    cleaned: list[int] = []
    pool = make(cleanup=lambda: cleaned.append(threading.get_ident()))
    for count in range(1, 4):
        ident = pool.submit(threading.get_ident).result(WAIT)
        assert len(cleaned) == count
        assert cleaned[-1] == ident
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result(WAIT)
    assert len(cleaned) == 4
    pool.close()


def test_a_failing_cleanup_costs_neither_result_nor_thread(caplog: pytest.LogCaptureFixture) -> None:
    pool = make(size=1, cleanup=lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    assert [pool.submit(lambda: 1).result(WAIT) for _ in range(2)] == [1, 1]
    assert "Cleaning a handler's thread failed" in caplog.text


def test_a_hung_thread_is_replaced_and_its_late_result_arrives(gate: threading.Event) -> None:
    pool = make(size=1, spare=1)
    late = hang(pool, gate)
    assert pool.hung == 1
    assert pool.submit(lambda: "next").result(WAIT) == "next"
    gate.set()
    assert late.result(WAIT) == "late"
    assert pool.submit(lambda: "after").result(WAIT) == "after"
    assert pool.hung == 0


def test_work_that_waits_gets_the_replacement(gate: threading.Event) -> None:
    pool = make(size=1, spare=1)
    started = threading.Event()
    hanging = pool.submit(lambda: (started.set(), gate.wait(WAIT)))
    waiting = pool.submit(lambda: "went on")
    assert started.wait(WAIT)
    pool.give_up(hanging)
    assert waiting.result(WAIT) == "went on"


def test_when_too_many_hang_new_work_is_refused_at_once_until_one_comes_back(gate: threading.Event) -> None:
    pool, other = make(size=2, spare=1), threading.Event()
    hang(pool, gate)
    late = hang(pool, other)
    with pytest.raises(ToolError, match="hang"):
        pool.submit(lambda: 1)
    other.set()
    late.result(WAIT)
    assert pool.submit(lambda: 1).result(WAIT) == 1


def test_what_has_not_started_can_be_taken_back(gate: threading.Event) -> None:
    pool, ran = make(size=1), []
    first = pool.submit(gate.wait, WAIT)
    second = pool.submit(ran.append, 1)
    assert pool.give_up(second) is True
    gate.set()
    first.result(WAIT)
    pool.submit(nothing).result(WAIT)
    assert ran == []
    assert pool.hung == 0


@pytest.mark.asyncio
async def test_a_cancelled_caller_gives_up(gate: threading.Event) -> None:
    pool, loop, started = make(size=1), asyncio.get_running_loop(), asyncio.Event()

    def work() -> None:
        loop.call_soon_threadsafe(started.set)
        gate.wait(WAIT)

    task = asyncio.create_task(pool.run(work))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.hung == 1


def test_work_from_inside_a_handler_runs_in_that_handlers_thread() -> None:
    cleaned: list[int] = []
    pool = make(size=1, spare=0, cleanup=lambda: cleaned.append(1))

    def outer() -> list[Any]:
        inner = asyncio.run(pool.run(threading.get_ident))
        return [threading.get_ident(), inner, pool.submit(threading.get_ident).result(WAIT), len(cleaned)]

    here, there, again, cleanings = pool.submit(outer).result(WAIT)
    assert here == there == again
    assert cleanings == 0


def test_close_ends_idle_threads_drops_what_waits_and_never_blocks(gate: threading.Event) -> None:
    farewells = threading.Semaphore(0)
    pool = make(size=1, farewell=farewells.release)
    started = threading.Event()
    running = pool.submit(lambda: (started.set(), gate.wait(WAIT)))
    assert started.wait(WAIT)
    waiting = pool.submit(lambda: 1)
    pool.close()
    assert waiting.cancelled()
    with pytest.raises(ToolError, match="shutting down"):
        pool.submit(lambda: 1)
    gate.set()
    assert running.result(WAIT) == (None, True)
    assert farewells.acquire(timeout=WAIT)


def test_a_lane_is_one_thread_with_the_same_farewell() -> None:
    farewells: list[int] = []
    told = threading.Event()

    def farewell() -> None:
        farewells.append(threading.get_ident())
        told.set()

    lane = make(farewell=farewell).lane()
    idents = {lane.submit(threading.get_ident).result(WAIT) for _ in range(5)}
    lane.close()
    assert told.wait(WAIT)
    assert set(farewells) == idents
    assert len(idents) == 1


def test_a_hung_handler_does_not_keep_the_process_from_ending() -> None:
    program = (
        "import threading\n"
        "from allm_django.tools.threads import HandlerThreads\n"
        "started = threading.Event()\n"
        "pool = HandlerThreads(1, 0, lambda: None)\n"
        "pool.submit(lambda: (started.set(), threading.Event().wait()))\n"
        "started.wait()\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=WAIT, check=False).returncode == 0
