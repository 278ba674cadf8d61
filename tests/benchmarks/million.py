"""A database as it may be after a year: made once by the ORM, then multiplied by the database itself.

    python -m tests.benchmarks.million --calls 3000            into the database of DJANGO_SETTINGS_MODULE
    python -m tests.services postgres -- python -m tests.benchmarks.bench_admin --calls 1000000

Conversations of the demo's desk: one to three runs each, two or three calls a run, most of them over in seconds, some
decided by people after minutes or days, a few still waiting, some failed. The copies lie further back, up to a year.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()

from django.contrib.auth import get_user_model
from django.db import connection, models, transaction
from django.utils import timezone

from allm_django.core.states import CallState, HaltedReason, Outcome, RunState, SessionStatus
from allm_django.core.usage import Usage
from allm_django.models import Decision, Engine, Event, Message, Run, Session, Tool, ToolCall, ToolVersion
from allm_django.store.shapes import call_shape, message_shape, session_shape
from allm_django.store.tools import current_version

TABLES: tuple[type[models.Model], ...] = (Session, Run, Message, ToolCall, Decision, Event)
MOST_MADE = 5_000  # calls that the ORM makes; the rest are copies
EVENTS_OF = 5  # one copy of so many has its events; else they would be most of the work
SPAN, YEAR = timedelta(days=7), timedelta(days=365)
QUESTIONS = (
    "Where is order {n}?",
    "Refund {m} euros on order {n}",
    "Write to the customer of order {n}",
    "Why is {n} late?",
)
REASONS = ("Parcel came late", "Twice on one order", "Ask the customer first", "")


@dataclass
class Rows:
    """What is to be written, table by table."""

    of: dict[type[models.Model], list[Any]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def add(self, row: Any) -> Any:
        """Keep a row for later."""
        self.of[type(row)].append(row)
        return row


class Maker:
    """Makes sessions with a stopped random number generator and a clock of its own."""

    def __init__(self, tools: list[Tool], people: list[Any], engine: Engine, now: datetime) -> None:
        self.dice = random.Random(1042)
        self.versions = [current_version(tool) for tool in tools]
        self.people, self.engine, self.now = people, engine, now
        self.rows = Rows()
        self.calls = 0

    def session(self) -> None:
        """One conversation of one to three runs."""
        self.moment = self.now - SPAN * self.dice.random() ** 1.3
        self.number, self.events, self.decisions = 0, 0, 0
        words = self.dice.choice(QUESTIONS).format(n=self.dice.randint(1001, 1200), m=self.dice.randint(5, 90))
        session = Session(owner=self.dice.choice(self.people), engine=self.engine, title=words, created_at=self.moment)
        session.status = SessionStatus.COMPLETED
        self.rows.add(session)
        used = Usage()
        for _ in range(self.dice.choice((1, 1, 2, 3))):
            used += self._run(session, words)
            if session.status != SessionStatus.COMPLETED:
                break
            self._pass(30, 3_000)
        session.usage, session.updated_at = used.as_json(), self.moment
        session.message_count, session.event_count = self.number, self.events

    def _run(self, session: Session, words: str) -> Usage:
        run = Run(session=session, request_id=uuid.uuid4().hex, created_at=self.moment, started_at=self.moment, turns=2)
        self.rows.add(run)
        self._message(session, run, "user", words, 0)
        calls = self._calls(session, run)
        open_ones = [call for call in calls if call.state != CallState.SETTLED]
        tokens = self.dice.randint(400, 6_000), self.dice.randint(40, 900)
        cost = None if self.dice.random() < 0.1 else round(tokens[0] * 2e-6 + tokens[1] * 8e-6, 6)
        used = Usage(*tokens, cost=cost)  # type: ignore[arg-type]
        run.usage, run.calls_used, run.seconds = used.as_json(), len(calls), 3.2
        if open_ones:
            run.state, run.halted_reason = RunState.WAITING, HaltedReason.MANUAL_TOOL_CALLS
            session.status, session.waiting, session.active_run = SessionStatus.AWAITING_TOOLS, len(open_ones), run
        else:
            self._message(
                session, run, "assistant", "All is done; the customer was told. " * 4, self.dice.uniform(1, 9)
            )
            run.state, run.halted_reason, run.ended_at = RunState.ENDED, HaltedReason.COMPLETED, self.moment
        self._tell(session, "RunHalted" if open_ones else "RunEnded", {"session": session_shape(session, run)})
        return used

    def _calls(self, session: Session, run: Run) -> list[ToolCall]:
        message = self._message(session, run, "assistant", "Let me look.", self.dice.uniform(0.6, 6), calls=True)
        calls = [self._call(session, run, message, place) for place in range(self.dice.choice((2, 2, 3)))]
        for call in calls:
            self._live(call)
            self.rows.add(call)
        return calls

    def _call(self, session: Session, run: Run, message: Message, place: int) -> ToolCall:
        version = self.dice.choice(self.versions)
        arguments = {"order_id": self.dice.randint(1001, 1200), "text": session.title + ", the customer asks."}
        call = ToolCall(session=session, run=run, message=message, position=place, tool_version=version)
        call.name, call.call_id = version.name, f"call-{message.position}-{place}"
        call.raw_arguments, call.asked_arguments, call.arguments = str(arguments), arguments, arguments
        call.state, call.created_at = CallState.READY, self.moment
        self.calls += 1
        return call

    def _live(self, call: ToolCall) -> None:
        """What became of it."""
        assert call.tool_version is not None
        if call.tool_version.data["manual"]:
            call.state, call.why = CallState.PENDING, "This tool always asks."
            self._tell_call(call, "CallPending")
            if self.now - self.moment < timedelta(days=1) and self.dice.random() < 0.15:
                return
            self._pass(20, self.dice.choice((300, 3_000, 90_000)))
            if self._decide(call) == "reject":
                self._settle(call, Outcome.REJECTED)
                return
        call.state, call.started_at, call.attempt = CallState.EXECUTING, self.moment, 1
        self._tell_call(call, "CallStarted")
        self._pass(0.05, 6)
        self._settle(call, Outcome.FAILED if self.dice.random() < 0.04 else Outcome.SUCCEEDED)

    def _decide(self, call: ToolCall) -> str:
        verb = self.dice.choices(("approve", "edit", "reject"), (8, 1, 2))[0]
        who = self.dice.choice(self.people)
        self.decisions += 1
        call.decided_by, call.decided_name, call.decided_verb = who, who.get_username(), verb
        call.decided_at, call.decided_reason, call.version = self.moment, self.dice.choice(REASONS), 2
        self.rows.add(
            Decision(
                session=call.session,
                call=call,
                number=self.decisions,
                call_version=1,
                user=who,
                who=who.get_username(),
                verb=verb,
                name=call.name,
                arguments_before=call.arguments,
                arguments_after=call.arguments,
                reason=call.decided_reason,
                outcome=Outcome.REJECTED if verb == "reject" else CallState.READY,
                created_at=self.moment,
                hmac="0" * 64,
            )
        )
        call.state = CallState.SETTLED if verb == "reject" else CallState.READY
        self._tell_call(call, "CallRejected" if verb == "reject" else "CallApproved")
        return verb

    def _settle(self, call: ToolCall, outcome: Outcome) -> None:
        call.state, call.outcome, call.finished_at = CallState.SETTLED, outcome, self.moment
        call.content = "Order 1042: delivered yesterday, in pieces. " * self.dice.randint(1, 12)
        call.result = {"status": "delivered", "text": call.content}
        if outcome == Outcome.FAILED:
            call.error = {"code": "tool_error", "message": "The shop did not answer.", "detail": "TimeoutError"}
        self._tell_call(call, "CallFailed" if outcome == Outcome.FAILED else "CallSucceeded")

    def _message(
        self, session: Session, run: Run, role: str, text: str, seconds: float, *, calls: bool = False
    ) -> Message:
        self.number += 1
        message = Message(session=session, run=run, position=self.number, role=role, text=text, created_at=self.moment)
        message.complete, message.model = not seconds, self.engine.model if seconds else ""
        shape = {"messages": [message_shape(message)]}
        self._tell(session, "MessageStarted" if seconds else "MessageAdded", shape)
        if seconds:
            self.moment += timedelta(seconds=seconds)
            message.completed_at, message.complete, message.finish_reason = self.moment, True, "stop"
            message.dump = {"parts": [{"kind": "text", "text": text}], "calls": calls}
            self._tell(session, "MessageCompleted", {"messages": [message_shape(message)]})
        self.rows.add(message)
        return message

    def _tell_call(self, call: ToolCall, kind: str) -> None:
        self._tell(call.session, kind, {"calls": [call_shape(call)]})

    def _tell(self, session: Session, kind: str, data: dict[str, Any]) -> None:
        self.events += 1
        self.rows.add(Event(session=session, number=self.events, kind=kind, data=data, created_at=self.moment))

    def _pass(self, least: float, most: float) -> None:
        self.moment = max(self.moment, min(self.now, self.moment + timedelta(seconds=self.dice.uniform(least, most))))


@contextmanager
def own_times() -> Iterator[None]:
    """Let rows keep the times that they are given."""
    fields = [f for table in TABLES for f in table._meta.concrete_fields if isinstance(f, models.DateTimeField)]
    before = [(f, f.auto_now, f.auto_now_add) for f in fields]
    for one in fields:
        one.auto_now = one.auto_now_add = False
    try:
        yield
    finally:
        for one, auto_now, auto_now_add in before:
            one.auto_now, one.auto_now_add = auto_now, auto_now_add


def make(calls: int, *, tools: list[Tool], people: list[Any], engine: Engine) -> None:
    """Write ``calls`` calls (or some more) with all around them; copies on PostgreSQL only."""
    made, now = min(calls, MOST_MADE), timezone.now()
    maker = Maker(tools, people, engine, now)
    while maker.calls < made:
        maker.session()
    runs = {session.pk: session.active_run for session in maker.rows.of[Session]}
    with transaction.atomic(), own_times():
        for session in maker.rows.of[Session]:
            session.active_run = None
        for table, rows in maker.rows.of.items():
            table._default_manager.bulk_create(rows, batch_size=500)
        for session in maker.rows.of[Session]:
            if (run := runs[session.pk]) is not None:
                Session.objects.filter(pk=session.pk).update(active_run=run)
    copies = calls // made - 1
    for table in TABLES if copies > 0 else ():
        _copy(table, copies, (YEAR - SPAN) / copies)
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")


def _copy(table: type[models.Model], copies: int, step: timedelta) -> None:
    """Each row again, ``copies`` times, each time ``step`` further back; keys follow, long texts of events don't."""
    ours = {model._meta.db_table for model in TABLES if isinstance(model._meta.pk, models.UUIDField)}
    columns: dict[str, str] = {}
    for one in table._meta.concrete_fields:
        target = one.related_model if one.related_model is not None else table if one.primary_key else None
        quoted = f't."{one.column}"'
        if isinstance(one, models.AutoField):
            continue
        if one.name == "active_run":
            columns[one.column] = "NULL"
        elif target is not None and target._meta.db_table in ours:  # type: ignore[union-attr]
            columns[one.column] = f"md5({quoted}::text || copy.n)::uuid"
        elif isinstance(one, models.DateTimeField):
            columns[one.column] = f"{quoted} - copy.n * interval '{step.total_seconds()} seconds'"
        else:
            columns[one.column] = "'{}'" if table is Event and one.name == "data" else quoted
    name = table._meta.db_table
    into = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # the keys fit: no check of each
        cursor.execute(
            f'INSERT INTO "{name}" ({into}) SELECT {", ".join(columns.values())} '
            f'FROM "{name}" t, generate_series(1, %s, %s) copy(n)',
            [copies, EVENTS_OF if table is Event else 1],
        )
        cursor.execute("RESET session_replication_role")


def main() -> None:
    """Fill the database with the demo's tools and people."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--calls", type=int, default=3_000)
    wanted = words.parse_args()
    tools = list(Tool.objects.filter(enabled=True)) or sys.exit("No tools: run sync_tools or the demo first.")
    people, engine = list(get_user_model().objects.all()), Engine.objects.first()
    if not people or engine is None:
        sys.exit("Nobody is there, or no engine: run demo_data first.")
    make(wanted.calls, tools=tools, people=people, engine=engine)
    sys.stdout.write(f"{ToolCall.objects.count()} calls, {ToolVersion.objects.count()} versions of tools\n")


if __name__ == "__main__":
    main()
