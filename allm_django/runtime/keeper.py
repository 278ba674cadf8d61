"""The keeper: a plain thread that renews leases, hears of cancels and decisions made elsewhere, sweeps up what the
dead left and what has waited too long, has notifications sent, writes the worker's heartbeat, and keeps SQLite's log
short. It never waits for the event loop, so a busy loop loses no lease.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connections

from allm_django.conf import conf
from allm_django.logs import get_logger
from allm_django.notify.sending import Senders
from allm_django.runtime.database import look_after_connections
from allm_django.store import deliveries, expiry, leases, workers
from allm_django.store.checkpoint import checkpoint

logger = get_logger("allm_django.runtime")
CHECKPOINT_SECONDS = 0.25
FORGET_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Duties:
    """What the keeper asks and tells; each function may be called from its thread."""

    at_work: Callable[[], Mapping[UUID, int]]  # session → fence of its lease
    hung_threads: Callable[[], int]
    wake: Callable[[UUID], None]
    cancel: Callable[[UUID, int], None]
    lost: Callable[[UUID, int], None]


@dataclass(slots=True)
class _Duty:
    """Something to do, and how many seconds to leave between."""

    do: Callable[[], None]
    pause: Callable[[], float]
    due: float = 0.0

    def do_if_due(self) -> None:
        if (now := time.monotonic()) >= self.due:
            self.do()
            self.due = now + self.pause()


class Keeper:
    """One a process, beside the runner's loop."""

    def __init__(self, worker: UUID, duties: Duties) -> None:
        self._worker = worker
        self._duties = duties
        self._stop = threading.Event()
        self._senders = Senders()
        self._asked = False
        self._has_log = True  # until the database says that it has none
        self._thread = threading.Thread(target=self._work, name="allm-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout: float) -> None:
        """End; the worker's row goes too."""
        self._stop.set()
        self._thread.join(timeout)
        self._senders.close(timeout)

    def _work(self) -> None:
        sweeping = [
            _Duty(self._sweep, lambda: conf().SWEEP_SECONDS),
            _Duty(self._senders.look, lambda: conf().POLL_SECONDS),
        ]
        duties = [
            _Duty(self._attend, lambda: conf().POLL_SECONDS),
            _Duty(self._renew, lambda: conf().RENEW_SECONDS),
            _Duty(deliveries.forget_old, lambda: FORGET_SECONDS),
            _Duty(self._checkpoint, lambda: CHECKPOINT_SECONDS),
        ]
        while not self._stop.is_set():
            try:
                look_after_connections()
                for duty in (*duties, *self._sweeping(sweeping)):
                    duty.do_if_due()
            except DatabaseError:
                logger.warning("The keeper could not reach the database; it tries again.", exc_info=True)
            soon = self._has_log and self._duties.at_work()
            self._stop.wait(CHECKPOINT_SECONDS if soon else conf().POLL_SECONDS)
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

    def sweep_once(self) -> None:
        """Sweep at the next turn, even where that is left to a periodic task (``SWEEPER``); from any thread."""
        self._asked = True

    def _sweeping(self, duties: Sequence[_Duty]) -> Sequence[_Duty]:
        """Those of these duties that are this keeper's now."""
        asked, self._asked = self._asked, False
        for duty in duties:
            duty.due = 0.0 if asked else duty.due
        return duties if asked or conf().SWEEPER else ()

    def _sweep(self) -> None:
        expiry.fire_due()
        for session_id in leases.sessions_to_run():
            self._duties.wake(session_id)

    def _checkpoint(self) -> None:
        if self._has_log and self._duties.at_work():
            self._has_log = checkpoint()

    def _leave(self) -> None:
        try:
            workers.leave(self._worker)
        except DatabaseError:
            logger.debug("The worker's row could not be removed.", exc_info=True)
        finally:
            connections.close_all()
