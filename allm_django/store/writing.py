"""The one way to write below a session: take its lock, change rows, tell events, commit (design.md, "One lock")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections, router, transaction
from django.db.models import F, Model
from django.db.models.functions import Now
from django.dispatch import Signal
from django.utils.functional import cached_property

from allm_django.core.kinds import EventKind
from allm_django.core.states import OPEN_STATES, CallState, RunState, session_status
from allm_django.core.types import JSONObject
from allm_django.errors import LeaseLostError, NotFoundError
from allm_django.loop.points import point
from allm_django.models import Event, Message, Run, Session, ToolCall
from allm_django.store import clock, notices, outbox
from allm_django.store.announcing import of_event
from allm_django.store.shapes import call_shape, message_shape, session_shape


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a run's rows: valid while the session's fence and owner are these."""

    session_id: UUID
    run_id: UUID
    fence: int
    worker: UUID
    request_id: str = ""


class Writing:
    """A session under its lock. Assign to fields of ``session`` and ``run``: what changed is saved at the end."""

    def __init__(self, session: Session) -> None:
        self._watched: list[tuple[Session | Run, dict[str, Any]]] = []
        self.session = session
        self._watch(session)
        self.run = session.active_run
        self.now = clock.now()
        self.inbox_changed = False
        self.wake_after = False
        self._events: list[tuple[EventKind, JSONObject]] = []
        self._sent: list[outbox.Sent] = []
        self._notices: list[notices.Notice] = []

    @cached_property
    def db_now(self) -> datetime:
        """The database's own time, by which leases are judged."""
        rows = Session.objects.using(alias()).filter(pk=self.session.pk)
        moment: datetime = rows.annotate(moment=Now()).values_list("moment", flat=True).get()
        return moment

    @property
    def run(self) -> Run | None:
        """The session's active run. One that is replaced is saved, too."""
        return self._run

    @run.setter
    def run(self, run: Run | None) -> None:
        self._run = run
        if run is not None:
            self._watch(run)

    def tell(
        self,
        kind: EventKind,
        *,
        messages: Iterable[tuple[Message, Iterable[str]]] = (),
        calls: Iterable[ToolCall] = (),
        session: bool = False,
    ) -> None:
        """Note an event; ``session``: it carries the session's and run's state as this transaction leaves it."""
        data: JSONObject = {}
        messages, calls = list(messages), list(calls)
        for signal, row, words in of_event(kind, self.session, self.run, [row for row, _ in messages], calls):
            self.send(signal, row, **words)
        if shown := [message_shape(message, ids) for message, ids in messages]:
            data["messages"] = shown
        if listed := [call_shape(call) for call in calls]:
            data["calls"] = listed
        if session:
            data["session"] = None
        self._events.append((kind, data))

    def send(self, signal: Signal, row: Model, **words: str) -> None:
        """Note a signal about ``row``, to be sent once everything is committed (L19)."""
        if event := notices.event_of(signal, words):
            self._notices.append((event, row.pk, words))
        if signal.receivers:
            self._sent.append((signal, type(row), {"id": row.pk, "session_id": self.session.id, **words}))

    def derive_status(self) -> None:
        """Set what the session's row says of the rows below it (S01)."""
        run = self.run or self.session.runs.order_by("-created_at").first()
        rows = ToolCall.objects.using(alias()).filter(session=self.session, state__in=OPEN_STATES)
        states = [CallState(state) for state in rows.values_list("state", flat=True)]
        self.session.status = session_status(
            RunState(run.state) if run else None, run.halted_reason if run else "", states
        )
        if self.session.waiting != len(states):
            self.session.waiting = len(states)
        self.inbox_changed = True

    def finish(self, alias: str) -> None:
        """Write what was noted and changed; publish after commit."""
        session, run = self.session, self.run
        session.active_run = run if run is not None and run.state != RunState.ENDED else None
        if self._events:  # whatever changed of the session, a page that folds the events has it too
            self._events[-1][1].setdefault("session", None)
        rows = [
            Event(session=session, number=session.event_count + place, kind=kind, data=data, created_at=self.now)
            for place, (kind, data) in enumerate(self._events, 1)
        ]
        session.event_count += len(rows)
        shape: JSONObject | None = None
        for row in rows:
            if "session" in row.data:
                shape = shape or session_shape(session, run)
                row.data["session"] = {**shape, "event": row.number}
        self._save_changes(alias)
        Event.objects.using(alias).bulk_create(rows)
        if self._notices:
            notices.note(alias, session.id, self._notices, self.now)
        transaction.on_commit(lambda: point("commit:after"), using=alias)
        inbox, wake = self.inbox_changed, self.wake_after
        if rows or inbox:
            transaction.on_commit(lambda: outbox.publish(session.id, rows, inbox), using=alias)
        if wake:
            transaction.on_commit(lambda: outbox.wake(session.id), using=alias)
        if sent := self._sent:
            transaction.on_commit(lambda: outbox.send(sent), using=alias)
        point("commit:before")

    def _watch(self, row: Session | Run) -> None:
        self._watched.append((row, _values(row)))

    def _save_changes(self, alias: str) -> None:
        for row, before in self._watched:
            if changed := [name for name, value in _values(row).items() if value != before[name]]:
                row.save(using=alias, update_fields=[*changed, *_STAMPS[type(row)]])


_STAMPS: dict[type, tuple[str, ...]] = {Session: ("updated_at",), Run: ()}


def _values(row: Session | Run) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def alias() -> str:
    """The database that sessions are written to."""
    return router.db_for_write(Session)


@contextmanager
def writing(session_id: UUID, lease: Lease | None = None) -> Iterator[Writing]:
    """The session under its lock, in one transaction. With a ``lease``: raises LeaseLostError unless it holds."""
    using = alias()
    with transaction.atomic(using=using):
        take_write_lock(using, [session_id])
        rows = Session.objects.using(using).select_for_update(of=("self",))
        if connections[using].vendor == "sqlite":  # elsewhere what is joined in while waiting for the lock may be stale
            rows = rows.select_related("active_run")
        session = next(iter(rows.filter(pk=session_id).order_by()), None)
        if session is None:
            raise NotFoundError("There is no such session.")
        if lease is not None and (session.fence, session.lease_owner) != (lease.fence, lease.worker):
            raise LeaseLostError
        tx = Writing(session)
        yield tx
        tx.finish(using)


def take_write_lock(using: str, session_ids: Iterable[UUID]) -> None:
    """On SQLite outside BEGIN IMMEDIATE, make the first statement a write, so that it waits for its turn."""
    connection = connections[using]
    if connection.vendor != "sqlite" or connection.settings_dict["OPTIONS"].get("transaction_mode") == "IMMEDIATE":
        return
    Session.objects.using(using).filter(pk__in=list(session_ids)).update(fence=F("fence"))
