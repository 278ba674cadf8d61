"""The relay: news of this process to all others, and theirs to the sockets here, over the host's channel layer.

One channel and one group for each process, on an event loop in a thread of its own (findings.md, "Streaming"). It only
makes news fast: what is lost on the way, with Redis away or a queue full, is found by the tail check in the rows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from channels.layers import channel_layers

from allm_django.logs import get_logger
from allm_django.runtime.hub import Hub, hub
from allm_django.runtime.news import News

GROUP = "allm.news"
MAX_QUEUED = 4_000_000  # characters of frames that may wait to be sent
AGAIN_SECONDS = 1.0

logger = get_logger("allm_django.runtime")
Batch = Mapping[str, Sequence[News]]


class Relay:
    """Between the hub of one process and the channel layer. Every public method may be called from any thread."""

    def __init__(self, here: Hub) -> None:
        self._hub = here
        self._lock = threading.Lock()
        self._pid = 0
        self._queued: deque[Batch] = deque()
        self._size = 0

    def ensure_started(self) -> None:
        """Start the relay's thread, once a process (a server may fork first)."""
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid == os.getpid():
                return
            self._origin = uuid.uuid4().hex
            self._queued, self._size = deque(), 0
            self._loop = asyncio.new_event_loop()
            self._more = asyncio.Event()
            self._stop = asyncio.Event()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="allm-relay", daemon=True)
            self._hub.pass_on = self.send
            self._thread.start()
            self._pid = os.getpid()

    def close(self, timeout: float = 5.0) -> None:
        """End the thread; news stay in this process from now on. Harmless if there is none."""
        with self._lock:
            if self._pid != os.getpid():
                return
            self._pid = 0
            self._hub.pass_on = None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout)

    def send(self, batch: Batch) -> None:
        """Tell the other processes; never waits. What is too much is forgotten: the rows have it."""
        if self._pid != os.getpid():  # a fork that has not begun anew
            return
        self._loop.call_soon_threadsafe(self._put, batch)

    # -- on the relay's loop ---------------------------------------------------------------------------------------

    def _put(self, batch: Batch) -> None:
        self._size += _size(batch)
        self._queued.append(batch)
        if self._size > MAX_QUEUED:
            logger.warning("More news wait for the channel layer than it takes; what waits is left to the tail check.")
            self._queued.clear()
            self._size = 0
        self._more.set()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._work())
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _work(self) -> None:
        layer = channel_layers.make_backend("default")  # of its own: a layer belongs to the loop that uses it
        tasks = [asyncio.create_task(self._lasting(work, layer)) for work in (self._listen, self._speak)]
        await self._stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if hasattr(layer, "close_pools"):
            await layer.close_pools()
        elif hasattr(layer, "flush"):
            await layer.flush()

    async def _lasting(self, work: Any, layer: Any) -> None:
        """Do ``work`` again whenever the layer fails, for as long as this process lives."""
        failed = False
        while True:
            try:
                await work(layer)
            except Exception as error:  # the layer's own kinds: whatever they are, the rows have the news
                level = logging.DEBUG if failed else logging.WARNING
                logger.log(level, "The channel layer failed (%s); it is tried again.", error)
                failed = True
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                failed = False

    async def _listen(self, layer: Any) -> None:
        channel = await layer.new_channel("allm.relay")
        await layer.group_add(GROUP, channel)
        while True:
            message = await layer.receive(channel)
            if message.get("origin") != self._origin:
                self._hub.deliver(_decode(message["news"]))

    async def _speak(self, layer: Any) -> None:
        await self._more.wait()
        self._more.clear()
        batches, self._queued, self._size = self._queued, deque(), 0
        if batches:
            news = [_encode(batch) for batch in batches]
            await layer.group_send(GROUP, {"type": "allm.news", "origin": self._origin, "news": news})


def _size(batch: Batch) -> int:
    return sum(len(item.frame) for news in batch.values() for item in news)


def _encode(batch: Batch) -> dict[str, list[list[Any]]]:
    return {
        topic: [[item.frame, item.number, item.message, item.offset, item.length] for item in news]
        for topic, news in batch.items()
    }


def _decode(batches: Sequence[Mapping[str, Sequence[Sequence[Any]]]]) -> dict[str, list[News]]:
    merged: dict[str, list[News]] = {}
    for batch in batches:
        for topic, news in batch.items():
            merged.setdefault(topic, []).extend(News(*item) for item in news)
    return merged


relay = Relay(hub)
