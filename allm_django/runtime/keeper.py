"""The keeper: a plain thread that renews leases, hears of cancels and decisions made elsewhere, sweeps up what the
dead left, and writes the worker's heartbeat. It never waits for the event loop, so a busy loop loses no lease.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connections

from allm_django.conf import conf
from allm_django.runtime.database import look_after_connections
from allm_django.store import leases, workers

logger = logging.getLogger("allm_django.runtime")


@dataclass(frozen=True, slots=True)
class Duties:
    """What the keeper asks and tells; each function may be called from its thread."""

    at_work: Callable[[], Mapping[UUID, int]]  # session → fence of its lease
    hung_threads: Callable[[], int]
    wake: Callable[[UUID], None]
    cancel: Callable[[UUID, int], None]
    lost: Callable[[UUID, int], None]


class Keeper:
    """One a process, beside the runner's loop."""

    def __init__(self, worker: UUID, duties: Duties) -> None:
        self._worker = worker
        self._duties = duties
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="allm-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout: float) -> None:
        """End; the worker's row goes too."""
        self._stop.set()
        self._thread.join(timeout)

    def _work(self) -> None:
        next_renewal = next_sweep = 0.0
        while not self._stop.is_set():
            now = time.monotonic()
            try:
                look_after_connections()
                self._attend()
                if now >= next_renewal:
                    self._renew()
                    next_renewal = now + conf().RENEW_SECONDS
                if now >= next_sweep and conf().SWEEPER:
                    for session_id in leases.sessions_to_run():
                        self._duties.wake(session_id)
                    next_sweep = now + conf().SWEEP_SECONDS
            except DatabaseError:
                logger.warning("The keeper could not reach the database; it tries again.", exc_info=True)
            self._stop.wait(conf().POLL_SECONDS)
        self._leave()

    def _attend(self) -> None:
        if not (at_work := self._duties.at_work()):
            return
        cancelled, ready = leases.sessions_to_attend(self._worker, at_work)
        for session_id in cancelled:
            self._duties.cancel(session_id, at_work[session_id])
        for session_id in ready:
            self._duties.wake(session_id)

    def _renew(self) -> None:
        at_work = self._duties.at_work()
        if at_work:
            for session_id in leases.renew_leases(self._worker, at_work):
                self._duties.lost(session_id, at_work[session_id])
        workers.beat(self._worker, sessions=len(at_work), hung_threads=self._duties.hung_threads())

    def _leave(self) -> None:
        try:
            workers.leave(self._worker)
        except DatabaseError:
            logger.debug("The worker's row could not be removed.", exc_info=True)
        finally:
            connections.close_all()
