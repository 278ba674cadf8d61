"""Celery as ``ALLM["DISPATCH"]``: "allm_django.runtime.dispatch.celery.Celery" (E06).

``celery -A project worker --pool threads --concurrency 200``: a task waits, without work, for as long as its session
is driven. Which broker, is the host project's choice; no results are kept.
"""

from __future__ import annotations

from threading import Thread
from typing import Any
from uuid import UUID

from allm_django import runtime
from allm_django.runtime.dispatch import queued
from allm_django.runtime.runner import runner

try:
    from celery import shared_task, signals
except ImportError as error:
    raise queued.missing("celery", error) from error


@shared_task(name="allm_django.advance", ignore_result=True)  # type: ignore[untyped-decorator]
def advance(session_id: str) -> None:
    """Drive a session in this worker."""
    queued.advance(session_id).result()


@shared_task(name="allm_django.sweep", ignore_result=True)  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Take up what nobody works on; for Celery's beat."""
    queued.sweep()


class Celery(queued.Queued):
    """Puts wake-ups into the default Celery app's queue."""

    def enqueue(self, session_id: UUID) -> None:
        """One try: a web request does not wait for a broker that is away."""
        advance.apply_async((str(session_id),), retry=False)


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def _begin(**_: Any) -> None:
    """A worker sweeps and beats from the start."""
    runner.ensure_started()


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _drain(**_: Any) -> None:
    """SIGTERM: break off, give leases back, so that the tasks end. In a thread: this is a signal's handler."""
    Thread(target=runtime.shutdown, name="allm-drain").start()
