"""The hub and the tail check: news reach those who listen; what is lost is found; nobody waits for a slow client."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allm_django import sessions
from allm_django.models import Message, Session
from allm_django.runtime import hub as hub_module
from allm_django.runtime.hub import Hub, Subscriber
from allm_django.runtime.logins import Login
from allm_django.runtime.news import News, text_news
from allm_django.runtime.tail import Cursor, TailCheck, read_tails
from allm_django.testing import ScriptedModel, drive, say
from tests.integration.cast import QUIET, an_engine, person


def news(*texts: str) -> list[News]:
    """Frames that are no more than these texts."""
    return [News(text) for text in texts]


def frames(found: list[News]) -> list[str]:
    """The texts again."""
    return [item.frame for item in found]


@pytest.mark.asyncio
async def test_news_reach_all_subscribers_of_a_topic_in_order_from_any_thread() -> None:
    hub, loop = Hub(), asyncio.get_running_loop()
    one, two, other = Subscriber(loop), Subscriber(loop), Subscriber(loop)
    for topic, subscriber in (("a", one), ("a", two), ("b", other)):
        hub.subscribe(topic, subscriber)
    thread = threading.Thread(target=lambda: [hub.publish({"a": news(str(n)), "c": news("x")}) for n in range(100)])
    thread.start()
    await asyncio.to_thread(thread.join)
    assert frames(await one.next()) == frames(await two.next()) == [str(n) for n in range(100)]
    assert sorted(hub.topics()) == ["a", "b"]
    hub.unsubscribe("b", other)
    hub.unsubscribe("b", other)
    assert hub.topics() == ["a"]


@pytest.mark.asyncio
async def test_a_batch_wakes_a_loop_once_however_many_sockets_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    hub, loop = Hub(), asyncio.get_running_loop()
    subscribers = [Subscriber(loop) for _ in range(50)]
    for number, subscriber in enumerate(subscribers):
        hub.subscribe(str(number % 5), subscriber)
    calls: list[Any] = []
    monkeypatch.setattr(hub_module, "call_in", lambda *args: calls.append(args))
    hub.publish({str(topic): news("x") for topic in range(5)})
    assert len(calls) == 1
    assert len(calls[0][2]) == 50


@pytest.mark.asyncio
async def test_a_full_queue_is_emptied_and_says_so() -> None:
    subscriber = Subscriber(asyncio.get_running_loop(), max_bytes=10)
    subscriber.push(news("12345", "12345"))
    assert (len(await subscriber.next()), subscriber.overflowed) == (2, False)
    subscriber.push(news("12345", "12345", "1"))
    assert (await subscriber.next(), subscriber.overflowed) == ([], True)


@pytest.mark.asyncio
async def test_a_subscriber_can_be_woken_without_news() -> None:
    subscriber = Subscriber(asyncio.get_running_loop())
    subscriber.wake()
    assert await subscriber.next() == []


def test_a_loop_that_was_closed_is_passed_over() -> None:
    hub, loop = Hub(), asyncio.new_event_loop()
    hub.subscribe("a", Subscriber(loop))
    loop.close()
    hub.publish({"a": news("x")})


def test_text_news_count_code_points() -> None:
    found = text_news("m", 3, "a𝄞é")
    assert (found.offset, found.length, found.message) == (3, 3, "m")


class Watcher:
    """A socket as the tail check sees it."""

    def __init__(self, login: Login, session_id: uuid.UUID | None, cursor: Cursor | None) -> None:
        self.loop = Loop()
        self.login, self.session_id, self.cursor = login, session_id, cursor
        self.told: list[Any] = []

    def catch_up(self) -> None:
        """Noted."""
        self.told.append("behind")

    def end(self, code: int) -> None:
        """Noted."""
        self.told.append(code)


class Loop(asyncio.SelectorEventLoop):
    """Runs at once what other threads ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.close()

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        """Now."""
        callback(*args)


@pytest.fixture
def check(settings: Any) -> Iterator[TailCheck]:
    """A tail check whose looks the test makes itself."""
    settings.ALLM = QUIET
    made = TailCheck()
    yield made
    made.stop()


