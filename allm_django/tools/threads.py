"""Threads for sync handlers: bounded, cleaned after each call, and replaced when a handler hangs (T17)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from allm_django.errors import ToolError
from allm_django.logs import get_logger

logger = get_logger("allm_django.tools")

IDLE_SECONDS = 60.0  # after which a thread without work ends


class SyncExecutor(Protocol):
    """Runs sync functions for async callers."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Start ``function(*args)`` soon; never blocks. Raises ToolError if nothing could run it."""

    def give_up(self, future: Future[Any]) -> bool:
        """Wait no longer for what :meth:`submit` gave. True: it never started, and won't. False: it may still end."""

    async def run(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """Run it and give what it returns or raises; a cancelled caller gives up."""

    def lane(self) -> Lane:
        """A thread of its own, for the sync parts of one async handler."""


class Lane(Protocol):
    """One thread, which starts with its first work."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run in turn."""

    def close(self) -> None:
        """Take no more work; never blocks."""


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)

    def run(self, cleanup: Callable[[], None]) -> Callable[[], None]:
        """Run it and clean the thread; what is given back tells whoever waits, who so finds a clean thread."""
        try:
            result = self.work()
            tell = partial(self.future.set_result, result)
        except BaseException as raised:  # SystemExit in a handler ends the call, not the thread
            tell = partial(self.future.set_exception, _carried(raised))
        _quietly(cleanup)
        return tell


def _carried(error: BaseException) -> BaseException:
    """``error``, or one that a future can carry: it would take these for something else."""
    if not isinstance(error, (StopIteration, asyncio.CancelledError)):
        return error
    wrapped = RuntimeError(f"{type(error).__name__} was raised")
    wrapped.__cause__ = error
    return wrapped


def _quietly(function: Callable[[], None]) -> None:
    try:
        function()
    except Exception:
        logger.exception("Cleaning a handler's thread failed")


class HandlerThreads:
    """At most ``size`` working daemon threads, started when needed.

    A thread whose work was given up counts as hung; up to ``spare`` of those are replaced. When more hang, new work is
    refused with ToolError until some come back. ``cleanup`` runs in the thread after each call; ``farewell`` (default:
    the same) when a thread ends, to close what it holds. Work submitted from inside a handler's thread runs there and
    then, so a tool called by a tool shares its thread and database connection, and no pool waits for itself.
    """

    def __init__(
        self, size: int, spare: int, cleanup: Callable[[], None], *, farewell: Callable[[], None] | None = None
    ) -> None:
        self.size, self.spare = size, spare
        self._cleanup, self._farewell = cleanup, farewell or cleanup
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._running: dict[Future[Any], bool] = {}  # of the jobs that run: is it hung?
        self._threads = self._idle = 0
        self._closed = False
        self._inside = threading.local()

    @property
    def hung(self) -> int:
        """How many threads run something that nobody waits for any more."""
        with self._changed:
            return self._hung()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``function`` in a thread, with a copy of the caller's context variables."""
        context = contextvars.copy_context()
        job = _Job(lambda: context.run(function, *args, **kwargs))
        if getattr(self._inside, "handler", False):
            job.future.set_running_or_notify_cancel()
            job.run(_nothing)()  # the outer handler still needs its connections
            return job.future
        with self._changed:
            if self._closed:
                raise ToolError("This worker is shutting down; the tool was not started.")
            if self._hung() > self.spare:
                raise ToolError("Too many tools hang on this worker; the tool was not started. Try again later.")
            self._jobs.append(job)
            self._staff()
        return job.future

    def give_up(self, future: Future[Any]) -> bool:
        """Take ``future`` off the queue (True), or count its thread as hung until it comes back (False)."""
        with self._changed:
            if future.cancel():
                return True
            if future in self._running:
                self._running[future] = True
                self._staff()
            return False

    async def run(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """Run ``function`` and give what it returns or raises."""
        future = self.submit(function, *args)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self.give_up(future)
            raise

    def lane(self) -> HandlerThreads:
        """One thread with the same farewell, for the sync parts of one async handler."""
        return HandlerThreads(1, 0, _nothing, farewell=self._farewell)

    def close(self) -> None:
        """Take no more work, drop what has not started, let idle threads end. Never waits for a handler."""
        with self._changed:
            self._closed = True
            dropped, self._jobs = self._jobs, deque()
            self._changed.notify_all()
        for job in dropped:
            job.future.cancel()

    def _hung(self) -> int:
        return sum(self._running.values())

    def _limit(self) -> int:
        return self.size + min(self._hung(), self.spare)

    def _staff(self) -> None:
        """See that somebody takes the waiting jobs; under the lock."""
        if len(self._jobs) > self._idle and self._threads < self._limit():
            self._threads += 1
            threading.Thread(target=self._work, name="allm-handler", daemon=True).start()
        elif self._jobs:
            self._changed.notify()

    def _work(self) -> None:
        self._inside.handler = True
        while (job := self._next()) is not None:
            tell = job.run(self._cleanup) if job.future.set_running_or_notify_cancel() else _nothing
            with self._changed:
                self._running.pop(job.future, None)
            tell()
        _quietly(self._farewell)

    def _next(self) -> _Job | None:
        """The next job, or None when this thread is one too many, or has waited long enough."""
        with self._changed:
            waited = True
            while waited and not self._jobs and not self._closed and self._threads <= self._limit():
                self._idle += 1
                waited = self._changed.wait(IDLE_SECONDS)
                self._idle -= 1
            if not self._jobs or self._threads > self._limit():
                self._threads -= 1
                return None
            job = self._jobs.popleft()
            self._running[job.future] = False
            return job


def _nothing() -> None:
    """Do nothing."""
