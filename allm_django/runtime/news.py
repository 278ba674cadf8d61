"""News: what the runner tells the sockets, encoded once for all of them (the contract's frames)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

INBOX = "inbox"


@dataclass(frozen=True, slots=True)
class News:
    """One frame, ready to send, with what is needed to know whether a socket has it already.

    ``number`` is an event's number in its session. ``message``, ``offset`` and ``length`` (code points) place a piece
    of streaming text. A frame with neither (progress, nudges) is sent as it comes and never replayed.
    """

    frame: str
    number: int | None = None
    message: str | None = None
    offset: int = 0
    length: int = 0


def session_topic(session_id: UUID | str) -> str:
    """The hub's topic for one session's news."""
    return f"session:{session_id}"


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(frame: Mapping[str, Any]) -> str:
    """``frame`` as compact JSON text."""
    return _encoder.encode(frame)


def event_frame(
    session_id: UUID | str, number: int, kind: str, created_at: datetime, data: Mapping[str, Any]
) -> dict[str, Any]:
    """One event as the socket and the API show it; ``data`` is the row's ``{"session", "messages", "calls"}``."""
    return {
        "type": "event",
        "n": number,
        "kind": kind,
        "at": created_at.astimezone(UTC).isoformat(),
        "session": {"id": str(session_id), **data.get("session", {})},
        "messages": data.get("messages", []),
        "calls": data.get("calls", []),
    }


def event_news(session_id: UUID | str, number: int, kind: str, created_at: datetime, data: Mapping[str, Any]) -> News:
    """News of one committed event."""
    return News(encode(event_frame(session_id, number, kind, created_at, data)), number=number)


def text_news(message_id: UUID | str, offset: int, text: str) -> News:
    """News of a stored piece of streaming text; ``offset`` in code points."""
    message = str(message_id)
    frame = {"type": "text", "message": message, "offset": offset, "text": text}
    return News(encode(frame), message=message, offset=offset, length=len(text))


def progress_news(call_id: UUID | str, fraction: float | None, text: str) -> News:
    """News of a handler's progress; ``fraction`` from 0 to 1, None = unknown."""
    return News(encode({"type": "progress", "call": str(call_id), "fraction": fraction, "text": text}))


def inbox_news() -> News:
    """The nudge to look again at what waits. Tells nothing by itself."""
    return News(encode({"type": "inbox"}))
