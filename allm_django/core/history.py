"""Messages as plain values: making them, their JSON form, and what makes a list of them a valid history (L08, S06)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from allm_django.core.encode import to_json, to_text
from allm_django.core.types import JSONObject, Message, ToolCall, Usage
from allm_django.errors import HistoryError

REJECTED = "A person rejected this call; it was not run."
NUDGE = "Your last answer was empty. Answer in words, or call a tool."


def user(text: str) -> Message:
    """A user's message."""
    return Message("user", _text(text, "user"))


def system(text: str) -> Message:
    """An instruction to the model."""
    return Message("system", _text(text, "system"))


def assistant(text: str) -> Message:
    """An earlier answer of the model."""
    return Message("assistant", _text(text, "assistant"))


def tool_result(call_id: str, value: Any, *, is_error: bool = False) -> Message:
    """The result of the call ``call_id``; any JSON-able value, a text is passed verbatim (T11)."""
    if not isinstance(call_id, str) or not call_id:
        raise HistoryError("tool_result: the call's id is missing; take it from ToolCall.id.", field="call_id")
    return Message("tool", to_text(value), tool_call_id=call_id, is_error=is_error)


def rejection(call_id: str, reason: str = "") -> Message:
    """The result of a call that a person rejected: the model is told so, and the limit of rejections counts it."""
    words = REJECTED + (f" Reason: {reason}" if reason else "")
    return tool_result(call_id, {"error": "rejected", "message": words}, is_error=True)


def is_rejection(message: Message) -> bool:
    """Whether a tool message tells of a rejection by a person."""
    return message.is_error and message.content.startswith('{"error":"rejected"')


def decisions_in(messages: Sequence[Message], pending: Sequence[str]) -> Iterator[bool]:
    """Of the calls that waited, in order: whether a person rejected each, as its result tells."""
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    yield from (is_rejection(results[call_id]) for call_id in pending if call_id in results)


def message_to_json(message: Message) -> JSONObject:
    """``message`` as a JSON object; the inverse of :func:`message_from_json`."""
    data: JSONObject = {"role": message.role, "content": message.content}
    if message.calls:
        data["calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments, "raw": call.raw} for call in message.calls
        ]
    for name in ("tool_call_id", "dump", "thinking"):
        if value := getattr(message, name):
            data[name] = to_json(value)
    if message.is_error:
        data["is_error"] = True
    if not message.complete:
        data["complete"] = False
    if message.usage is not None:
        data["usage"] = message.usage.as_json()
    return data


def message_from_json(data: Any, field: str = "message") -> Message:
    """A message from its JSON form. Raises HistoryError naming the place."""
    if isinstance(data, Message):
        return data
    if not isinstance(data, dict):
        raise HistoryError(f"{field}: {type(data).__name__} given; a message is needed.", field=field)
    role = data.get("role")
    if role not in ("system", "user", "assistant", "tool"):
        raise HistoryError(
            f"{field}.role: {role!r} is not one of system, user, assistant, tool.", field=f"{field}.role"
        )
    calls = _kind(data.get("calls") or [], (list, tuple), "a list", f"{field}.calls")
    usage = _kind(data.get("usage"), (dict, type(None)), "an object", f"{field}.usage")
    return Message(
        role,
        _text(data.get("content", ""), f"{field}.content"),
        tuple(_call_from_json(call, f"{field}.calls.{index}") for index, call in enumerate(calls)),
        _kind(data.get("tool_call_id"), (str, type(None)), "text", f"{field}.tool_call_id"),
        bool(data.get("is_error", False)),
        _kind(data.get("dump"), (dict, type(None)), "an object", f"{field}.dump"),
        bool(data.get("complete", True)),
        None if usage is None else Usage.from_json(usage),
        _text(data.get("thinking", ""), f"{field}.thinking"),
    )


def messages_from_json(messages: Any) -> tuple[Message, ...]:
    """A conversation from Messages and their JSON forms. Raises HistoryError naming the place."""
    if isinstance(messages, (str, bytes, Message, Mapping)) or not isinstance(messages, Iterable):
        kind = type(messages).__name__
        raise HistoryError(f"messages: {kind} given; a list of messages is needed.", field="messages")
    return tuple(message_from_json(message, f"messages.{index}") for index, message in enumerate(messages))


def _call_from_json(data: Any, field: str) -> ToolCall:
    _kind(data, dict, "an object", field)
    return ToolCall(
        _text(data.get("id"), f"{field}.id"),
        _text(data.get("name"), f"{field}.name"),
        _kind(data.get("arguments"), (dict, type(None)), "an object", f"{field}.arguments"),
        _text(data.get("raw", ""), f"{field}.raw"),
    )


def recipe_of(call_id: str | None) -> str:
    """The recipe's call whose step has this id, or ``""``: ``"call_1/2"`` is the second step of ``"call_1"`` (R07)."""
    return (call_id or "").rpartition("/")[0]


def check_history(messages: Sequence[Message]) -> None:
    """Raise HistoryError unless every call has exactly one result, and every result a call (L08).

    Results may stand in any order, but before the next user or assistant message. Results of a recipe's steps may
    stand among them; at the end they stand for the recipe's own, which goes on from them.
    """
    open_ids: dict[str, bool] = {}
    seen: set[str] = set()
    begun: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if (recipe := recipe_of(message.tool_call_id)) in open_ids:
                begun.add(recipe)
            else:
                _take_result(message.tool_call_id or "", open_ids)
            continue
        _refuse_missing(open_ids)
        open_ids, begun = {}, set()
        if message.role == "assistant" and message.complete:
            for call in message.calls:
                if call.id in seen:
                    raise HistoryError(f"messages: two calls have the id {call.id!r}.", field="messages")
                seen.add(call.id)
                open_ids[call.id] = False
    _refuse_missing({call_id: done or call_id in begun for call_id, done in open_ids.items()})
    if not messages or not any(message.role == "user" for message in messages):
        raise HistoryError("messages: there is no user message to answer.", field="messages")


def in_request_order(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages a provider may see: incomplete and blank ones left out, results in their calls' order (T18)."""
    out: list[Message] = []
    results: dict[str, Message] = {}
    order: list[str] = []
    for message in [*messages, Message("user")]:
        if message.role == "tool":
            results[message.tool_call_id or ""] = message
            continue
        out.extend(results[id_] for id_ in order if id_ in results)
        results, order = {}, [call.id for call in message.calls]
        if message.complete and (message.content.strip() or message.calls):
            out.append(message)
    return tuple(out)


def _take_result(call_id: str, open_ids: dict[str, bool]) -> None:
    if call_id not in open_ids:
        raise HistoryError(f"tool_result: no open call has the id {call_id!r}.", field="tool_call_id")
    if open_ids[call_id]:
        raise HistoryError(f"tool_result: the call {call_id!r} has two results.", field="tool_call_id")
    open_ids[call_id] = True


def _refuse_missing(open_ids: dict[str, bool]) -> None:
    missing = [id_ for id_, answered in open_ids.items() if not answered]
    if missing:
        names = ", ".join(repr(id_) for id_ in missing)
        raise HistoryError(f"messages: no result for the call {names}; append tool_result(…) for it.", field="messages")


def _text(value: Any, field: str) -> str:
    return str(_kind(value, str, "text", field))


def _kind(value: Any, kinds: type | tuple[type, ...], wanted: str, field: str) -> Any:
    if not isinstance(value, kinds):
        raise HistoryError(f"{field}: {type(value).__name__} given; {wanted} is needed.", field=field)
    return value
