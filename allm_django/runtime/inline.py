"""Driving a session on the caller's own connection and thread, and what tests ask of it afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import nullcontext
from datetime import datetime
from typing import Any
from uuid import uuid4

from asgiref.sync import async_to_sync, sync_to_async

from allm_django.core.states import CallState, RunState
from allm_django.errors import AllmError, LeaseLostError
from allm_django.models import Message, Session, ToolCall
from allm_django.providers.base import Model
from allm_django.runtime.engine import make_driver
from allm_django.store import clock, expiry, leases, turns
from allm_django.store import sessions as rows
from allm_django.store.writing import Lease


def drive(session: Session, model: Model | None = None) -> Session:
    """Run the session's loop until it halts, on the caller's own connection: works inside ``TestCase``.

    ``model`` stands in for the engine's. Sync handlers and the ORM of async ones run in the caller's thread. Gives
    the session as it then is; does nothing if there is nothing to run.
    """
    async_to_sync(_drive)(session, model)
    return rows.get_session(session.pk)


def sweep(at: datetime | None = None) -> None:
    """Expire and escalate what is due at that time (None: now), as the sweeper does by itself; then ``drive``."""
    with clock.stopped_at(at) if at is not None else nullcontext():
        while expiry.fire_due():
            pass


def open_calls(session: Session) -> list[ToolCall]:
    """The calls that wait for a person, in the order in which they were made."""
    states = (CallState.PENDING, CallState.ASKING, CallState.UNKNOWN)
    return list(session.calls.filter(state__in=states).order_by("message__position", "position"))


def assert_halted(session: Session, reason: str) -> None:
    """Raise AssertionError unless the session's latest run halted with ``reason``."""
    run = session.runs.order_by("-created_at").first()
    found = run.halted_reason if run and run.state in (RunState.WAITING, RunState.ENDED) else "not halted"
    if found != reason:
        raise AssertionError(f"The session halted with {found!r}, not {reason!r}. {run.error if run else ''}")


def assert_called(session: Session, name: str, **arguments: Any) -> ToolCall:
    """The one call of ``name`` that ran or will run with (at least) these arguments; else AssertionError."""
    calls = [row for row in session.calls.filter(name=name) if arguments.items() <= (row.arguments or {}).items()]
    if len(calls) != 1:
        seen = [f"{row.name}({row.arguments})" for row in session.calls.all()]
        raise AssertionError(f"{len(calls)} calls of {name} with {arguments}; calls were {', '.join(seen) or 'none'}.")
    return calls[0]


async def _drive(session: Session, model: Model | None) -> None:
    lease: Lease | None = await _in_caller(leases.claim_run, session.pk, uuid4())
    if lease is None:
        return
    live = _NobodyWatches()
    try:
        driver = await make_driver(lease, _in_caller, live, _CallerThreads(), model)
        await driver.run()
    except LeaseLostError:
        await live.finish()
        raise
    except AllmError as error:
        await _in_caller(turns.fail_run, lease, error)
    except BaseException:
        live.drop()
        raise
    await live.finish()


async def _in_caller(function: Callable[..., Any], *args: Any) -> Any:
    return await sync_to_async(function)(*args)


class _CallerThreads:
    """Runs sync functions in the thread that drives, so that they share its connection and transaction."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it soon in the caller's thread."""
        future: Future[Any] = Future()

        async def work() -> None:
            try:
                future.set_result(await sync_to_async(function)(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        task = asyncio.ensure_future(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return future

    def give_up(self, future: Future[Any]) -> bool:
        """It may still end."""
        return False

    async def run(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """Run it and give what it returns or raises."""
        return await sync_to_async(function)(*args)

    def lane(self) -> _CallerThreads:
        """The same thread again."""
        return self

    def close(self) -> None:
        """Nothing to end."""


class _NobodyWatches:
    """No sockets: text and progress go nowhere; late results are waited for at the end."""

    def __init__(self) -> None:
        self._late: list[asyncio.Future[None]] = []

    def text(self, lease: Lease, message: Message, text: str) -> None:
        """Dropped: the whole text is on the message's row."""

    def forget(self, message: Message) -> bool:
        """Nothing was kept."""
        return False

    def progress(self, lease: Lease, call: ToolCall, fraction: float | None, text: str) -> None:
        """Dropped."""

    def late(self, work: Awaitable[None]) -> None:
        """Keep for the end."""
        self._late.append(asyncio.ensure_future(work))

    async def finish(self) -> None:
        """Wait for what came late."""
        await asyncio.gather(*self._late)

    def drop(self) -> None:
        """Nothing more is kept."""
        for work in self._late:
            work.cancel()
