"""Who listens in this process: topics, and the queues of the sockets that subscribed to them.

Any thread may publish. A batch costs one ``call_soon_threadsafe`` per event loop, however many sockets it has, and
queues are bounded: a client too slow for its news is told to load again (measured in findings.md, "Streaming").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from allm_django.runtime.news import News

MAX_QUEUED = 1_000_000


class Subscriber:
    """One socket's queue. Made and read in its own event loop; filled from there, too.

    ``max_bytes`` bounds what may wait, counted in characters of frames. Beyond it the queue is emptied and
    ``overflowed`` is set until :meth:`next` has told so by returning without news.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_bytes: int = MAX_QUEUED) -> None:
        self.loop = loop
        self.max_bytes = max_bytes
        self.overflowed = False
        self._queued: list[News] = []
        self._size = 0
        self._woken = False
        self._waiting: asyncio.Future[None] | None = None

    def push(self, news: Sequence[News]) -> None:
        """Queue ``news``. Called in the subscriber's loop."""
        self._queued += news
        for item in news:
            self._size += len(item.frame)
        if self._size > self.max_bytes:
            self._queued, self._size, self.overflowed = [], 0, True
        self.wake()

    def wake(self) -> None:
        """Let :meth:`next` return, with or without news. Called in the subscriber's loop."""
        self._woken = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def next(self) -> list[News]:
        """All that is queued, in order, once there is something or :meth:`wake` was called. One task at a time."""
        if not self._woken:
            self._waiting = self.loop.create_future()
            await self._waiting
        self._woken = False
        news, self._queued, self._size = self._queued, [], 0
        return news


class Hub:
    """Topics and their subscribers. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._topics: dict[str, set[Subscriber]] = {}
        self.pass_on: Callable[[Mapping[str, Sequence[News]]], None] | None = None  # to other processes (the relay)

    def subscribe(self, topic: str, subscriber: Subscriber) -> None:
        """Let ``subscriber`` have all that is published on ``topic`` from now on."""
        with self._lock:
            self._topics.setdefault(topic, set()).add(subscriber)

    def unsubscribe(self, topic: str, subscriber: Subscriber) -> None:
        """Stop that; harmless when it never began."""
        with self._lock:
            left = self._topics.get(topic, set())
            left.discard(subscriber)
            if not left:
                self._topics.pop(topic, None)

    def topics(self) -> list[str]:
        """The topics that someone in this process listens to."""
        with self._lock:
            return list(self._topics)

    def wants(self, topic: str) -> bool:
        """Whether anyone here listens to ``topic``, or may elsewhere."""
        return topic in self._topics or self.pass_on is not None

    def publish(self, batch: Mapping[str, Sequence[News]]) -> None:
        """Hand each topic's news to its subscribers, here and elsewhere. Never waits for a client."""
        if self.pass_on is not None:
            self.pass_on(batch)
        self.deliver(batch)

    def deliver(self, batch: Mapping[str, Sequence[News]]) -> None:
        """Hand each topic's news to its subscribers in this process, in order."""
        per_loop: dict[asyncio.AbstractEventLoop, list[tuple[Subscriber, Sequence[News]]]] = {}
        with self._lock:
            for topic, news in batch.items():
                for subscriber in self._topics.get(topic, ()):
                    per_loop.setdefault(subscriber.loop, []).append((subscriber, news))
        for loop, deliveries in per_loop.items():
            call_in(loop, _deliver, deliveries)


def call_in(loop: asyncio.AbstractEventLoop, function: object, *args: object) -> None:
    """Call ``function`` soon in ``loop``, from any thread; forget it if the loop has been closed."""
    try:
        loop.call_soon_threadsafe(function, *args)  # type: ignore[arg-type]
    except RuntimeError:
        if not loop.is_closed():
            raise


def _deliver(deliveries: Sequence[tuple[Subscriber, Sequence[News]]]) -> None:
    for subscriber, news in deliveries:
        subscriber.push(news)


hub = Hub()
