"""What both sockets share: who may connect, the hello, the one sending task, the end."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import urlparse
from uuid import UUID

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import InstanceSessionWrapper
from channels.utils import await_many_dispatch

from allm_django import access
from allm_django.chat.protocol import HELLO_SECONDS, HELLOS_PER_MINUTE, Close, parse_hello
from allm_django.conf import conf
from allm_django.errors import InvalidInputError
from allm_django.logs import get_logger
from allm_django.runtime.hub import Subscriber, hub
from allm_django.runtime.logins import Login, login_of
from allm_django.runtime.news import News
from allm_django.runtime.tail import Cursor, tail_check

logger = get_logger("allm_django.chat")


class ClientGoneError(Exception):
    """The client went while a frame was on its way to it."""


class NewsConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """A socket of this project. It asks the database when it opens and when it replays, never per frame.

    One task sends, and sends the next frame only when the server has taken the one before.
    """

    open_sockets: ClassVar[Counter[Any]] = Counter()  # of this process, by user key

    loop: asyncio.AbstractEventLoop
    login: Login
    topic: str
    session_id: UUID | None = None
    cursor: Cursor | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one socket. No channel layer: only the client and the hub speak to it (security row 28)."""
        self.scope, self.base_send = scope, _past_session_middleware(send)
        self.loop = asyncio.get_running_loop()
        self.subscriber = Subscriber(self.loop)
        self.sender: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.hello: Cursor | None = None
        self.hellos: deque[float] = deque(maxlen=HELLOS_PER_MINUTE)
        self.closer: asyncio.Task[None] | None = None
        self.counted: Any = None
        self.behind = self.ending = False
        try:
            with suppress(StopConsumer):
                await await_many_dispatch([receive], self.dispatch)
        finally:
            self._release()

    async def dispatch(self, message: Any) -> None:
        """Three kinds of messages are known. Unlike Channels' own, this asks the database's thread for none of them."""
        if message["type"] == "websocket.connect":
            await self.connect()
        elif message["type"] == "websocket.receive":
            await self.receive(message.get("text"), message.get("bytes"))
        elif message["type"] == "websocket.disconnect":
            raise StopConsumer

    async def connect(self) -> None:
        """Let the client in, or say by a close code why not. A foreign or missing Origin is not let in to hear it."""
        if not origin_is_allowed(self.scope):
            await self.close(Close.ORIGIN)
            return
        refusal = await database_sync_to_async(self.admit)()
        if refusal is None and self._count() > conf().SOCKETS_PER_USER:
            refusal = Close.TOO_MANY
        await self.accept()
        if refusal is not None:
            await self.close(refusal)
            self.ending = True
            return
        self.timer = self.loop.call_later(HELLO_SECONDS, self.end, Close.NO_HELLO)

    def admit(self) -> Close | None:
        """Look up who wants what; the code to close with, or None. Runs in the database's thread."""
        user = self.scope.get("user")
        if user is None or not access.is_active(user):
            return Close.LOGIN_ENDED
        if not access.may_use_page(user):
            return Close.NOT_FOUND
        self.login = login_of(user, self.scope.get("session"))
        return None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take a hello; close on anything else."""
        if self.ending:
            return
        refusal = self._take(text_data, bytes_data)
        if refusal is not None:
            self.end(refusal)
            return
        if self.sender is None:
            self._begin()
        self.subscriber.wake()

    def catch_up(self) -> None:
        """The tail check found this socket behind."""
        self.behind = True
        self.subscriber.wake()

    def end(self, code: int) -> None:
        """Stop sending, then close with ``code``."""
        if not self.ending:
            self.ending = True
            self.closer = self.loop.create_task(self._close(code))

    async def serve(self, news: Sequence[News]) -> None:
        """Send what is new. Called by the one sending task."""
        raise NotImplementedError

    async def put(self, frame: str) -> None:
        """Send one frame; returns when the server has taken it. Raises ClientGoneError."""
        try:
            await self.base_send({"type": "websocket.send", "text": frame})
        except Exception as error:  # each server has its own
            raise ClientGoneError from error

    def _take(self, text: str | None, data: bytes | None) -> Close | None:
        frame = data or b"" if text is None else text.encode("utf-8", "surrogatepass")
        if len(frame) > conf().MAX_FRAME:
            return Close.TOO_LARGE
        now = self.loop.time()
        if len(self.hellos) == HELLOS_PER_MINUTE and now - self.hellos[0] < 60:
            return Close.TOO_MANY
        self.hellos.append(now)
        try:
            self.hello = parse_hello(text)
        except InvalidInputError:
            return Close.BAD_FRAME
        return None

    def _begin(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        hub.subscribe(self.topic, self.subscriber)
        tail_check.add(self)
        self.sender = self.loop.create_task(self._send())
        self.sender.add_done_callback(self._sender_done)

    async def _send(self) -> None:
        while True:
            await self.serve(await self.subscriber.next())

    def _sender_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, ClientGoneError):
            return  # the server tells of its end by a message of its own
        logger.error("A socket's sending failed; it is closed.", exc_info=error)
        self.end(Close.FAILED)

    async def _close(self, code: int) -> None:
        if self.sender is not None and not self.sender.done():
            self.sender.cancel()
            await asyncio.wait([self.sender])
        self._release()
        with suppress(Exception):  # the client may have gone first; each server has its own error for that
            await self.close(code)

    def _count(self) -> int:
        self.counted = self.login.user_id
        self.open_sockets[self.counted] += 1
        return self.open_sockets[self.counted]

    def _release(self) -> None:
        """Leave everything this socket was in; safe to call again."""
        if self.timer is not None:
            self.timer.cancel()
        if self.sender is not None:
            self.sender.cancel()
            hub.unsubscribe(self.topic, self.subscriber)
            tail_check.remove(self)
        if self.counted is not None:
            self.open_sockets[self.counted] -= 1
            if not self.open_sockets[self.counted]:
                del self.open_sockets[self.counted]
            self.counted = None


def _past_session_middleware(send: Any) -> Any:
    """What Channels' session middleware sends with. On its way through, it would look at the login session for each
    frame, to save it with messages that no websocket has (a tenth of what a frame costs).
    """
    wrapper = getattr(send, "__self__", None)
    return wrapper.real_send if isinstance(wrapper, InstanceSessionWrapper) else send


def origin_is_allowed(scope: Any) -> bool:
    """Channels' own rule, asked again in case the host project's routing left it out (security row 21).

    A missing, doubled or ``null`` Origin is refused even where ALLOWED_HOSTS is ``*``.
    """
    origins = [value for name, value in scope.get("headers", ()) if name == b"origin"]
    try:
        parsed = urlparse(origins[0].decode("latin1")) if len(origins) == 1 else None
        named = parsed is not None and bool(parsed.hostname)
    except ValueError:
        return False
    return named and bool(AllowedHostsOriginValidator(None).valid_origin(parsed))
