"""The session's and the inbox's sockets: replay, live news, gaps, slow clients."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connections

from allm_django import runtime, sessions
from allm_django.chat import consumer, replay
from allm_django.models import Message, Session
from allm_django.providers.scripted import hold
from allm_django.runtime.hub import Subscriber, hub
from allm_django.runtime.news import INBOX, event_news, inbox_news, progress_news, session_topic, text_news
from allm_django.runtime.tail import tail_check
from allm_django.testing import ScriptedModel, call, drive, open_calls, say
from tests.integration.cast import QUIET, Browser, a_tool, an_engine, person, without_runner
from tests.integration.fold import Fold, differences
from tests.integration.sockets import Socket, application, login, open_socket

pytestmark = [pytest.mark.asyncio, pytest.mark.django_db(transaction=True), pytest.mark.both_databases]

on_database = sync_to_async


@pytest_asyncio.fixture(autouse=True)
async def _room(settings: Any) -> AsyncIterator[None]:
    settings.ALLM = QUIET
    with without_runner():
        yield
    await asyncio.to_thread(tail_check.stop)
    await sync_to_async(connections.close_all)()


@pytest_asyncio.fixture
async def ann() -> User:
    """Whose session it is."""
    return await on_database(person)("ann", "chat")


@pytest_asyncio.fixture
async def session(ann: User) -> Session:
    """A session in which the assistant has answered."""

    def make() -> Session:
        return drive(sessions.start(an_engine(), user=ann, text="Hello"), ScriptedModel([say("Hi.")]))

    return await on_database(make)()


def publish(session: Session, *news: Any) -> None:
    """Tell the sockets of the session."""
    hub.publish({session_topic(session.pk): news})


async def add_event(session: Session, kind: str = "SessionRenamed") -> Any:
    """A committed event that no socket has been told of; its news."""

    def make() -> Any:
        fresh = Session.objects.get(pk=session.pk)
        fresh.event_count += 1
        fresh.save()
        row = fresh.events.create(number=fresh.event_count, kind=kind, created_at=fresh.updated_at)
        return event_news(fresh.pk, row.number, kind, row.created_at, row.data)

    return await on_database(make)()


async def streaming(session: Session, *pieces: str) -> Message:
    """A message that still streams, with these pieces stored."""

    def make() -> Message:
        message = Message.objects.create(session=session, position=9, role="assistant", complete=False)
        offset = 0
        for piece in pieces:
            message.chunks.create(offset=offset, text=piece)
            offset += len(piece)
        return message

    return await on_database(make)()


async def nothing_else(session: Session, socket: Socket) -> bool:
    """Whether what is published now is the next frame."""
    marker = progress_news(uuid.uuid4(), None, "marker")
    publish(session, marker)
    return await socket.frame() == json.loads(marker.frame)


def numbers(frames: list[dict[str, Any]]) -> list[int]:
    """The events' numbers."""
    return [frame["n"] for frame in frames if frame["type"] == "event"]


async def test_a_hello_gets_what_follows_its_cursor_and_then_live_news(ann: User, session: Session) -> None:
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        last = session.event_count
        assert numbers(await socket.hello()) == [*range(1, last + 1)]
        assert numbers(await socket.hello(last - 2)) == [last - 1, last]
        assert await socket.hello(last) == []
        await sessions.areply(session, "And now?", user=ann)
        frame = await socket.frame()
        assert (frame["type"], frame["n"]) == ("event", last + 1)
        assert frame["session"]["id"] == str(session.pk)


@pytest.mark.row("S08")
async def test_the_frames_fold_into_what_a_fresh_load_shows(ann: User, session: Session) -> None:
    kim = await on_database(person)("kim", "decide_toolcall")
    await on_database(a_tool)(sensitive=["card"])
    fold = Fold.empty()
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        fold.apply_all(await socket.hello())

        def go() -> None:
            sessions.reply(session, "Refund it.", user=ann)
            drive(session, ScriptedModel([[call("refund", {"order": 1, "card": "4111"})]]))
            sessions.reject(open_calls(session)[0], by=kim, reason="No.")
            drive(session, ScriptedModel([say("It was refused.")]))

        def load() -> Any:
            return Browser(ann).get(f"sessions/{session.pk}/").json()

        await on_database(go)()
        detail = await on_database(load)()
        while fold.number < detail["event"]:
            fold.apply(await socket.frame())
    assert differences(fold, detail) == []
    assert "4111" not in json.dumps(list(fold.calls.values()))


