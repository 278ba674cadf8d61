"""Text of streaming messages, and progress of handlers: written for all sessions of a process at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from allm_django.core.states import CallState
from allm_django.core.types import JSONObject
from allm_django.models import MessageChunk, Session, ToolCall
from allm_django.store.writing import Lease, alias, take_write_lock

ROWS_AT_ONCE = 300  # in one statement: databases bound its parameters


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a message to store: ``offset`` in code points."""

    lease: Lease
    message_id: UUID
    offset: int
    text: str


def write_chunks(
    chunks: Sequence[Chunk],
    progress: Sequence[tuple[Lease, UUID, JSONObject]] = (),
    streaming: Callable[[UUID], bool] = lambda _: True,
) -> list[Chunk]:
    """Store what still may be stored, in one transaction; gives back what was. A stale session is dropped alone.

    ``streaming`` tells, under the sessions' locks, whether a message is still open here; nobody else may close it
    while the lease holds.
    """
    using = alias()
    leases = {lease.session_id: lease for lease in [*(chunk.lease for chunk in chunks), *(row[0] for row in progress)]}
    with transaction.atomic(using=using):
        held = _lock_held(using, leases)
        stored = [chunk for chunk in chunks if chunk.lease.session_id in held and streaming(chunk.message_id)]
        _insert(using, stored)
        for lease, call_id, state in progress:
            if lease.session_id in held:
                executing = ToolCall.objects.using(using).filter(pk=call_id, state=CallState.EXECUTING)
                executing.update(progress=state)
    return stored


# By hand, as this runs many times a second, and the ORM takes longer to write a statement of a hundred ids and to read
# its answer than the database to carry it out.


def _lock_held(using: str, leases: Mapping[UUID, Lease]) -> set[UUID]:
    """Lock these sessions, in the order of their ids; which of the leases hold."""
    if not leases:
        return set()
    take_write_lock(using, leases)
    connection = connections[using]
    table, (key, fence, owner) = _names(using, Session, "id", "fence", "lease_owner")
    lock = "FOR UPDATE" if connection.features.has_select_for_update else ""
    where = f"WHERE {key} IN ({_places(len(leases))}) ORDER BY {key} {lock}"
    stored = _stored_as(connection)
    wanted = {stored(pk): (lease.fence, stored(lease.worker), pk) for pk, lease in leases.items()}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {key}, {fence}, {owner} FROM {table} {where}", list(wanted))
        return {wanted[pk][2] for pk, *held in cursor.fetchall() if tuple(held) == wanted[pk][:2]}


def _insert(using: str, chunks: Sequence[Chunk]) -> None:
    """Insert the rows, many with one statement. One that is there already, as its commit went unheard, is left."""
    connection = connections[using]
    table, columns = _names(using, MessageChunk, "message_id", "offset", "text")
    stored = _stored_as(connection)
    for start in range(0, len(chunks), ROWS_AT_ONCE):
        some = chunks[start : start + ROWS_AT_ONCE]
        rows = ", ".join([f"({_places(3)})"] * len(some))
        values = [value for chunk in some for value in (stored(chunk.message_id), chunk.offset, chunk.text)]
        with connection.cursor() as cursor:
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {rows} ON CONFLICT DO NOTHING"
            cursor.execute(insert, values)


def _places(count: int) -> str:
    return ", ".join(["%s"] * count)


@cache
def _names(using: str, model: type[Model], *fields: str) -> tuple[str, list[str]]:
    """The quoted names of a model's table and of the columns of these fields."""
    quote, meta = connections[using].ops.quote_name, model._meta
    column_of = {field.attname: quote(f"{field.column}") for field in meta.concrete_fields}
    return quote(meta.db_table), [column_of[name] for name in fields]


def _stored_as(connection: BaseDatabaseWrapper) -> Callable[[UUID], Any]:
    """How this database keeps a UUID: as such, or as text."""
    return _as_it_is if connection.features.has_native_uuid_field else _HEX


def _as_it_is(value: UUID) -> UUID:
    return value


_HEX = attrgetter("hex")
