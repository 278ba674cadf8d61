"""The tail check: one thread a process that looks, for all open sockets at once, at what they may have missed.

News can be lost (a dead Redis, another process). Every ``POLL_SECONDS`` a few queries, whatever the number of
sockets, find sockets that are behind the rows, and logins and permissions that have ended (security row 23).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from threading import Event as Signal
from threading import Lock, Thread
from typing import Protocol
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import close_old_connections, connections
from django.db.models import Count, Max

from allm_django import access
from allm_django.conf import conf
from allm_django.logs import get_logger
from allm_django.models import MessageChunk, Session, ToolCall
from allm_django.models.call import OPEN_CALLS
from allm_django.runtime import share_news
from allm_django.runtime.hub import call_in
from allm_django.runtime.logins import Login, standing_users

USERS_PER_LOOK = 20
LOGIN_ENDED, NOT_FOUND = 4401, 4404

logger = get_logger("allm_django.runtime")


@dataclass(frozen=True, slots=True)
class Cursor:
    """What a client has: events up to ``number``, and ``offset`` code points of the text of ``message``."""

    number: int = 0
    message: str | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Tail:
    """What the rows have: events up to ``number``; the last stored piece of each streaming message begins at …"""

    number: int
    pieces: Mapping[str, int]

    def is_ahead_of(self, cursor: Cursor) -> bool:
        """Whether a client at ``cursor`` lacks something."""
        known = {cursor.message: cursor.offset}
        return self.number > cursor.number or any(begin >= known.get(key, 0) for key, begin in self.pieces.items())


class Socket(Protocol):
    """What the tail check needs to know of an open socket. The two functions are called in its loop."""

    loop: asyncio.AbstractEventLoop
    login: Login
    session_id: UUID | None  # None: the inbox
    cursor: Cursor | None  # None: the client has not said hello

    def catch_up(self) -> None:
        """Replay from the rows."""

    def end(self, code: int) -> None:
        """Close the socket with ``code``."""


class TailCheck:
    """The sockets of this process, and the thread that looks after them while there are any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sockets: dict[Socket, None] = {}  # in the order they came
        self._thread: Thread | None = None
        self._stop = Signal()
        self._tails: dict[UUID, Tail] = {}
        self._inbox: object = None
        self._turn = 0

    def add(self, socket: Socket) -> None:
        """Look after ``socket`` from now on; news of other processes are let in for it."""
        share_news()
        with self._lock:
            self._sockets[socket] = None
            if self._thread is None:
                self._stop = Signal()
                self._thread = Thread(target=self._run, args=(self._stop,), name="allm-tail", daemon=True)
                self._thread.start()

    def remove(self, socket: Socket) -> None:
        """Forget ``socket``; harmless when it is not known."""
        with self._lock:
            self._sockets.pop(socket, None)

    def stop(self) -> None:
        """End the thread and wait for it; sockets that are still open are no longer looked after."""
        with self._lock:
            self._sockets.clear()
            thread, self._thread = self._thread, None
            self._stop.set()
        if thread is not None:
            thread.join()

    def look(self) -> None:
        """Look once. Not for two threads at a time."""
        with self._lock:
            sockets = list(self._sockets)
        self._end_logins(sockets)
        self._wake_those_behind(sockets)

    def _run(self, stop: Signal) -> None:
        try:
            while not stop.wait(conf().POLL_SECONDS) and not self._is_done():
                close_old_connections()
                try:
                    self.look()
                except Exception:  # the database may be away for a while; looking goes on
                    logger.exception("The tail check failed; it is tried again.")
        finally:
            connections.close_all()

    def _is_done(self) -> bool:
        with self._lock:
            if self._sockets:
                return False
            self._thread, self._tails, self._inbox = None, {}, None
            return True

    def _end_logins(self, sockets: Iterable[Socket]) -> None:
        users = standing_users({socket.login for socket in sockets})
        for socket in sockets:
            if socket.login not in users:
                call_in(socket.loop, socket.end, LOGIN_ENDED)
        for socket in self._shut_out(sockets, users):
            call_in(socket.loop, socket.end, NOT_FOUND)

    def _shut_out(self, sockets: Iterable[Socket], users: Mapping[Login, AbstractBaseUser]) -> Iterator[Socket]:
        """Sockets of users who may no longer see what they watch; a few users at each look, in turn."""
        by_user: dict[AbstractBaseUser, list[Socket]] = {}
        for socket in sockets:
            if socket.login in users:
                by_user.setdefault(users[socket.login], []).append(socket)
        self._turn = self._turn if self._turn < len(by_user) else 0
        for user, own in islice(by_user.items(), self._turn, self._turn + USERS_PER_LOOK):
            seen = _watchable(user, own)
            yield from (socket for socket in own if socket.session_id not in seen)
        self._turn += USERS_PER_LOOK

    def _wake_those_behind(self, sockets: Iterable[Socket]) -> None:
        """Wake sockets that lack what the *previous* look saw: what is newer may be on its way."""
        before, self._tails = self._tails, read_tails({s.session_id for s in sockets if s.session_id is not None})
        inbox, self._inbox = self._inbox, _inbox_mark() if any(s.session_id is None for s in sockets) else None
        for socket in sockets:
            if socket.session_id is None:
                behind = inbox is not None and inbox != self._inbox
            else:
                tail = before.get(socket.session_id)
                behind = tail is not None and socket.cursor is not None and tail.is_ahead_of(socket.cursor)
            if behind:
                call_in(socket.loop, socket.catch_up)


def read_tails(session_ids: Iterable[UUID]) -> dict[UUID, Tail]:
    """Where the rows of these sessions stand; two queries."""
    ids = list(session_ids)
    if not ids:
        return {}
    streaming = MessageChunk.objects.filter(message__session__in=ids, message__complete=False, message__broken="")
    pieces: dict[UUID, dict[str, int]] = {}
    for session_id, message_id, begin in streaming.values_list("message__session", "message").annotate(Max("offset")):
        pieces.setdefault(session_id, {})[str(message_id)] = begin
    counts = Session.objects.filter(pk__in=ids).values_list("pk", "event_count")
    return {pk: Tail(number, pieces.get(pk, {})) for pk, number in counts}


def _inbox_mark() -> object:
    """Changes when something begins or ceases to wait."""
    return ToolCall.objects.filter(OPEN_CALLS).aggregate(Count("pk"), Max("created_at"))


def _watchable(user: AbstractBaseUser, sockets: Iterable[Socket]) -> set[UUID | None]:
    """Which of what ``sockets`` watch ``user`` may still see."""
    if not access.may_use_page(user):
        return set()
    ids = {socket.session_id for socket in sockets if socket.session_id is not None}
    return {None, *access.visible_sessions(user).filter(pk__in=ids).values_list("pk", flat=True)}


tail_check = TailCheck()
