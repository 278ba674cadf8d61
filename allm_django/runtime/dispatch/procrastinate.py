"""procrastinate as ``ALLM["DISPATCH"]``: "allm_django.runtime.dispatch.procrastinate.Procrastinate" (E06).

``manage.py procrastinate worker --concurrency 200 --shutdown-graceful-timeout 10``: a task waits, without work, for as
long as its session is driven. The queue is a table of PostgreSQL; no other service is needed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

from allm_django import runtime
from allm_django.runtime.dispatch import queued

try:
    from procrastinate.contrib.django import app
    from procrastinate.exceptions import AlreadyEnqueued
except ImportError as error:
    raise queued.missing("procrastinate", error) from error

QUEUE = "allm_django"


@app.task(name="allm_django.advance", queue=QUEUE)
async def advance(session_id: str) -> None:
    """Drive a session in this worker. Told to end, the worker's runner breaks off and gives the lease back."""
    try:
        await asyncio.wrap_future(queued.advance(session_id))
    except asyncio.CancelledError:
        await asyncio.to_thread(runtime.shutdown)
        raise


@app.periodic(cron="* * * * * */10")
@app.task(name="allm_django.sweep", queue=QUEUE, queueing_lock="allm_django.sweep")
def sweep(timestamp: int) -> None:
    """Take up what nobody works on, every ten seconds."""
    queued.sweep()


class Procrastinate(queued.Queued):
    """Puts wake-ups into procrastinate's table, each session once."""

    def enqueue(self, session_id: UUID) -> None:
        """A session that is in the queue already needs no second place."""
        with suppress(AlreadyEnqueued):
            advance.configure(queueing_lock=f"allm_django.{session_id}").defer(session_id=str(session_id))