@pytest.mark.row("S08")
async def test_streaming_text_is_replayed_from_the_clients_offset(ann: User, session: Session) -> None:
    message = await streaming(session, "Grüß 𝄞", " Gott")
    key, number = str(message.pk), session.event_count
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        assert await socket.hello(number) == [{"type": "text", "message": key, "offset": 0, "text": "Grüß 𝄞 Gott"}]
        assert (await socket.hello(number, key, 6))[0]["text"] == " Gott"
        assert await socket.hello(number, key, 11) == []
        assert (await socket.hello(number, str(uuid.uuid4()), 3))[0]["offset"] == 0
        publish(session, text_news(key, 11, "!"))
        assert await socket.frame() == {"type": "text", "message": key, "offset": 11, "text": "!"}


async def test_what_was_sent_twice_or_late_is_dropped(ann: User, session: Session) -> None:
    message = await streaming(session, "Half")
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        await socket.hello(session.event_count)
        first, second = await add_event(session), await add_event(session)
        publish(session, first, second, first, second, text_news(message.pk, 0, "Half"))
        assert numbers([await socket.frame(), await socket.frame()]) == [first.number, second.number]
        assert await nothing_else(session, socket)


async def test_a_gap_in_the_numbers_is_filled_from_the_rows(ann: User, session: Session) -> None:
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        await socket.hello(session.event_count)
        news = [await add_event(session) for _ in range(3)]
        publish(session, news[2])
        assert numbers([await socket.frame() for _ in news]) == [item.number for item in news]
        publish(session, *news)
        assert await nothing_else(session, socket)


async def test_a_gap_in_the_text_is_filled_from_the_rows(ann: User, session: Session) -> None:
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        await socket.hello(session.event_count)
        message = await streaming(session, "One ", "two ", "three")
        publish(session, text_news(message.pk, 8, "three"))
        frame = await socket.frame()
        assert (frame["offset"], frame["text"]) == (0, "One two three")
        publish(session, text_news(message.pk, 4, "two "))
        assert await nothing_else(session, socket)


async def test_lost_news_are_found_by_the_tail_check(ann: User, session: Session, settings: Any) -> None:
    settings.ALLM = {**QUIET, "POLL_SECONDS": 0.02}
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        await socket.hello(session.event_count)
        lost = await add_event(session)
        assert (await socket.frame())["n"] == lost.number


