"""The form in which a session leaves one installation and enters another: versioned JSON, read strictly (S07).

Reading knows each field of the format and refuses what it does not know, naming the place (``messages.3.text``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from allm_django.core.fields import (
    Check,
    call_id,
    figures,
    flag,
    json_value,
    list_of,
    mapping,
    maybe,
    moment,
    object_of,
    one_of,
    refused,
    schema,
    seconds,
    step_id,
    text,
    whole,
)
from allm_django.core.states import CallState, Outcome, RunState
from allm_django.core.types import JSONObject
from allm_django.errors import InvalidInputError

FORMAT, VERSION = "allm_django.session", 1
# From an older version to the next one: what it was -> what it would be there. Applied one after another.
UPGRADES: dict[int, Callable[[JSONObject], JSONObject]] = {}

VERBS = ("", "approve", "edit", "answer", "reject", "retry", "reask", "grant")


def read_export(data: Any) -> JSONObject:
    """``data`` checked to its last field, times as datetimes. Raises InvalidInputError naming the field.

    Older versions of the format are brought up to date first; a newer one, or another format, is refused.
    """
    current = _upgraded(data)
    found: JSONObject = object_of(EXPORT)(current, "")
    _check_references(found)
    return found


def columns(fields: Mapping[str, Check], *but: str) -> tuple[str, ...]:
    """The names of these fields, without those that are no plain columns of a row."""
    return tuple(name for name in fields if name not in but)


def _upgraded(data: Any) -> JSONObject:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        given = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise InvalidInputError(f"format: {given!r} given; an export has {FORMAT!r}.", field="format")
    version = data.get("version")
    while version != VERSION:
        upgrade = UPGRADES.get(version) if isinstance(version, int) else None
        if upgrade is None:
            words = f"version: {version!r} given; this program reads {VERSION} and what can be brought up to it."
            raise InvalidInputError(words, field="version")
        data = upgrade(data)
        version = data.get("version")
    current: JSONObject = data
    return current


TOOL = {
    "name": text(64),
    "version": whole,
    "title": text(120),
    "schema": schema,
    "manual": flag,
    "sensitive": list_of(text(200)),
    "metadata": mapping,
}
DECISION = {
    "number": whole,
    "call_version": whole,
    "who": text(200),
    "verb": one_of(VERBS[1:]),
    "arguments_before": maybe(mapping),
    "arguments_after": maybe(mapping),
    "reason": text(),
    "value": json_value,
    "outcome": one_of([CallState.READY, CallState.PENDING, *Outcome]),
    "created_at": moment,
}
DECIDED = {"by": text(200), "verb": one_of(VERBS[1:]), "at": moment, "reason": text()}
CALL: dict[str, Check] = {
    "call_id": call_id,
    "label": text(200),
    "provider_id": text(255),
    "name": text(255),
    "tool": maybe(object_of(TOOL)),
    "raw_arguments": text(),
    "asked_arguments": maybe(mapping),
    "arguments": maybe(mapping),
    "why": text(),
    "version": whole,
    "state": one_of(list(CallState)),
    "outcome": one_of(["", *Outcome]),
    "effect": text(80),
    "question": maybe(mapping),
    "result": json_value,
    "content": text(),
    "error": maybe(object_of({"code": text(64), "message": text(), "detail": text()})),
    "late_result": json_value,
    "attempt": whole,
    "decided": maybe(object_of(DECIDED)),
    "decisions": list_of(object_of(DECISION)),
    "steps": lambda value, where: list_of(object_of(STEP))(value, where),
    "created_at": moment,
    "started_at": maybe(moment),
    "finished_at": maybe(moment),
}
STEP: dict[str, Check] = {**CALL, "call_id": step_id}
MESSAGE = {
    "run": maybe(whole),
    "role": one_of(["system", "user", "assistant"]),
    "text": text(),
    "thinking": text(),
    "complete": flag,
    "broken": text(300),
    "model": text(200),
    "finish_reason": text(64),
    "dump": maybe(mapping),
    "usage": maybe(figures),
    "created_at": moment,
    "completed_at": maybe(moment),
    "calls": list_of(object_of(CALL)),
}
RUN = {
    "kind": one_of(["chat", "step"]),
    "state": one_of(list(RunState)),
    "halted_reason": text(64),
    "halted_metadata": mapping,
    "request_id": text(64),
    "error": maybe(object_of({"code": text(64), "message": text(), "detail": text(), "retryable": flag})),
    "usage": figures,
    "turns": whole,
    "calls_used": whole,
    "seconds": seconds,
    "output": maybe(mapping),
    "created_at": moment,
    "started_at": maybe(moment),
    "ended_at": maybe(moment),
}
SESSION = {
    "title": text(200),
    "engine": text(64),
    "allowed_tools": maybe(list_of(text(64))),
    "context": json_value,
    "usage": figures,
    "created_at": moment,
}
EXPORT: dict[str, Check] = {
    "format": text(),
    "version": whole,
    "masked": flag,
    "session": object_of(SESSION),
    "runs": list_of(object_of(RUN)),
    "messages": list_of(object_of(MESSAGE)),
}


def _check_references(export: JSONObject) -> None:
    """Runs are named by their place; ids are unique; a call has a run, an outcome when it is settled, one message."""
    seen: set[str] = set()
    for place, message in enumerate(export["messages"]):
        where = f"messages.{place}"
        if message["run"] is not None and message["run"] >= len(export["runs"]):
            raise refused(f"{where}.run", f"there is no run {message['run']}.")
        if message["calls"] and (message["role"] != "assistant" or message["run"] is None or not message["complete"]):
            raise refused(f"{where}.calls", "only a whole message of the assistant, in a run, makes calls.")
        if message["complete"] and message["broken"]:
            raise refused(f"{where}.broken", "a whole message is not broken.")
        _check_calls(message["calls"], f"{where}.calls", seen)


def _check_calls(calls: list[JSONObject], where: str, seen: set[str]) -> None:
    for place, call in enumerate(calls):
        if call["call_id"] in seen:
            raise refused(f"{where}.{place}.call_id", f"two calls have the id {call['call_id']!r}.")
        seen.add(call["call_id"])
        if (call["state"] == CallState.SETTLED) != bool(call["outcome"]):
            raise refused(f"{where}.{place}.outcome", "exactly a settled call has an outcome.")
        _check_calls(call["steps"], f"{where}.{place}.steps", seen)
