"""What streams in one process, when that process stops."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from allm_django.models import Message
from allm_django.runtime.stream import LiveStream
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
