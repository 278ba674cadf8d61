"""The socket's frames and close codes. News comes out, a cursor goes in; commands go over HTTP."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any
from uuid import UUID

from allm_django.errors import InvalidInputError
from allm_django.runtime.news import encode
from allm_django.runtime.tail import Cursor

HELLO_SECONDS = 10.0
HELLOS_PER_MINUTE = 60
MAX_NUMBER = 2**63 - 1  # what the database can hold
RESYNC = encode({"type": "resync"})


class Close(IntEnum):
    """Why the server closes a socket."""

    BAD_FRAME = 4400
    LOGIN_ENDED = 4401
    ORIGIN = 4403
    NOT_FOUND = 4404
    NO_HELLO = 4408
    TOO_LARGE = 4413
    TOO_MANY = 4429
    FAILED = 1011


def ready_frame(number: int) -> str:
    """The replay is done; ``number`` is the last event that was sent or known."""
    return encode({"type": "ready", "event": number})


def text_frame(message: str, offset: int, text: str) -> str:
    """Text of a streaming message from ``offset`` (code points) on."""
    return encode({"type": "text", "message": message, "offset": offset, "text": text})


def parse_hello(text: str | None) -> Cursor:
    """The cursor in the one frame that clients send. Raises InvalidInputError for anything else."""
    if text is None:
        raise InvalidInputError("A frame is JSON text, not bytes.")
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInputError("The frame is not JSON.") from None
    if not isinstance(frame, dict) or frame.get("type") != "hello":
        raise InvalidInputError('A frame is {"type": "hello", …}.', field="type")
    if unknown := set(frame) - {"type", "event", "message", "offset"}:
        raise InvalidInputError("Unknown field in the frame.", field=sorted(unknown)[0][:64])
    return Cursor(_number(frame, "event"), _message(frame), _number(frame, "offset"))


def _number(frame: dict[str, Any], field: str) -> int:
    value = frame.get(field, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
        raise InvalidInputError(f"{field}: a whole number from 0 on is needed.", field=field)
    return value


def _message(frame: dict[str, Any]) -> str | None:
    value = frame.get("message")
    if value is None:
        return None
    try:
        return str(UUID(value))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInputError("message: a message's id or null is needed.", field="message") from None