@pytest.fixture
def ann(transactional_db: None) -> User:
    """Who watches."""
    return person("ann", "chat")


@pytest.fixture
def session(ann: User, settings: Any) -> Session:
    """A session that has been driven to its end."""
    settings.ALLM = QUIET
    return drive(sessions.start(an_engine(), user=ann, text="Hello"), ScriptedModel([say("Hi.")]))


def watch(check: TailCheck, user: User, session_id: uuid.UUID | None, cursor: Cursor | None) -> Watcher:
    """A socket that the check looks after, logged in by a token."""
    watcher = Watcher(Login(user.pk), session_id, cursor)
    check.add(watcher)
    return watcher


def test_a_socket_that_lacks_what_an_earlier_look_saw_is_told(check: TailCheck, ann: User, session: Session) -> None:
    behind = watch(check, ann, session.pk, Cursor(session.event_count - 1))
    current = watch(check, ann, session.pk, Cursor(session.event_count))
    silent = watch(check, ann, session.pk, None)
    check.look()
    assert behind.told == []
    check.look()
    assert (behind.told, current.told, silent.told) == (["behind"], [], [])


def test_a_socket_that_lacks_streaming_text_is_told(check: TailCheck, ann: User, session: Session) -> None:
    message = Message.objects.create(session=session, position=9, role="assistant", complete=False)
    message.chunks.create(offset=0, text="Half")
    message.chunks.create(offset=4, text=" an")
    number, key = session.event_count, str(message.pk)
    cursors = [Cursor(number), Cursor(number, key, 4), Cursor(number, key, 7), Cursor(number, str(uuid.uuid4()), 7)]
    watchers = [watch(check, ann, session.pk, cursor) for cursor in cursors]
    check.look()
    check.look()
    assert [watcher.told for watcher in watchers] == [["behind"], ["behind"], [], ["behind"]]


def test_the_inbox_is_told_when_something_begins_or_ceases_to_wait(
    check: TailCheck, ann: User, session: Session
) -> None:
    inbox = watch(check, ann, None, Cursor())
    check.look()
    check.look()
    assert inbox.told == []
    session.messages.filter(role="assistant").get()
    run = session.runs.get()
    message = session.messages.get(role="assistant")
    row = session.calls.create(run=run, message=message, position=0, call_id="c", name="x", state="pending")
    check.look()
    row.state, row.outcome = "settled", "expired"
    row.save()
    check.look()
    check.look()
    assert inbox.told == ["behind", "behind"]


def test_a_look_costs_the_same_for_one_socket_and_for_a_hundred(check: TailCheck, ann: User, session: Session) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            check.look()
        return len(seen)

    watch(check, ann, session.pk, Cursor())
    before = queries()
    for _ in range(99):
        watch(check, ann, session.pk, Cursor(session.event_count))
    assert queries() == before


def test_only_a_few_peoples_permissions_are_looked_up_at_a_time(check: TailCheck, ann: User, session: Session) -> None:
    people = [person(f"p{number}", "view_session") for number in range(25)]
    watchers = [watch(check, user, session.pk, Cursor(session.event_count)) for user in people]
    for user in people:
        user.user_permissions.clear()
    check.look()
    assert sum(watcher.told == [4404] for watcher in watchers) == 20
    check.look()
    assert all(4404 in watcher.told for watcher in watchers)


def test_the_thread_ends_when_nobody_listens_any_more(ann: User, session: Session, settings: Any) -> None:
    settings.ALLM = {**QUIET, "POLL_SECONDS": 0.01}
    check = TailCheck()
    watcher = watch(check, ann, session.pk, Cursor(session.event_count))
    thread = check._thread
    assert thread is not None
    check.remove(watcher)
    thread.join(10)
    assert not thread.is_alive()
    check.stop()


@pytest.mark.asyncio
async def test_nothing_is_read_for_no_sessions() -> None:
    assert await sync_to_async(read_tails)([]) == {}
