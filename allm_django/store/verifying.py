"""Checking the chains of decisions, in constant memory (H14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from allm_django.models import Decision, Session, Tombstone
from allm_django.store.chain import BROKEN, audit_keys, is_sealed, is_signed
from allm_django.store.tombstones import is_genuine
from allm_django.store.writing import alias, take_write_lock

PAGE = 500  # sessions or decisions held at a time


@dataclass(frozen=True, slots=True)
class Broken:
    """Where a session's chain breaks first: ``kind`` is ``changed``, ``missing``, ``added``, ``seal`` or
    ``tombstone``.
    """

    session_id: UUID
    kind: str
    number: int
    words: str


@dataclass(slots=True)
class Verification:
    """One check of all chains, or of one session's; counts what it has seen."""

    session_id: UUID | None = None
    sessions: int = 0
    decisions: int = 0
    purged: int = 0
    keys: tuple[str, ...] = field(default_factory=audit_keys, repr=False)

    def broken(self) -> Iterator[Broken]:
        """The first broken place of each session. Decisions made meanwhile raise no alarm."""
        for page in self._pages():
            for session, rows in _with_decisions(page):
                self.sessions += 1
                if self._first(session, rows) and (found := self._again(session.pk)):
                    yield found
        for stone in self.tombstones().iterator(chunk_size=PAGE):
            self.purged += 1
            if not is_genuine(stone, self.keys):
                words = "its tombstone was changed or put in by someone without the key"
                yield Broken(stone.session_id, "tombstone", 0, words)

    def tombstones(self) -> QuerySet[Tombstone]:
        """What is left of sessions that were purged."""
        stones = Tombstone.objects.using(alias()).order_by("pk")
        return stones if self.session_id is None else stones.filter(session_id=self.session_id)

    def _pages(self) -> Iterator[list[Session]]:
        wanted = Session.objects.using(alias()).only("pk", "decision_count", "decision_seal").order_by("pk")
        if self.session_id is not None:
            wanted = wanted.filter(pk=self.session_id)
        page = list(wanted[:PAGE])
        while page:
            yield page
            page = list(wanted.filter(pk__gt=page[-1].pk)[:PAGE])

    def _first(self, session: Session, rows: Iterable[Decision]) -> Broken | None:
        previous, number = "", 0
        for row in rows:
            self.decisions += 1
            if row.number != number + 1:
                return _missing(session, number + 1, row.number - 1)
            if not is_signed(row, previous, self.keys):
                words = f"decision {row.number} (row {row.pk}) was changed or put in by someone without the key"
                return Broken(session.pk, "changed", row.number, words)
            previous, number = row.hmac, row.number
        return self._end(session, number, previous)

    def _end(self, session: Session, number: int, last: str) -> Broken | None:
        if number < session.decision_count:
            return _missing(session, number + 1, session.decision_count)
        if number > session.decision_count:
            words = f"decision {session.decision_count + 1} is beyond the number that the session counts"
            return Broken(session.pk, "added", session.decision_count + 1, words)
        if is_sealed(session, number, last, self.keys):
            return None
        words = "the session's count or seal was changed"
        if session.decision_seal == BROKEN:
            words = "a decision was recorded after the chain had been tampered with"
        return Broken(session.pk, "seal", number, words)

    def _again(self, session_id: UUID) -> Broken | None:
        """The same under the session's lock: a decision may just have been made."""
        with transaction.atomic(using=alias()):
            take_write_lock(alias(), [session_id])
            session = Session.objects.using(alias()).select_for_update().filter(pk=session_id).first()
            return self._first(session, _decisions(session_id, session_id)) if session else None


def _with_decisions(page: list[Session]) -> Iterator[tuple[Session, Iterable[Decision]]]:
    """Each session with its decisions in order, read one after the other."""
    groups = groupby(_decisions(page[0].pk, page[-1].pk), key=lambda row: row.session_id)
    waiting = next(groups, None)
    for session in page:
        while waiting is not None and waiting[0] < session.pk:  # of a session that was made after the page was read
            waiting = next(groups, None)
        if waiting is not None and waiting[0] == session.pk:
            yield session, waiting[1]
            waiting = next(groups, None)
        else:
            yield session, ()


def _decisions(first: UUID, last: UUID) -> Iterator[Decision]:
    rows = Decision.objects.using(alias()).filter(session__gte=first, session__lte=last)
    return rows.order_by("session_id", "number").iterator(chunk_size=PAGE)


def _missing(session: Session, first: int, last: int) -> Broken:
    words = f"decision {first} is gone" if first == last else f"decisions {first} to {last} are gone"
    return Broken(session.pk, "missing", first, words)
