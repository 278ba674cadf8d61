"""What the task queues have in common: a process that puts wake-ups into a queue, and workers that take them out (E06).

Web processes run nothing then: they enqueue. A worker has this process's one runner (its loop, its leases, its
sweeper), and a task hands over to it: the task lasts as long as the session is driven here, so that the queue's own
limits and its clean stop hold, and costs no connection meanwhile. Tasks may be lost or come twice.
"""

from __future__ import annotations

from concurrent.futures import Future
from uuid import UUID

from allm_django.errors import MissingExtraError
from allm_django.logs import get_logger
from allm_django.runtime.runner import runner

logger = get_logger("allm_django.runtime")


class Queued:
    """The base of dispatches that put wake-ups into a queue. A worker, which has a runner, needs none for itself."""

    queued = True

    def wake(self, session_id: UUID) -> None:
        """Put it into the queue; one that is down is no error, the sweeper finds the session."""
        if runner.running:
            runner.wake(session_id)
            return
        try:
            self.enqueue(session_id)
        except Exception as error:  # each queue has its own kinds
            logger.warning("Session %s could not be put into the queue (%s); the sweeper finds it.", session_id, error)

    def enqueue(self, session_id: UUID) -> None:
        """Let a worker call :func:`advance`."""
        raise NotImplementedError


def advance(session_id: str) -> Future[None]:
    """A task's body: drive the session in this worker; the future is done when nobody drives it here any more."""
    return runner.drive(UUID(session_id))


def sweep() -> None:
    """The periodic task's body: what nobody works on, deadlines, notices. Done by the worker's keeper."""
    runner.sweep()


def missing(extra: str, error: ImportError) -> MissingExtraError:
    """The error for a queue's library that is not installed."""
    return MissingExtraError(f'{error}: an optional dependency is missing; pip install "allm-django[{extra}]"')
