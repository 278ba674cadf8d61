"""The runner's own threads for database work: whole transactions, off the event loop (findings.md)."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import connections

T = TypeVar("T")
Job = tuple[asyncio.Future[Any], asyncio.AbstractEventLoop, contextvars.Context, Callable[..., Any], tuple[Any, ...]]


class DatabaseThreads:
    """A few daemon threads that run transactions in the order given; their connections are kept and looked after."""

    def __init__(self, size: int) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"allm-database-{number}", daemon=True) for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run ``function(*args)`` in one of the threads, with a copy of the caller's context variables;
        what it raises is raised here.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((future, loop, contextvars.copy_context(), function, args))
        return await future

    def close(self, timeout: float) -> None:
        """End the threads once they have done what was given to them; closes their connections."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, loop, context, function, args = job
            try:
                look_after_connections()
                outcome, failed = context.run(function, *args), False
            except BaseException as error:
                outcome, failed = error, True
            try:
                loop.call_soon_threadsafe(_tell, future, outcome, failed)
            except RuntimeError:
                if not loop.is_closed():
                    raise
            del job, future, context, outcome
        connections.close_all()


def look_after_connections() -> None:
    """Close this thread's connections that are broken or too old; before each job.

    ``CONN_MAX_AGE`` 0, Django's default, would mean a new connection for each transaction: here it means to keep it,
    unless a pool hands them out.
    """
    for connection in connections.all(initialized_only=True):
        options = connection.settings_dict
        if options["CONN_MAX_AGE"] == 0 and not options["OPTIONS"].get("pool"):
            connection.close_at = None
        connection.close_if_unusable_or_obsolete()


def _tell(future: asyncio.Future[Any], outcome: Any, failed: bool) -> None:
    if future.done():
        return
    if failed:
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
