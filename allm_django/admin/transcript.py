"""A session as one reads it: messages, the calls they made, what became of them, who decided (M05)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.utils.safestring import SafeString

from allm_django import access
from allm_django.admin.display import json_block, link_to_key, plain, seconds
from allm_django.admin.masking import arguments_of
from allm_django.models import Decision, Message, Session, ToolCall
from allm_django.present.spoken import said

PAGE = 50


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """One decision, as text."""

    who: str
    verb: str
    at: object
    reason: str


@dataclass(frozen=True, slots=True)
class CallEntry:
    """One call, ready for a page; ``masked`` if something is hidden from this viewer."""

    call: ToolCall
    title: str
    why: str
    link: SafeString
    arguments: SafeString | str
    result: SafeString | str
    error: str
    time: str
    decisions: tuple[DecisionLine, ...] = ()
    steps: tuple[CallEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """One message with its calls."""

    message: Message
    text: str
    thinking: str
    broken: str
    model: str
    calls: tuple[CallEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Transcript:
    """A page of messages in order; ``older`` is the position to ask for next, None at the start."""

    entries: tuple[MessageEntry, ...] = field(default=())
    older: int | None = None

    @classmethod
    def of(cls, session: Session, viewer: access.Person, *, before: int | None = None) -> Transcript:
        """The last messages (before a position). Four queries, however long the session is."""
        messages = session.messages.defer("dump", "usage").order_by("-position")
        if before is not None:
            messages = messages.filter(position__lt=before)
        found = list(messages[: PAGE + 1])
        page = found[:PAGE][::-1]
        calls = _Calls.of(page, viewer)
        entries = tuple(_message_entry(m, calls.entries(m)) for m in page)
        return cls(entries, page[0].position if len(found) > PAGE else None)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls of a page of messages, with their decisions; ``clear`` holds those that the viewer may see whole."""

    of_message: dict[object, list[ToolCall]]
    steps: dict[object, list[ToolCall]]
    decisions: dict[object, list[DecisionLine]]
    clear: set[object]

    @classmethod
    def of(cls, messages: list[Message], viewer: access.Person) -> _Calls:
        calls = list(
            ToolCall.objects.filter(message__in=messages)
            .select_related("tool_version")
            .defer("result", "late_result", "progress")
            .order_by("position")
        )
        found = cls(defaultdict(list), defaultdict(list), defaultdict(list), set(access.decidable_among(viewer, calls)))
        for call in calls:
            if call.parent_id:
                found.steps[call.parent_id].append(call)
            else:
                found.of_message[call.message_id].append(call)
        for made in Decision.objects.filter(call__in=calls).order_by("number"):
            line = DecisionLine(plain(made.who), made.get_verb_display(), made.created_at, plain(made.reason))
            found.decisions[made.call_id].append(line)
        return found

    def entries(self, message: Message) -> tuple[CallEntry, ...]:
        return tuple(self._entries(self.of_message[message.pk]))

    def _entries(self, calls: list[ToolCall]) -> Iterator[CallEntry]:
        for call in calls:
            data = call.tool_version.data if call.tool_version else {}
            yield CallEntry(
                call=call,
                title=plain(data.get("title") or call.name),
                why=plain(said(call.why)),
                link=link_to_key("toolcall", call.pk, call.name),
                arguments=json_block(arguments_of(call, clear=call.pk in self.clear)),
                result=json_block(call.content),
                error=plain((call.error or {}).get("message", "")),
                time=seconds(call.started_at, call.finished_at),
                decisions=tuple(self.decisions[call.pk]),
                steps=tuple(self._entries(self.steps[call.pk])),
            )


def _message_entry(message: Message, calls: tuple[CallEntry, ...]) -> MessageEntry:
    text, thinking, broken, model = map(plain, (message.text, message.thinking, message.broken, message.model))
    return MessageEntry(message, text, thinking, broken, model, calls)
