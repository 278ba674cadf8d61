"""Text of streaming messages, and progress of handlers: written for all sessions of a process at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connections, transaction

from allm_django.core.states import CallState
from allm_django.core.types import JSONObject
from allm_django.models import Message, MessageChunk, Session, ToolCall
from allm_django.store.writing import Lease, alias, take_write_lock


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


def _lock_held(using: str, leases: Mapping[UUID, Lease]) -> set[UUID]:
    """Lock these sessions, in the order of their ids; which of the leases hold."""
    take_write_lock(using, leases)
    rows = Session.objects.using(using).select_for_update().filter(pk__in=leases).order_by("pk")
    return {
        pk
        for pk, fence, owner in rows.values_list("pk", "fence", "lease_owner")
        if (fence, owner) == (leases[pk].fence, leases[pk].worker)
    }


def _insert(using: str, chunks: Sequence[Chunk]) -> None:
    """Insert rows many times a second: by hand, as the ORM takes longer to write the statement than the database to
    carry it out. A chunk that is there already, as its commit went unheard, is left.
    """
    if not chunks:
        return
    connection = connections[using]
    quote, meta = connection.ops.quote_name, MessageChunk._meta
    column_of = {field.attname: quote(f"{field.column}") for field in meta.concrete_fields}
    columns = ", ".join(column_of[name] for name in ("message_id", "offset", "text"))
    key = Message._meta.pk
    rows = [(key.get_db_prep_value(item.message_id, connection), item.offset, item.text) for item in chunks]
    insert = f"INSERT INTO {quote(meta.db_table)} ({columns}) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
    with connection.cursor() as cursor:
        cursor.executemany(insert, rows)
