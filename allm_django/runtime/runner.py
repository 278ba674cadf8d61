"""The runner: one event loop in a thread of its own, started on first use. The same in a web process and in a worker.

Nothing is started at import or in ``ready()``, so a server may fork first; a forked child has a runner of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import os
import threading
import uuid
from concurrent.futures import Future
from contextvars import Context
from uuid import UUID

from django.db import Error as DatabaseError

from allm_django.conf import database_threads
from allm_django.errors import AllmError, LeaseLostError
from allm_django.logs import get_logger, set_ids
from allm_django.loop.advance import Driver
from allm_django.loop.environment import threads
from allm_django.loop.points import at
from allm_django.runtime.database import DatabaseThreads
from allm_django.runtime.engine import make_driver
from allm_django.runtime.keeper import Duties, Keeper
from allm_django.runtime.stream import LiveStream
from allm_django.store import leases, turns
from allm_django.store.writing import Lease

logger = get_logger("allm_django.runtime")
INTERNAL = "Something unexpected went wrong while the assistant worked. It can be tried again."


class Runner:
    """Drives the sessions that this process is woken for. Every public method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = 0
        self.worker_id = uuid.uuid4()
        self._drives: dict[UUID, asyncio.Task[None]] = {}
        self._leases: dict[UUID, Lease] = {}
        self._drivers: dict[UUID, Driver] = {}
        self._again: set[UUID] = set()
        self._stopping = False
        self._closing = 0  # the process that is stopping its runner: nothing may start another beside it

    def ensure_started(self) -> None:
        """Start the loop's thread and the keeper, once a process; nothing while it is being stopped."""
        if os.getpid() in (self._pid, self._closing):
            return
        with self._lock:
            if os.getpid() in (self._pid, self._closing):
                return
            self.worker_id = uuid.uuid4()
            self._drives, self._leases, self._drivers, self._again, self._stopping = {}, {}, {}, set(), False
            self._loop = _new_loop()
            self._database = DatabaseThreads(database_threads())
            self._live = LiveStream(self._loop, self._database.run)
            self._thread = threading.Thread(target=self._loop.run_forever, name="allm-runner", daemon=True)
            duties = Duties(self._at_work, lambda: threads().hung, self.wake, self._cancel, self._lost)
            self._keeper = Keeper(self.worker_id, duties)
            self._thread.start()
            self._keeper.start()
            self._pid = os.getpid()
            atexit.register(self.shutdown)

    @property
    def running(self) -> bool:
        """Whether this process has a runner."""
        return self._pid == os.getpid()

    def wake(self, session_id: UUID) -> None:
        """There may be something to run in this session. Losing it or hearing it twice changes nothing."""
        self.ensure_started()
        if self.running:  # else the sweeper of another process finds the session
            self._soon(self._wake, session_id)

    def sweep(self) -> None:
        """Take up, soon, what nobody works on, and whose time has come; for a queue's periodic task."""
        self.ensure_started()
        if self.running:
            self._keeper.sweep_once()

    def drive(self, session_id: UUID) -> Future[None]:
        """The same; what is returned is done when nobody drives the session in this process any more."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()

        def begin(session_id: UUID) -> None:
            self._wake(session_id)
            if task := self._drives.get(session_id):
                task.add_done_callback(lambda _: done.set_result(None))
            else:
                done.set_result(None)

        self.ensure_started()
        if not (self.running and self._soon(begin, session_id)):
            done.set_result(None)
        return done

    def shutdown(self, timeout: float = 10.0) -> None:
        """Stop cleanly: no new work, answers are broken off, leases given back, within ``timeout`` seconds."""
        with self._lock:
            if not self.running:
                return
            self._closing, self._pid = self._pid, 0
        try:
            self._close(timeout)
        finally:
            self._closing = 0

    def _close(self, timeout: float) -> None:
        atexit.unregister(self.shutdown)
        self._keeper.close(timeout)
        future = asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop)
        try:
            future.result(timeout)
        except TimeoutError:
            logger.warning("Some work did not end in time; another worker takes it up when its lease runs out.")
        self._database.close(timeout)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._loop.close()

    # -- on the loop ---------------------------------------------------------------------------------------------

    def _soon(self, function: object, session_id: UUID) -> bool:
        try:
            self._loop.call_soon_threadsafe(function, session_id)  # type: ignore[arg-type]
        except RuntimeError:
            logger.debug("A wake-up came after the runner had stopped; the sweeper will find the session.")
            return False
        return True

    def _wake(self, session_id: UUID) -> None:
        if self._stopping:
            return
        if session_id in self._drives:
            self._again.add(session_id)
            if driver := self._drivers.get(session_id):
                driver.journal.woken.set()
            return
        # a context of its own: the trace and ids of whoever woke it are not the run's
        task = self._loop.create_task(self._drive(session_id), name=f"allm-{session_id}", context=Context())
        self._drives[session_id] = task

    async def _drive(self, session_id: UUID) -> None:
        """Claim and drive, again as long as wake-ups came meanwhile."""
        try:
            while True:
                self._again.discard(session_id)
                await self._drive_once(session_id)
                if self._stopping or session_id not in self._again:
                    return
        except DatabaseError:
            logger.warning("Session %s: the database failed; the sweeper takes it up again.", session_id, exc_info=True)
        finally:
            self._drives.pop(session_id, None)
            if session_id in self._again and not self._stopping:
                self._wake(session_id)

    async def _drive_once(self, session_id: UUID) -> None:
        lease: Lease | None = await at("claim", self._database.run(leases.claim_run, session_id, self.worker_id))
        if lease is None:
            return
        set_ids(lease.request_id, str(session_id))
        self._leases[session_id] = lease
        try:
            driver = await at("prepare", make_driver(lease, self._database.run, self._live, threads()))
            self._drivers[session_id] = driver
            if self._stopping:
                driver.stop()
            if await driver.run() is None:
                await at("release", self._database.run(leases.release_lease, lease))
        except LeaseLostError:
            logger.info("Session %s: another worker has taken over.", session_id)
        except AllmError as error:
            await self._fail(lease, error)
        except (DatabaseError, asyncio.CancelledError):
            raise
        except Exception as error:
            logger.exception("Session %s: the engine failed.", session_id)
            await self._fail(lease, AllmError(INTERNAL, detail=f"{type(error).__name__}: {error}"))
        finally:
            del self._leases[session_id]
            self._drivers.pop(session_id, None)

    async def _fail(self, lease: Lease, error: AllmError) -> None:
        try:
            await at("fail", self._database.run(turns.fail_run, lease, error))
        except LeaseLostError:
            logger.info("Session %s: another worker has taken over.", lease.session_id)

    async def _wind_up(self) -> None:
        self._stopping = True
        for driver in self._drivers.values():
            driver.stop()
        if self._drives:
            await asyncio.wait(list(self._drives.values()))
        await self._live.close()
        await self._loop.shutdown_asyncgens()  # closes the providers' connections, which live as long as their loop

    def _at_work(self) -> dict[UUID, int]:
        return {session_id: lease.fence for session_id, lease in self._leases.copy().items()}

    def _cancel(self, session_id: UUID, fence: int) -> None:
        def tell(session_id: UUID) -> None:
            lease, driver = self._leases.get(session_id), self._drivers.get(session_id)
            if driver is not None and lease is not None and lease.fence == fence:  # not the next run's
                driver.journal.cancelled.set()
                driver.journal.woken.set()

        self._soon(tell, session_id)

    def _lost(self, session_id: UUID, fence: int) -> None:
        def drop(session_id: UUID) -> None:
            lease = self._leases.get(session_id)
            if lease is not None and lease.fence == fence:
                self._drives[session_id].cancel()

        self._soon(drop, session_id)


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (uvicorn[standard] brings it): less work for each piece of a stream."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


runner = Runner()
