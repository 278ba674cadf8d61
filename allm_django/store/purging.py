"""Removing sessions for good: by age, or all of one person's; a tombstone stays for each (H14)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Model, QuerySet

from allm_django.core.states import SessionStatus
from allm_django.errors import StateError
from allm_django.models import Decision, Event, IdempotencyKey, Message, MessageChunk, Run, Session, Tombstone, ToolCall
from allm_django.store import deliveries, tombstones
from allm_django.store.verifying import Verification
from allm_django.store.writing import alias, take_write_lock

PAGE = 100
AT_REST = (SessionStatus.IDLE, SessionStatus.COMPLETED, SessionStatus.ERROR)
COUNTED: dict[str, type[Model]] = {
    "messages": Message,
    "calls": ToolCall,
    "decisions": Decision,
    "runs": Run,
    "events": Event,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions are to go: untouched since ``before``, or all of the person with this key."""

    before: datetime | None = None
    owner: Any = None

    @property
    def why(self) -> str:
        """The tombstones' word."""
        return Tombstone.Why.ERASURE if self.before is None else Tombstone.Why.RETENTION

    def rows(self) -> QuerySet[Session]:
        """The sessions, whether they are at rest or not."""
        rows = Session.objects.using(alias()).order_by("pk")
        return rows.filter(owner=self.owner) if self.before is None else rows.filter(updated_at__lt=self.before)


def session_ids(wanted: Wanted) -> Iterator[UUID]:
    """The ids of the sessions at rest that are wanted, read page by page."""
    rows = wanted.rows().filter(status__in=AT_REST).values_list("pk", flat=True)
    page = list(rows[:PAGE])
    while page:
        yield from page
        page = list(rows.filter(pk__gt=page[-1])[:PAGE])


def count_open(wanted: Wanted) -> int:
    """How many of the wanted sessions are at work or wait for someone, and so stay."""
    return wanted.rows().exclude(status__in=AT_REST).count()


def purge_session(session_id: UUID, wanted: Wanted) -> Tombstone | None:
    """Remove a session with all that is below it, in one transaction under its lock; leave a tombstone.

    None when it is no longer there or no longer wanted. Raises StateError while it is at work or waits for someone.
    """
    using = alias()
    with transaction.atomic(using=using):
        take_write_lock(using, [session_id])
        session = wanted.rows().select_for_update().filter(pk=session_id).first()
        if session is None:
            return None
        if session.status not in AT_REST:
            raise StateError("The session is at work or waits for someone; cancel it first.", state=session.status)
        counts = {name: _of(model, session).count() for name, model in COUNTED.items()}
        intact = not any(Verification(session.pk).broken())
        # before anything goes: PostgreSQL's triggers let go only of what has a tombstone
        stone = tombstones.lay(session, wanted.why, counts, intact=intact)
        _remove(session)
    return stone


def forget(owner: Any) -> None:
    """Remove what is kept of a person's requests besides their sessions."""
    IdempotencyKey.objects.using(alias()).filter(user=owner).delete()


def _remove(session: Session) -> None:
    """The long tables by their own statements; what else hangs on the session goes with its row."""
    ids = [session.pk, *_of(ToolCall, session).values_list("pk", flat=True)]
    ids += _of(Message, session).values_list("pk", flat=True)
    IdempotencyKey.objects.using(alias()).filter(object_id__in=ids).delete()
    deliveries.forget_session(session.pk)
    for rows in (_of(Event, session), _of(Decision, session)):
        rows._raw_delete(alias())  # their own delete refuses
    MessageChunk.objects.using(alias()).filter(message__session=session).delete()
    Session.objects.using(alias()).filter(pk=session.pk).update(active_run=None)
    session.active_run = None
    session.delete(using=alias())


def _of(model: type[Any], session: Session) -> QuerySet[Any]:
    rows: QuerySet[Any] = model._base_manager.using(alias()).filter(session=session)
    return rows
