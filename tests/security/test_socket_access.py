"""Rows 21, 23, 24, 26–28, 34, 35: who gets a socket, what they may say on it, and when it ends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as LoginSession
from django.db import connections
from django.test import Client

from allm_django import sessions
from allm_django.chat import protocol, socket
from allm_django.models import Session
from allm_django.runtime.hub import hub
from allm_django.runtime.tail import tail_check
from tests.integration.cast import QUIET, an_engine, person, without_runner
from tests.integration.sockets import ORIGIN, Socket, login, open_socket

pytestmark = [pytest.mark.asyncio, pytest.mark.django_db(transaction=True)]
HELLO = {"type": "hello", "event": 0, "message": None, "offset": 0}


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
    return await sync_to_async(person)("ann", "chat")


@pytest_asyncio.fixture
async def session(ann: User) -> Session:
    """A session."""
    engine = await sync_to_async(an_engine)()
    return await sessions.astart(engine, user=ann, text="Hello")


async def refusal(path: str, user: User | None) -> int:
    """The code by which the server says no, once the socket is open."""
    wire = Socket(path, await sync_to_async(login)(user))
    assert await wire.connect()
    code = await wire.closed()
    await wire.leave()
    return code


BROKEN: list[tuple[tuple[bytes, bytes], ...]] = [
    (),
    ((b"origin", b"null"),),
    ((b"origin", b""),),
    ((b"origin", b"http://[bad"),),
    (ORIGIN, (b"origin", b"http://evil.example")),
]
FOREIGN: list[tuple[tuple[bytes, bytes], ...]] = [
    ((b"origin", b"http://evil.example"),),
    ((b"origin", b"http://testserver.evil.example"),),
    ((b"origin", b"http://eviltestserver"),),
]


@pytest.mark.parametrize(("hosts", "refused"), [(["testserver"], BROKEN + FOREIGN), (["*"], BROKEN)])
async def test_a_foreign_or_missing_origin_is_not_let_in(
    hosts: list[str], refused: list[Any], ann: User, session: Session, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = hosts
    client = await sync_to_async(login)(ann)
    for headers in refused:
        for path in (f"sessions/{session.pk}/", "inbox/"):
            assert not await Socket(path, client, headers).connect(), headers


async def test_without_a_login_no_socket_stays_open(session: Session, ann: User) -> None:
    gone = await sync_to_async(person)("gone", "chat", is_active=False)
    for user in (None, gone):
        assert await refusal(f"sessions/{session.pk}/", user) == 4401
        assert await refusal("inbox/", user) == 4401


async def test_missing_and_invisible_sessions_are_answered_alike(session: Session) -> None:
    stranger = await sync_to_async(person)("stranger", "chat", "decide_toolcall", "decide_own_toolcall")
    nobody = await sync_to_async(person)("nobody")
    paths = [f"sessions/{key}/" for key in (session.pk, uuid.uuid4(), "not-a-uuid")]
    assert [await refusal(path, stranger) for path in paths] == [4404] * 3
    assert [await refusal(path, nobody) for path in (*paths, "inbox/")] == [4404] * 4
    assert hub.topics() == []


async def test_who_may_read_any_session_may_watch_it(session: Session) -> None:
    auditor = await sync_to_async(person)("auditor", "view_session")
    async with open_socket(f"sessions/{session.pk}/", auditor) as wire:
        assert len(await wire.hello()) == session.event_count


BAD_FRAMES: list[Any] = [
    "", "{", "[]", "7", "null", "[" * 50_000, b"\x00", b'{"type": "hello"}',
    {"type": "event"}, {"type": "websocket.disconnect"}, {"type": "text", "message": "x"}, {"event": 1},
    {**HELLO, "group": "session:1"}, {**HELLO, "session": "1"}, {**HELLO, "handler": "end"},
    {**HELLO, "event": -1}, {**HELLO, "event": True}, {**HELLO, "event": 1.5}, {**HELLO, "event": "1"},
    {**HELLO, "event": 2**63}, {**HELLO, "message": "x"}, {**HELLO, "message": 7}, {**HELLO, "offset": None},
    {**HELLO, "message": ["a"]},
]  # fmt: skip


async def test_anything_but_a_hello_ends_the_socket(ann: User, session: Session) -> None:
    client = await sync_to_async(login)(ann)
    for frame in BAD_FRAMES:
        async with open_socket(f"sessions/{session.pk}/", ann, client) as wire:
            await wire.send(frame)
            assert await wire.closed() == 4400, frame
    assert hub.topics() == []


async def test_a_frame_that_is_too_large_ends_the_socket(ann: User, session: Session) -> None:
    for frame in ("x" * 65_537, "ä" * 33_000, b"x" * 65_537):
        async with open_socket(f"sessions/{session.pk}/", ann) as wire:
            await wire.send(frame)
            assert await wire.closed() == 4413


async def test_a_client_that_says_nothing_is_not_kept(
    ann: User, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "HELLO_SECONDS", 0.02)
    async with open_socket(f"sessions/{session.pk}/", ann) as wire:
        assert await wire.closed() == 4408


async def test_a_person_has_only_so_many_sockets(ann: User, session: Session, settings: Any) -> None:
    settings.ALLM = {**QUIET, "SOCKETS_PER_USER": 2}
    async with open_socket(f"sessions/{session.pk}/", ann):
        async with open_socket("inbox/", ann):
            assert await refusal("inbox/", ann) == 4429
            other = await sync_to_async(person)("other", "chat")
            async with open_socket("inbox/", other):
                pass
        async with open_socket("inbox/", ann) as wire:
            await wire.hello()


async def test_a_client_has_only_so_many_replays_a_minute(
    ann: User, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "HELLOS_PER_MINUTE", 3)
    async with open_socket(f"sessions/{session.pk}/", ann) as wire:
        for _ in range(3):
            await wire.hello()
        await wire.send(HELLO)
        assert await wire.closed() == 4429
    assert protocol.HELLOS_PER_MINUTE == 60


def log_out(client: Client, user: User) -> None:
    """By the page's own button."""
    client.logout()


