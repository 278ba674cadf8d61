"""Text of streaming messages, and progress of handlers: written for all sessions of a process at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

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


def write_chunks(chunks: Sequence[Chunk], progress: Sequence[tuple[Lease, UUID, JSONObject]] = ()) -> list[Chunk]:
    """Store what still may be stored, in one transaction; gives back what was. A stale session is dropped alone."""
    using = alias()
    leases = {lease.session_id: lease for lease in [*(chunk.lease for chunk in chunks), *(row[0] for row in progress)]}
    with transaction.atomic(using=using):
        take_write_lock(using, leases)
        rows = Session.objects.using(using).select_for_update().filter(pk__in=leases).order_by("pk")
        held = {
            pk
            for pk, fence, owner in rows.values_list("pk", "fence", "lease_owner")
            if (fence, owner) == (leases[pk].fence, leases[pk].worker)
        }
        streaming = Message.objects.using(using).filter(
            pk__in={chunk.message_id for chunk in chunks}, complete=False, broken=""
        )
        open_ids = set(streaming.values_list("pk", flat=True))
        stored = [chunk for chunk in chunks if chunk.lease.session_id in held and chunk.message_id in open_ids]
        MessageChunk.objects.using(using).bulk_create(
            MessageChunk(message_id=chunk.message_id, offset=chunk.offset, text=chunk.text) for chunk in stored
        )
        for lease, call_id, state in progress:
            if lease.session_id in held:
                executing = ToolCall.objects.using(using).filter(pk=call_id, state=CallState.EXECUTING)
                executing.update(progress=state)
    return stored