async def test_live_news_cost_no_query(ann: User, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        await socket.hello(session.event_count)

        def refuse(*_: Any) -> None:
            raise AssertionError("the rows were read")

        monkeypatch.setattr(consumer, "replay", refuse)
        key = str(uuid.uuid4())
        for place in range(50):
            publish(session, text_news(key, place, "x"), progress_news(key, 0.5, "half"))
        found = [await socket.frame() for _ in range(100)]
        assert [frame["offset"] for frame in found if frame["type"] == "text"] == [*range(50)]


async def test_all_sockets_of_a_session_see_the_same(ann: User, session: Session) -> None:
    async with (
        open_socket(f"sessions/{session.pk}/", ann) as one,
        open_socket(f"sessions/{session.pk}/", ann) as two,
    ):
        await one.hello()
        await two.hello(session.event_count)
        news = await add_event(session)
        publish(session, news)
        assert await one.frame() == await two.frame() == json.loads(news.frame)


async def test_a_client_that_was_too_slow_is_told_to_load_anew(
    ann: User, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Subscriber.__init__, "__defaults__", (1_000,))
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        await socket.hello(session.event_count)
        publish(session, text_news(uuid.uuid4(), 0, "x" * 2_000))
        assert await socket.frame() == {"type": "resync"}
        news = await add_event(session)
        publish(session, news)
        assert numbers(await socket.hello(session.event_count)) == [news.number]


async def test_a_cursor_that_is_too_old_or_not_ours_is_told_to_load_anew(
    ann: User, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_EVENTS", 2)
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        assert await socket.hello(session.event_count - 3) == [{"type": "resync"}]
        assert await socket.hello(session.event_count + 1) == [{"type": "resync"}]
        assert len(await socket.hello(session.event_count - 2)) == 2


async def test_the_inbox_nudges_at_most_once_in_a_while(
    ann: User, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "INBOX_SECONDS", 0.2)
    async with open_socket("inbox/", ann) as socket:
        assert await socket.hello() == []
        for _ in range(10):
            hub.publish({INBOX: [inbox_news()]})
            await asyncio.sleep(0)
        assert [await socket.frame(), await socket.frame()] == [{"type": "inbox"}] * 2
        assert await socket.wire.receive_nothing(timeout=0.5)


async def test_a_new_wait_nudges_the_inbox(ann: User, session: Session) -> None:
    kim = await on_database(person)("kim", "decide_toolcall")
    await on_database(a_tool)()
    async with open_socket("inbox/", kim) as socket:
        await socket.hello()

        def go() -> None:
            sessions.reply(session, "Refund it.", user=ann)
            drive(session, ScriptedModel([[call("refund", {"order": 1})]]))

        await on_database(go)()
        assert await socket.frame() == {"type": "inbox"}


async def test_the_runners_own_stream_arrives_whole_for_who_watches_and_who_comes_in_the_midst(
    ann: User, settings: Any
) -> None:
    settings.ALLM = {"FLUSH_SECONDS": 0.005}
    parts = ["Grüße 𝄞", " an alle!", " Ende."]
    holds = [threading.Event(), threading.Event()]
    model = ScriptedModel([[say(parts[0]), hold(holds[0]), say(parts[1]), hold(holds[1]), say(parts[2])]])
    engine = await on_database(an_engine)("live", model=model.id)
    session = await sessions.astart(engine, user=ann)
    path = f"sessions/{session.pk}/"
    try:
        async with open_socket(path, ann) as one, open_socket(path, ann) as two:
            first = Fold.empty().apply_all(await one.hello())
            await sessions.areply(session, "Go.", user=ann)
            await until(first, one, parts[0])
            holds[0].set()
            await until(first, one, parts[0] + parts[1])
            second = Fold.empty().apply_all(await two.hello())
            assert [row["text"] for row in second.messages.values()] == ["Go.", parts[0] + parts[1]]
            holds[1].set()
            for fold, socket in ((first, one), (second, two)):
                while fold.session["status"] != "completed":
                    fold.apply(await socket.frame())
    finally:
        for event in holds:
            event.set()
        await asyncio.to_thread(runtime.shutdown)
    for fold in (first, second):
        assert [row["text"] for row in fold.messages.values()] == ["Go.", "".join(parts)]


async def until(fold: Fold, socket: Socket, text: str) -> None:
    """Take frames until the last message reads so."""
    while not fold.messages or [*fold.messages.values()][-1]["text"] != text:
        fold.apply(await socket.frame())


async def test_a_socket_leaves_nothing_behind(ann: User, session: Session) -> None:
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        await socket.hello()
        assert hub.topics() == [session_topic(session.pk)]
        assert consumer.SessionConsumer.open_sockets[ann.pk] == 1
    assert hub.topics() == []
    assert ann.pk not in consumer.SessionConsumer.open_sockets


async def test_a_failing_database_closes_the_socket_so_that_the_client_comes_again(
    ann: User, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("gone")

    monkeypatch.setattr(consumer, "replay", fails)
    async with open_socket(f"sessions/{session.pk}/", ann) as socket:
        await socket.send({"type": "hello"})
        assert await socket.closed() == 1011


async def test_a_client_that_goes_while_a_frame_is_on_its_way_is_no_error(
    ann: User, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    tried = asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            tried.set()
            raise OSError("gone")

    wire = Socket(f"sessions/{session.pk}/", await on_database(login)(ann)).wire
    messages: asyncio.Queue[Any] = asyncio.Queue()
    serving = asyncio.create_task(application(wire.scope, messages.get, send))
    await messages.put({"type": "websocket.connect"})
    await messages.put({"type": "websocket.receive", "text": '{"type": "hello"}'})
    await tried.wait()
    await messages.put({"type": "websocket.disconnect", "code": 1006})
    await serving
    assert [record for record in caplog.records if record.name == "allm_django.chat"] == []
    assert hub.topics() == []


async def test_the_path_decides_what_is_watched(ann: User, session: Session) -> None:
    socket = Socket(f"sessions/{session.pk}/?session={uuid.uuid4()}", await on_database(login)(ann))
    assert await socket.connect()
    assert numbers(await socket.hello())[-1] == session.event_count
    await socket.leave()
