"""The relay: news go from process to process over a real Redis, in order, and again after it was away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from allm_django.runtime.hub import Hub, Subscriber
from allm_django.runtime.news import INBOX, News, inbox_news, text_news
from allm_django.runtime.relay import Relay
from tests import services
from tests.conftest import absent

SOON = 15.0


@pytest.fixture
def redis(settings: object) -> Iterator[services.Redis]:
    """A Redis of the test's own, which it may end and start again."""
    try:
        server = services.Redis()
    except services.AbsentError as error:
        absent(error)
    layer = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [server.url]}}
    settings.CHANNEL_LAYERS = {"default": layer}  # type: ignore[attr-defined]
    try:
        yield server
    finally:
        server.stop()


class Process:
    """What a process has of this: a hub, its relay, and one listener to a topic and to the inbox."""

    def __init__(self) -> None:
        self.hub, self.listener = Hub(), Subscriber(asyncio.get_running_loop())
        self.relay = Relay(self.hub)
        for topic in ("topic", INBOX):
            self.hub.subscribe(topic, self.listener)
        self.relay.ensure_started()
        self.heard: list[News] = []

    async def hears(self, news: News) -> None:
        """Return when it has heard that."""
        async with asyncio.timeout(SOON):
            while news not in self.heard:
                self.heard += await self.listener.next()

    async def close(self) -> None:
        """End the relay."""
        await asyncio.to_thread(self.relay.close)


async def reach(sender: Process, receiver: Process, news: News) -> None:
    """Say it again and again, until the other hears: a layer tells nobody that it listens by now."""
    heard = asyncio.create_task(receiver.hears(news))
    while not heard.done():
        sender.hub.publish({INBOX: [news]})
        await asyncio.wait([heard], timeout=0.1)
    await heard


@pytest.mark.asyncio
async def test_news_reach_the_other_process_whole_and_in_order_and_do_not_come_back(redis: services.Redis) -> None:
    one, other = Process(), Process()
    await reach(one, other, inbox_news())
    news = [text_news("m", n, f"piece {n} 𝄞") for n in range(200)]
    for item in news:
        one.hub.publish({"topic": [item], "nobody listens": [item]})
    last = News("last")
    one.hub.publish({"topic": [last]})
    for process in (one, other):
        await process.hears(last)
        assert [item for item in process.heard if item.message == "m"] == news
    for process in (one, other):
        await process.close()


@pytest.mark.asyncio
async def test_a_redis_that_was_away_is_found_again(redis: services.Redis) -> None:
    one, other = Process(), Process()
    await reach(one, other, News("before"))
    redis.stop()
    for n in range(100):
        one.hub.publish({"topic": [News(str(n))]})  # lost: the tail check finds what the rows have
    await one.hears(News("99"))
    redis.start()
    await reach(one, other, News("after"))
    await reach(other, one, News("and back"))
    for process in (one, other):
        await process.close()


@pytest.mark.asyncio
async def test_a_closed_relay_leaves_the_news_in_the_process(redis: services.Redis) -> None:
    one = Process()
    await one.close()
    await one.close()
    assert one.hub.wants("topic")
    assert not one.hub.wants("elsewhere")
    one.hub.publish({"topic": [News("x")]})
    await one.hears(News("x"))
