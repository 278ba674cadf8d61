"""The request's messages, assembled from rows (S06). What is complete never changes, so each process keeps what it
has read and reads on from there: a step costs the same in a long thread as in a short one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from uuid import UUID

from allm_django.core import types
from allm_django.core.settle import tell_edit
from allm_django.core.states import CallState, Outcome
from allm_django.models import Message, ToolCall
from allm_django.store.writing import alias

MAX_SESSIONS = 256
MAX_CHARACTERS = 20_000_000


@dataclass(slots=True)
class _Read:
    """What was read of one thread: in request order, up to and including ``position``."""

    position: int = 0
    messages: list[types.Message] = field(default_factory=list)
    size: int = 0


_cache: OrderedDict[UUID, _Read] = OrderedDict()
_lock = Lock()


def load_history(
    session_id: UUID, last: Message | None = None, calls: Sequence[ToolCall] = ()
) -> tuple[types.Message, ...]:
    """All that a provider may see of the thread, each call followed by its result, in order.

    ``last``: the thread's last message with its ``calls``, where the caller has them; often nothing is read then.
    """
    with _lock:
        read = _cache.pop(session_id, None) or _Read()
    if last is None or last.position != read.position + 1 or not _take(read, last, calls):
        _read_on(session_id, read)
    with _lock:
        _cache[session_id] = read
        while len(_cache) > MAX_SESSIONS or sum(entry.size for entry in _cache.values()) > MAX_CHARACTERS:
            if len(_cache) == 1:
                break
            _cache.popitem(last=False)
    return tuple(read.messages)


def forget_history(session_id: UUID) -> None:
    """Drop what was read, after rows were erased."""
    with _lock:
        _cache.pop(session_id, None)


def _read_on(session_id: UUID, read: _Read) -> None:
    using = alias()
    rows = Message.objects.using(using).filter(session=session_id, position__gt=read.position).order_by("position")
    messages = list(rows)
    calls = ToolCall.objects.using(using).filter(session=session_id, message__in=messages, parent=None)
    by_message: dict[UUID, list[ToolCall]] = {}
    for call in calls.order_by("position"):
        by_message.setdefault(call.message_id, []).append(call)
    for message in messages:
        if not _take(read, message, by_message.get(message.id, ())):
            break  # read it again next time


def _take(read: _Read, message: Message, calls: Sequence[ToolCall]) -> bool:
    """Add a message that is final; False for one that is not yet. Recipes' steps are no matter of the model's (R07)."""
    calls = [call for call in calls if call.parent_id is None]
    if message.streaming or any(call.state != CallState.SETTLED for call in calls):
        return False
    read.position = message.position
    if message.complete and (message.text.strip() or calls):
        added = [_neutral(message, calls), *(_result(call) for call in calls)]
        read.messages += added
        read.size += sum(len(item.content) for item in added)
    return True


def _neutral(message: Message, calls: Sequence[ToolCall]) -> types.Message:
    asked = tuple(types.ToolCall(call.call_id, call.name, call.asked_arguments, call.raw_arguments) for call in calls)
    return types.Message(_role(message), message.text, asked, dump=message.dump, thinking=message.thinking)


def _result(call: ToolCall) -> types.Message:
    """What the model is told of a call; of an edit, too, which no event tells: both versions may be sensitive (H05)."""
    content = call.content
    if call.arguments != call.asked_arguments and call.outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
        content = tell_edit(content, call.asked_arguments, call.arguments)
    return types.Message("tool", content, tool_call_id=call.call_id, is_error=call.error is not None)


def _role(message: Message) -> types.Role:
    return "user" if message.role == "user" else "assistant" if message.role == "assistant" else "system"


def last_turn(session_id: UUID) -> Message | None:
    """The thread's last message that stands."""
    rows = Message.objects.using(alias()).filter(session=session_id, complete=True)
    return rows.order_by("-position").first()
