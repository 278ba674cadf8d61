"""A session as versioned JSON (S07)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from allm_django.core import exchange
from allm_django.core.encode import MASK
from allm_django.core.exchange import FORMAT, VERSION, columns
from allm_django.core.types import JSONObject
from allm_django.models import Decision, Message, Run, Session, ToolCall
from allm_django.store.shapes import masked_arguments, moment
from allm_django.store.writing import alias, writing

# The columns that go as they are; what else the form has is made below.
SESSION = columns(exchange.SESSION, "engine", "context")
RUN = columns(exchange.RUN, "error")
MESSAGE = columns(exchange.MESSAGE, "run", "dump", "calls")
DERIVED = ("tool", "raw_arguments", "asked_arguments", "arguments", "error", "decided", "decisions", "steps")
CALL = columns(exchange.CALL, *DERIVED)
DECISION = columns(exchange.DECISION, "arguments_before", "arguments_after")
TOOL = columns(exchange.TOOL, "name", "version")

Clear = Callable[[list[ToolCall]], Collection[UUID]]


def export_session(session_id: UUID, *, clear: Clear, trusted: bool, detail: bool) -> JSONObject:
    """The whole session, as it stands at one moment. Raises NotFoundError.

    ``clear`` says of which calls sensitive fields are shown; ``trusted``: with the session's context; ``detail``: with
    what errors tell the staff.
    """
    using = alias()
    with writing(session_id) as tx:
        runs = list(Run.objects.using(using).filter(session=session_id).order_by("created_at", "pk"))
        messages = list(Message.objects.using(using).filter(session=session_id).order_by("position"))
        rows = ToolCall.objects.using(using).select_related("tool_version").filter(session=session_id)
        calls = list(rows.order_by("message__position", "position"))
        decisions = list(Decision.objects.using(using).filter(session=session_id).order_by("number"))
        _join_chunks(messages)
    return _Export(tx.session, calls, decisions, set(clear(calls)), detail).build(runs, messages, trusted)


def _join_chunks(messages: list[Message]) -> None:
    """The text so far of what still streams."""
    for message in messages:
        if message.streaming:
            pieces = message.chunks.using(alias()).order_by("offset").values_list("text", flat=True)
            message.text = "".join(pieces)


def _fields(row: Any, names: Collection[str]) -> JSONObject:
    values = {name: getattr(row, name) for name in names}
    return {name: moment(value) if isinstance(value, datetime) else value for name, value in values.items()}


class _Export:
    def __init__(
        self, session: Session, calls: list[ToolCall], decisions: list[Decision], clear: set[UUID], detail: bool
    ) -> None:
        self.session, self.calls, self.clear, self.detail = session, calls, clear, detail
        self.decisions: dict[UUID, list[Decision]] = {}
        for decision in decisions:
            self.decisions.setdefault(decision.call_id, []).append(decision)

    def build(self, runs: list[Run], messages: list[Message], trusted: bool) -> JSONObject:
        """All of it."""
        places = {run.pk: place for place, run in enumerate(runs)}
        session = _fields(self.session, SESSION)
        session |= {"engine": self.session.engine.name, "context": self.session.context if trusted else None}
        return {
            "format": FORMAT,
            "version": VERSION,
            "masked": any(self._hidden(call) for call in self.calls),
            "session": session,
            "runs": [_fields(run, RUN) | {"error": self._error(run.error, "retryable")} for run in runs],
            "messages": [self._message(message, places) for message in messages],
        }

    def _message(self, message: Message, places: dict[UUID, int]) -> JSONObject:
        calls = [call for call in self.calls if call.message_id == message.pk]
        hidden = any(self._hidden(call) for call in calls)  # the provider's own message holds the arguments, too
        return _fields(message, MESSAGE) | {
            "run": places[message.run_id] if message.run_id else None,
            "dump": None if hidden else message.dump,
            "calls": [self._call(call) for call in calls if call.parent_id is None],
        }

    def _call(self, call: ToolCall) -> JSONObject:
        hidden = self._hidden(call)
        return _fields(call, CALL) | {
            "raw_arguments": MASK if hidden else call.raw_arguments,
            "asked_arguments": masked_arguments(call.asked_arguments, hidden),
            "arguments": masked_arguments(call.arguments, hidden),
            "tool": _tool(call),
            "error": self._error(call.error),
            "decided": _decided(call),
            "decisions": [_decision(decision, hidden) for decision in self.decisions.get(call.pk, ())],
            "steps": [self._call(step) for step in self.calls if step.parent_id == call.pk],
        }

    def _hidden(self, call: ToolCall) -> list[str]:
        """The names of the fields of this call that are not shown."""
        shown = call.pk in self.clear or call.tool_version is None
        return [] if shown else list(call.tool_version.data.get("sensitive", ()))  # type: ignore[union-attr]

    def _error(self, error: JSONObject | None, *more: str) -> JSONObject | None:
        if error is None:
            return None
        found = {name: error.get(name, "") for name in ("code", "message")}
        found["detail"] = error.get("detail", "") if self.detail else ""
        return found | {name: bool(error.get(name)) for name in more}


def _tool(call: ToolCall) -> JSONObject | None:
    """What of the tool a card shows and masks by."""
    version = call.tool_version
    if version is None:
        return None
    return {"name": version.name, "version": version.version} | {name: version.data[name] for name in TOOL}


def _decided(call: ToolCall) -> JSONObject | None:
    if not call.decided_verb:
        return None
    words = {"by": call.decided_name, "verb": call.decided_verb, "reason": call.decided_reason}
    return {**words, "at": moment(call.decided_at)}


def _decision(decision: Decision, hidden: list[str]) -> JSONObject:
    return _fields(decision, DECISION) | {
        "arguments_before": masked_arguments(decision.arguments_before, hidden),
        "arguments_after": masked_arguments(decision.arguments_after, hidden),
    }