def log_in_again(client: Client, user: User) -> None:
    """As someone else, in the same browser."""
    client.force_login(User.objects.create_user("else"))


def end_all_logins(client: Client, user: User) -> None:
    """By an administrator."""
    LoginSession.objects.all().delete()


def deactivate(client: Client, user: User) -> None:
    """By an administrator."""
    User.objects.filter(pk=user.pk).update(is_active=False)


def change_password(client: Client, user: User) -> None:
    """In another browser."""
    user.set_password("other")
    user.save()


def delete_user(client: Client, user: User) -> None:
    """By an administrator."""
    User.objects.filter(pk=user.pk).delete()


ACTS = [log_out, log_in_again, end_all_logins, deactivate, change_password, delete_user]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_a_login_that_ends_takes_its_sockets_along(
    act: Callable[[Client, User], None], ann: User, session: Session, settings: Any
) -> None:
    settings.ALLM = {**QUIET, "POLL_SECONDS": 0.02}
    client = await sync_to_async(login)(ann)
    async with (
        open_socket(f"sessions/{session.pk}/", ann, client) as one,
        open_socket("inbox/", ann, client) as two,
    ):
        await one.hello()
        await two.hello()
        await sync_to_async(act)(client, ann)
        # A look that falls into the deletion finds that the permissions have gone first.
        expected = {4401, 4404} if act is delete_user else {4401}
        assert {await one.closed(), await two.closed()} <= expected
    assert hub.topics() == []


async def test_a_login_that_stands_keeps_its_socket(ann: User, session: Session) -> None:
    async with open_socket(f"sessions/{session.pk}/", ann) as wire:
        await wire.hello()
        for _ in range(3):
            await sync_to_async(tail_check.look)()
        assert await wire.hello(session.event_count) == []


async def test_a_permission_that_is_taken_away_ends_the_sockets(session: Session, settings: Any) -> None:
    settings.ALLM = {**QUIET, "POLL_SECONDS": 0.02}
    auditor = await sync_to_async(person)("auditor", "view_session")
    async with (
        open_socket(f"sessions/{session.pk}/", auditor) as one,
        open_socket("inbox/", auditor) as two,
    ):
        await one.hello()
        await two.hello()
        await auditor.user_permissions.aclear()
        assert (await one.closed(), await two.closed()) == (4404, 4404)


async def test_an_old_socket_gains_nothing_by_a_later_login(ann: User, session: Session) -> None:
    stranger = await sync_to_async(person)("stranger", "chat")
    client = await sync_to_async(login)(stranger)
    async with open_socket("inbox/", stranger, client) as wire:
        await wire.hello()
        await sync_to_async(client.force_login)(ann)
        await sync_to_async(tail_check.look)()
        assert await wire.closed() == 4401
