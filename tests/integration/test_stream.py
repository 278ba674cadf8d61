"""What streams in one process: many messages at once, SQLite's log meanwhile, and the end of the process."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from allm_django.models import Engine, Message
from allm_django.runtime.stream import AT_ONCE, LiveStream
from allm_django.store.checkpoint import checkpoint
from allm_django.store.chunks import Chunk
from allm_django.store.writing import Lease


@pytest.mark.asyncio
async def test_a_stream_that_is_closed_stores_nothing_more_and_leaves_no_work_behind() -> None:
    stored: list[Any] = []

    async def run(*work: Any) -> list[Any]:
        stored.append(work)
        return []

    stream = LiveStream(asyncio.get_running_loop(), run)
    before = asyncio.all_tasks()
    lease, message = Lease(uuid4(), uuid4(), 1, uuid4()), Message(id=uuid4())
    stream.text(lease, message, "gathered")
    stream.late(asyncio.sleep(3600))
    await stream.close()
    stream.text(lease, message, "too late")
    ticks = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, ticks.set)  # longer than a tick
    await ticks.wait()
    assert stored == []
    assert asyncio.all_tasks() == before


@pytest.mark.asyncio
async def test_many_messages_take_turns_and_none_is_left_out() -> None:
    flushes: list[list[Chunk]] = []
    everything = asyncio.Event()

    async def run(write: Any, chunks: list[Chunk], *others: Any) -> list[Chunk]:
        flushes.append(chunks)
        if sum(map(len, flushes)) == len(messages):
            everything.set()
        return chunks

    stream = LiveStream(asyncio.get_running_loop(), run)
    messages = [Message(id=uuid4()) for _ in range(120)]
    for message in messages:
        stream.text(Lease(uuid4(), uuid4(), 1, uuid4()), message, "one ")
        stream.text(Lease(uuid4(), uuid4(), 1, uuid4()), message, "two")
    async with asyncio.timeout(10):
        await everything.wait()
    await stream.close()
    assert [(chunk.message_id, chunk.text) for chunks in flushes for chunk in chunks] == [
        (message.id, "one two") for message in messages
    ]
    assert max(map(len, flushes)) <= AT_ONCE


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_sqlites_log_is_copied_beside_its_writers_and_other_databases_have_none() -> None:
    on_sqlite = connection.vendor == "sqlite"
    Engine.objects.create(name="any", model="scripted:any")
    assert checkpoint() is on_sqlite
    if on_sqlite:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
            busy, written, copied = cursor.fetchone()
        assert (busy, copied) == (0, written)
