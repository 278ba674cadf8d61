"""What a client missed, from the rows: events after its cursor, then the text of a message still streaming."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from allm_django.chat.protocol import text_frame
from allm_django.models import Event, MessageChunk, Session
from allm_django.runtime.news import encode, event_frame
from allm_django.runtime.tail import Cursor

MAX_EVENTS = 1_000


@dataclass(frozen=True, slots=True)
class Replay:
    """Frames to send, and where the client stands then. ``resync``: too much, or not our cursor: load anew."""

    frames: list[str]
    cursor: Cursor
    resync: bool = False


def replay(session_id: UUID, cursor: Cursor) -> Replay:
    """Read what follows ``cursor``, in three queries.

    Text is read before events, so that no text comes of a message whose start the events do not tell.
    """
    streaming = MessageChunk.objects.filter(message__session=session_id, message__complete=False, message__broken="")
    pieces = list(streaming.order_by("message__position", "offset").values_list("message", "offset", "text"))
    last = Session.objects.filter(pk=session_id).values_list("event_count", flat=True).first() or 0
    if not 0 <= last - cursor.number <= MAX_EVENTS:
        return Replay([], Cursor(last), resync=True)
    events = list(Event.objects.filter(session=session_id, number__gt=cursor.number).order_by("number"))
    frames = [encode(event_frame(session_id, e.number, e.kind, e.created_at, e.data)) for e in events]
    number = events[-1].number if events else cursor.number
    text, message, offset = _text(pieces, cursor)
    return Replay(frames + text, Cursor(number, message, offset))


def _text(pieces: list[tuple[UUID, int, str]], cursor: Cursor) -> tuple[list[str], str | None, int]:
    """The frame with what is missing of the last message that streams, and the cursor in its text."""
    if not pieces:
        return [], cursor.message, cursor.offset
    message = str(pieces[-1][0])
    have = cursor.offset if cursor.message == message else 0
    text = "".join(text for key, _, text in pieces if str(key) == message)
    if len(text) <= have:
        return [], message, have
    return [text_frame(message, have, text[have:])], message, len(text)
