"""Driving a session on this very thread, text stored piece by piece as it comes: many lives take little time.

The journal, the driver, the writing of text and the replay are those of the product; only threads and timers are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

from django.db import connections

from allm_django.loop import points
from allm_django.models import Message, Session, ToolCall
from allm_django.providers.base import Model
from allm_django.runtime.engine import make_driver
from allm_django.store import leases
from allm_django.store.chunks import Chunk, write_chunks
from allm_django.store.writing import Lease, alias


class Crash(BaseException):
    """The process is gone; nothing in it may catch this."""


class StoringText:
    """Stores each piece of text at once."""

    def __init__(self) -> None:
        self.offsets: dict[UUID, int] = {}

    def text(self, lease: Lease, message: Message, text: str) -> None:
        """Store it, as the runner does at its next tick."""
        chunk = Chunk(lease, message.id, self.offsets.get(message.id, 0), text)
        self.offsets[message.id] = chunk.offset + len(text)
        points.point("flush:before")
        write_chunks([chunk])
        points.point("flush:after")

    def forget(self, message: Message) -> bool:
        """Whether pieces of it were stored."""
        return self.offsets.pop(message.id, None) is not None

    def progress(self, lease: Lease, call: ToolCall, fraction: float | None, text: str) -> None:
        """Nobody looks."""

    def late(self, work: Awaitable[None]) -> None:
        """No handler here takes longer than it may."""
        work.close()  # type: ignore[attr-defined]


class ThisThread:
    """Runs sync handlers where they are asked for."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Run it now."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def give_up(self, future: Future[Any]) -> bool:
        """It has ended."""
        return False

    async def run(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """Run it now."""
        return function(*args)

    def lane(self) -> Any:
        """No handler here is async."""
        raise NotImplementedError


async def here(function: Callable[..., Any], *args: Any) -> Any:
    """A transaction, after whatever else is ready to go on."""
    await asyncio.sleep(0)
    return function(*args)


def drive_here(runner: asyncio.Runner, session: Session, model: Model) -> None:
    """Drive to the next halt. A :class:`Crash` leaves everything as it is."""
    with suppress(Crash):
        lease = leases.claim_run(session.pk, uuid4())
        if lease is not None:
            runner.run(_drive(lease, model, connections[alias()]))


async def _drive(lease: Lease, model: Model, connection: Any) -> None:
    connections[alias()] = connection  # Django would open another one inside a loop
    driver = await make_driver(lease, here, StoringText(), ThisThread(), model)
    await driver.run()
