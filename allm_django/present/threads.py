"""A session's messages with their calls, a page at a time from the end."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from allm_django.access import Person
from allm_django.core.types import JSONObject
from allm_django.models import Message, MessageChunk, Session, ToolCall
from allm_django.present.cards import cards, with_card_rows
from allm_django.store.shapes import message_shape

PAGE = 50


def thread_page(user: Person, session: Session, *, before: int | None = None, limit: int = PAGE) -> JSONObject:
    """The ``limit`` messages before position ``before`` (None: the last), oldest first, with the cards of their calls.

    A message that still streams has the text stored so far. A constant number of queries.
    """
    rows = session.messages.order_by("-position")
    if before is not None:
        rows = rows.filter(position__lt=before)
    found = list(rows[: limit + 1])
    messages = found[:limit][::-1]
    calls = list(
        with_card_rows(ToolCall.objects.filter(message__in=messages)).order_by("message__position", "position")
    )
    return {
        "messages": [message_shape(message, ids) for message, ids in _with_calls(_with_text(messages), calls)],
        "calls": cards(user, calls),
        "older": len(found) > limit,
    }


def message_for_view(message: Message) -> JSONObject:
    """One message with the ids of its calls."""
    calls = list(ToolCall.objects.filter(message=message).order_by("position"))
    return message_shape(message, _with_calls(_with_text([message]), calls)[0][1])


def _with_calls(messages: Sequence[Message], calls: Sequence[ToolCall]) -> list[tuple[Message, list[str]]]:
    ids: dict[uuid.UUID, list[str]] = {message.pk: [] for message in messages}
    for call in calls:
        if call.parent_id is None:  # a recipe's steps hang below their call
            ids[call.message_id].append(str(call.pk))
    return [(message, ids[message.pk]) for message in messages]


def _with_text(messages: Sequence[Message]) -> Sequence[Message]:
    streaming = {message.pk: message for message in messages if message.streaming}
    pieces = MessageChunk.objects.filter(message__in=streaming).order_by("message", "offset") if streaming else ()
    for piece in pieces:
        message = streaming[piece.message_id]
        message.text = message.text[: piece.offset] + piece.text
    return messages
