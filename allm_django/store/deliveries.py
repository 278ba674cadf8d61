"""The rows of what is to be sent: claimed by one sender at a time, retried with growing pauses (H15)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from allm_django.conf import conf
from allm_django.core.encode import to_text, visible
from allm_django.models import Delivery
from allm_django.models.fields import Literal
from allm_django.store import clock
from allm_django.store.writing import alias

CLAIM = timedelta(seconds=120)  # for this long nobody else takes up what a sender holds: longer than any attempt takes
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=30), timedelta(hours=6)
KEPT = timedelta(days=30)  # how long what is done is to be seen in the admin
DIED = "The process that sent it ended meanwhile."


def claim() -> Delivery | None:
    """The delivery that has been due longest, held for this sender; None if there is none."""
    while (row := _due().order_by("next_at").first()) is not None:
        mine = _rows().filter(pk=row.pk, state=Delivery.State.WAITING, attempts=row.attempts, next_at=row.next_at)
        if row.attempts >= conf().NOTIFY_ATTEMPTS:
            mine.update(state=Delivery.State.FAILED, last_error=DIED, finished_at=clock.now())
            continue
        row.attempts, row.next_at = row.attempts + 1, clock.now() + CLAIM
        if mine.update(attempts=row.attempts, next_at=row.next_at):
            return row
    return None


def is_due() -> bool:
    """Whether there is something to send."""
    return _due().exists()


def fan_out(row: Delivery, addressed: Iterable[Delivery]) -> None:
    """Put ``addressed`` in the place of a claimed fan-out; nothing if another sender has done it."""
    now = clock.now()
    with transaction.atomic(using=alias()):
        if not _held(row).delete()[0]:
            return
        new = list(addressed)
        for delivery in new:
            delivery.event, delivery.session_id, delivery.call_id = row.event, row.session_id, row.call_id
            delivery.created_at, delivery.next_at = row.created_at, now
        _rows().bulk_create(new)


def finish(row: Delivery, state: Delivery.State, status: int | None = None) -> None:
    """A claimed delivery is sent, or no longer of use."""
    _held(row).update(state=state, last_status=status, last_error="", finished_at=clock.now())


def put_off(row: Delivery, error: str, status: int | None = None) -> None:
    """An attempt failed: try again later, or give up after the last. What goes the same way waits a little, too."""
    now, told = clock.now(), visible(" ".join(to_text(error).split()))[:300]
    if row.attempts >= conf().NOTIFY_ATTEMPTS:
        _held(row).update(state=Delivery.State.FAILED, last_status=status, last_error=told, finished_at=now)
        return
    _held(row).update(next_at=now + pause(row.attempts), last_status=status, last_error=told)
    _due().filter(channel=row.channel, webhook=row.webhook_id).update(next_at=now + pause(1))


def pause(attempts: int) -> timedelta:
    """How long to wait after so many attempts: 30 s, 1 min, 2 min, … 6 h, less up to a half by chance."""
    longest: timedelta = min(FIRST_PAUSE * 2 ** (attempts - 1), LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1)


def send_again(ids: Iterable[Any]) -> int:
    """Let these deliveries, done or given up, be sent once more; how many."""
    done = _rows().filter(pk__in=list(ids)).exclude(state=Delivery.State.WAITING)
    return done.update(state=Delivery.State.WAITING, attempts=0, next_at=clock.now(), finished_at=None)


def forget_old() -> None:
    """Remove what was done long ago."""
    _rows().filter(finished_at__lt=clock.now() - KEPT).delete()


def forget_session(session_id: UUID) -> None:
    """Remove what was told of a session."""
    _rows().filter(session_id=session_id).delete()


def _rows() -> QuerySet[Delivery]:
    return Delivery.objects.using(alias())


def _due(now: datetime | None = None) -> QuerySet[Delivery]:
    return _rows().filter(state=Literal(Delivery.State.WAITING.value), next_at__lte=now or clock.now())


def _held(row: Delivery) -> QuerySet[Delivery]:
    """``row`` as long as this sender's claim on it stands."""
    return _rows().filter(pk=row.pk, attempts=row.attempts, next_at=row.next_at, state=Delivery.State.WAITING)
