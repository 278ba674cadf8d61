"""Live news: streaming text is gathered for a moment, stored for all sessions at once, then published with its place;
committed events are published as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any
from uuid import UUID

from django.db import Error as DatabaseError

from allm_django.conf import conf
from allm_django.core.encode import to_text
from allm_django.core.types import JSONObject
from allm_django.logs import get_logger
from allm_django.loop.points import at
from allm_django.models import Event, Message, ToolCall
from allm_django.runtime import share_news
from allm_django.runtime.hub import hub
from allm_django.runtime.news import INBOX, News, event_news, inbox_news, progress_news, session_topic, text_news
from allm_django.store.chunks import Chunk, write_chunks
from allm_django.store.writing import Lease

logger = get_logger("allm_django.runtime")
AT_ONCE = 50  # messages to a flush, as long as
MOST_SHARES = 4  # that does not make too many of them


@dataclass(slots=True)
class _Pending:
    """Text of one message that is not stored yet, and how much was (code points)."""

    lease: Lease
    topic: str
    offset: int = 0
    pieces: list[str] = field(default_factory=list)


class LiveStream:
    """Gathers what streams in one process. All but :meth:`progress` is called on the runner's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[..., Awaitable[Any]]) -> None:
        self._loop = loop
        self._run = run
        self._texts: dict[UUID, _Pending] = {}
        self._progress: dict[UUID, tuple[Lease, JSONObject]] = {}
        self._flushing = False
        self._flushed_at = 0.0
        self._unstored: list[Chunk] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def text(self, lease: Lease, message: Message, text: str) -> None:
        """A piece of a streaming message."""
        pending = self._texts.get(message.id)
        if pending is None:
            pending = self._texts[message.id] = _Pending(lease, session_topic(lease.session_id))
        pending.pieces.append(text)
        self._schedule()

    def forget(self, message: Message) -> bool:
        """The message is whole or broken: its text is on its row. Whether pieces of it were stored, or soon will be."""
        pending = self._texts.pop(message.id, None)
        return pending is not None and pending.offset > 0

    def progress(self, lease: Lease, call: ToolCall, fraction: float | None, text: str) -> None:
        """How far a handler is; from any thread."""
        self._loop.call_soon_threadsafe(self._note_progress, lease, call.id, {"fraction": fraction, "text": text})

    def late(self, work: Awaitable[None]) -> None:
        """Finish ``work`` on the side."""

        async def finish() -> None:
            try:
                await work
            except Exception:
                logger.exception("A late result could not be kept.")

        self.keep(self._loop.create_task(finish()))

    def keep(self, task: asyncio.Task[None]) -> None:
        """Hold on to a task until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Gather no more, and end what is done on the side: all that counts is on its rows by now."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.sleep(0)  # lets what was just made begin, so that it can be cancelled in good order
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _note_progress(self, lease: Lease, call_id: UUID, state: JSONObject) -> None:
        self._progress[call_id] = (lease, state)
        self._schedule()

    def _schedule(self) -> None:
        if not self._flushing and not self._closed:
            self._flushing = True
            due = max(self._flushed_at + conf().FLUSH_SECONDS / self._shares(), self._loop.time())
            self._timer = self._loop.call_at(due, self._flush_soon)

    def _shares(self) -> int:
        """Into how many flushes the open messages are spread: one of all of them comes late to the last."""
        return min(max(1, ceil(len(self._texts) / AT_ONCE)), MOST_SHARES)

    def _flush_soon(self) -> None:
        self._flushed_at = self._loop.time()
        self.keep(self._loop.create_task(self._flush()))

    async def _flush(self) -> None:
        """Store and publish all that was gathered; one transaction, so the tick grows longer under load by itself."""
        waiting = [message_id for message_id, pending in self._texts.items() if pending.pieces]
        fresh = [self._take(message_id) for message_id in waiting[: ceil(len(self._texts) / self._shares())]]
        chunks = [*self._unstored, *fresh]
        progress, self._progress = self._progress, {}
        rows = [(lease, call_id, state) for call_id, (lease, state) in progress.items()]
        try:
            stored = await at("flush", self._run(write_chunks, chunks, rows, self._texts.__contains__))
            self._unstored = []
            hub.publish(self._batch(stored, rows))
        except DatabaseError:
            logger.warning("Streaming text could not be stored; it is tried again.", exc_info=True)
            self._unstored = [chunk for chunk in chunks if chunk.message_id in self._texts]
        finally:
            self._flushing = False
            if self._unstored or self._progress or any(pending.pieces for pending in self._texts.values()):
                self._schedule()

    def _take(self, message_id: UUID) -> Chunk:
        pending = self._texts[message_id] = self._texts.pop(message_id)  # those that wait longest come first
        text = to_text("".join(pending.pieces))
        chunk = Chunk(pending.lease, message_id, pending.offset, text)
        pending.offset += len(text)
        pending.pieces.clear()
        return chunk

    def _batch(
        self, chunks: Sequence[Chunk], progress: Sequence[tuple[Lease, UUID, JSONObject]]
    ) -> dict[str, list[News]]:
        """The news for those who listen, by topic."""
        batch: dict[str, list[News]] = {}
        for chunk in chunks:
            pending = self._texts.get(chunk.message_id)  # None: its whole text has been told meanwhile
            if pending is not None and hub.wants(pending.topic):
                batch.setdefault(pending.topic, []).append(text_news(chunk.message_id, chunk.offset, chunk.text))
        for lease, call_id, state in progress:
            topic = session_topic(lease.session_id)
            if hub.wants(topic):
                batch.setdefault(topic, []).append(progress_news(call_id, state["fraction"], state["text"]))
        return batch


def publish_events(session_id: UUID, events: Sequence[Event], inbox: bool) -> None:
    """Tell those who listen of committed events."""
    share_news()
    batch: dict[str, list[News]] = {}
    topic = session_topic(session_id)
    if events and hub.wants(topic):
        batch[topic] = [
            event_news(session_id, event.number, event.kind, event.created_at, event.data) for event in events
        ]
    if inbox and hub.wants(INBOX):
        batch[INBOX] = [inbox_news()]
    if batch:
        hub.publish(batch)
