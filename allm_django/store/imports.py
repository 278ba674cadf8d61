"""A session from versioned JSON, with ids of its own (S07). Nothing in it is open: it arrives at rest."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from allm_django.core import exchange
from allm_django.core.exchange import columns, read_export
from allm_django.core.kinds import EventKind
from allm_django.core.settle import settle_closed
from allm_django.core.states import CallState, HaltedReason, Outcome, RunState
from allm_django.core.types import JSONObject
from allm_django.models import Decision, Engine, Message, Run, Session, ToolCall, ToolVersion
from allm_django.store import chain
from allm_django.store.calls import write_result
from allm_django.store.writing import Writing, alias, writing

IMPORTED = " (imported)"
NOT_RUN = "The conversation was moved elsewhere before this call was settled. It was not run."
MAY_HAVE_RUN = "The conversation was moved elsewhere while this call was at work. It may have taken effect."
BROKEN = "The conversation was moved elsewhere in the middle of this answer."
# What a tool's version needs to be one, where an export does not tell: nothing of it can run.
DETACHED: JSONObject = {"description": "", "handler": "", "enabled": False, "verbs": [], "timeout": 30.0, "summary": ""}
DETACHED |= {"idempotent": False, "four_eyes": False, "quorum": 1, "grants": False, "compact": False}
# The columns that come as they are; what else the form has is seen to below.
RUN = columns(exchange.RUN, "state", "created_at", "ended_at")
MESSAGE = columns(exchange.MESSAGE, "run", "calls", "created_at")
CALL = columns(exchange.CALL, "tool", "decided", "decisions", "steps", "created_at")
DECISION = columns(exchange.DECISION, "number", "who")


def import_session(data: Any, engine: Engine, owner: Any, *, context: Any = None) -> Session:
    """A new session that holds what ``data`` tells. Raises InvalidInputError naming the field; nothing is written then.

    What was open arrives closed: runs ended, calls that were not settled cancelled, streams broken off. None can run.
    """
    export = read_export(data)
    given = export["session"]
    using = alias()
    with transaction.atomic(using=using):
        session = Session.objects.using(using).create(
            owner=owner,
            engine=engine,
            title=given["title"],
            context=context,
            allowed_tools=given["allowed_tools"],
            usage=given["usage"],
            message_count=len(export["messages"]),
        )
        Session.objects.using(using).filter(pk=session.pk).update(created_at=given["created_at"])
        with writing(session.pk) as tx:
            _Import(tx).write(export)
    return Session.objects.using(using).select_related("engine", "active_run", "owner").get(pk=session.pk)


class _Import:
    def __init__(self, tx: Writing) -> None:
        self.tx = tx
        self.versions: dict[str, ToolVersion] = {}
        self.decisions: list[tuple[JSONObject, ToolCall]] = []
        self.runs: list[Run] = []

    def write(self, export: JSONObject) -> None:
        """All of it, and the events that tell it."""
        tx = self.tx
        tx.tell(EventKind.SESSION_STARTED)
        self.runs = [self._run(given) for given in export["runs"]]
        for position, given in enumerate(export["messages"], 1):
            self._message(given, position)
        self._record_decisions()
        if self.runs:
            tx.run = max(self.runs, key=lambda run: run.created_at)
        tx.derive_status()

    def _run(self, given: JSONObject) -> Run:
        run = Run(session=self.tx.session, state=RunState.ENDED, **{name: given[name] for name in RUN})
        run.ended_at = given["ended_at"] or self.tx.now
        if given["state"] != RunState.ENDED or not given["halted_reason"]:
            run.halted_reason, run.halted_metadata = HaltedReason.CANCELLED, {}
        _saved(run, given["created_at"])
        return run

    def _message(self, given: JSONObject, position: int) -> None:
        message = Message(session=self.tx.session, position=position, **{name: given[name] for name in MESSAGE})
        message.run = None if given["run"] is None else self.runs[given["run"]]
        if message.streaming:
            message.broken = BROKEN
        _saved(message, given["created_at"])
        calls = [self._call(call, message, place) for place, call in enumerate(given["calls"])]
        told = [step for call in calls for step in call]
        kind = EventKind.MESSAGE_BROKEN if message.broken else EventKind.MESSAGE_COMPLETED
        kind = EventKind.MESSAGE_ADDED if message.role != Message.Role.ASSISTANT else kind
        self.tx.tell(kind, messages=[(message, [str(call[0].id) for call in calls])], calls=told)

    def _call(self, given: JSONObject, message: Message, place: int, parent: ToolCall | None = None) -> list[ToolCall]:
        """A call and its steps, in order."""
        call = ToolCall(session=self.tx.session, run=message.run, message=message, position=place, parent=parent)
        for name in CALL:
            setattr(call, name, given[name])
        call.tool_version = self._version(given["tool"])
        if decided := given["decided"]:
            call.decided_name, call.decided_verb = _imported(decided["by"]), decided["verb"]
            call.decided_at, call.decided_reason = decided["at"], decided["reason"]
        if call.state != CallState.SETTLED:
            self._close(call)
        _saved(call, given["created_at"])
        self.decisions += [(decision, call) for decision in given["decisions"]]
        steps = [self._call(step, message, number, call) for number, step in enumerate(given["steps"])]
        return [call, *(row for step in steps for row in step)]

    def _close(self, call: ToolCall) -> None:
        started = call.state in (CallState.EXECUTING, CallState.UNKNOWN, CallState.DELEGATED) or call.attempt
        settlement = settle_closed(call.call_id, Outcome.CANCELLED, MAY_HAVE_RUN if started else NOT_RUN)
        call.state, call.outcome, call.effect = settlement.state, Outcome.CANCELLED, ""
        call.finished_at = self.tx.now
        write_result(call, settlement)

    def _version(self, given: JSONObject | None) -> ToolVersion | None:
        """A version that belongs to no tool here: what a card shows of the call, and hides."""
        if given is None:
            return None
        key = f"{given['version']} {given}"
        if key not in self.versions:
            data = {**DETACHED, **{name: value for name, value in given.items() if name != "version"}}
            version = ToolVersion(name=given["name"], version=given["version"], data=data, who=IMPORTED.strip())
            version.save(using=alias())
            self.versions[key] = version
        return self.versions[key]

    def _record_decisions(self) -> None:
        """In their order. Who made them is what the file says, and marked so: no account here is named."""
        previous: Decision | None = None
        ordered = sorted(self.decisions, key=lambda pair: pair[0]["number"])
        for given, call in ordered:
            decision = Decision(session=self.tx.session, call=call, name=call.name)
            for name in DECISION:
                setattr(decision, name, given[name])
            decision.who = _imported(given["who"])
            chain.append(self.tx.session, decision, previous)
            decision.save(using=alias())
            previous = decision


def _saved(row: Any, created_at: datetime) -> None:
    """Write a row with the time at which it was made elsewhere."""
    row.save(force_insert=True, using=alias())
    row.created_at = created_at
    row.save(force_update=True, using=alias(), update_fields=["created_at"])


def _imported(who: str) -> str:
    return who.removesuffix(IMPORTED)[: 200 - len(IMPORTED)] + IMPORTED
