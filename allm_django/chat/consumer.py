"""The two sockets: the news of one session, and the nudges of the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from channels.db import database_sync_to_async

from allm_django import access
from allm_django.chat.protocol import RESYNC, Close, ready_frame
from allm_django.chat.replay import replay
from allm_django.chat.socket import NewsConsumer
from allm_django.errors import NotFoundError
from allm_django.runtime.news import INBOX, News, inbox_news, session_topic
from allm_django.runtime.tail import Cursor

INBOX_SECONDS = 1.0  # a nudge makes a page load twice: at most one a second


class SessionConsumer(NewsConsumer):
    """The news of one session, each event once and in order, whatever the hub loses, doubles or reorders."""

    def admit(self) -> Close | None:
        """Also: the session must be there and visible; both look alike."""
        if (refusal := super().admit()) is not None:
            return refusal
        try:
            wanted = self.scope["url_route"]["kwargs"]["session_id"]
            self.session_id = access.session_for(self.scope["user"], wanted).pk
        except NotFoundError:
            return Close.NOT_FOUND
        self.topic = session_topic(self.session_id)
        return None

    async def serve(self, news: Sequence[News]) -> None:
        """Answer a hello with a replay; then send what the client does not have, from the rows where there is a gap."""
        if self.hello is not None:
            self.cursor, self.hello = self.hello, None
            self.subscriber.overflowed = False
            if await self._replay() and self.cursor is not None:
                await self.put(ready_frame(self.cursor.number))
        if self.subscriber.overflowed:
            self.subscriber.overflowed = False
            await self._resync()
        if self.behind:
            self.behind = False
            await self._replay()
        for item in news:
            if self.cursor is None:
                return
            await self._pass_on(item, self.cursor)

    async def _pass_on(self, item: News, cursor: Cursor) -> None:
        if item.number is not None:
            if item.number <= cursor.number:
                return
            if item.number > cursor.number + 1:
                await self._replay()
                return
            self.cursor = Cursor(item.number, cursor.message, cursor.offset)
        elif item.message is not None:
            known = cursor.offset if item.message == cursor.message else 0
            if item.offset + item.length <= known:
                return
            if item.offset > known:
                await self._replay()
                return
            self.cursor = Cursor(cursor.number, item.message, item.offset + item.length)
        await self.put(item.frame)

    async def _replay(self) -> bool:
        """Send what the rows have beyond the cursor; whether the client may go on without loading anew."""
        if self.cursor is None or self.session_id is None:
            return False
        found = await database_sync_to_async(replay)(self.session_id, self.cursor)
        if found.resync:
            await self._resync()
            return False
        self.cursor = found.cursor
        for frame in found.frames:
            await self.put(frame)
        return True

    async def _resync(self) -> None:
        """Tell the client to load the session again; nothing more until its next hello."""
        self.cursor = None
        await self.put(RESYNC)


class InboxConsumer(NewsConsumer):
    """Nudges to look again at what waits, at most one a second. They tell nothing by themselves."""

    topic = INBOX

    async def serve(self, news: Sequence[News]) -> None:
        """Nudge once for whatever came, then rest."""
        if self.hello is not None:
            self.cursor, self.hello = self.hello, None
            await self.put(ready_frame(self.cursor.number))
        if news or self.behind or self.subscriber.overflowed:
            self.behind = self.subscriber.overflowed = False
            await self.put(inbox_news().frame)
            await asyncio.sleep(INBOX_SECONDS)
