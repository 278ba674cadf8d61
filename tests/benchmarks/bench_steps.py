"""Durable steps of the loop a second, against bare transactions that write the same rows; and what a long thread costs.

Run: python -m tests.benchmarks.bench_steps [--steps 150]
A step: the model asks for one automatic tool, its result is recorded; four transactions on the runner's own kind of
database thread. The baseline copies the rows that the loop has written, in as many transactions, by plain ORM
statements.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django.db.models import F  # noqa: E402
from django.test.utils import override_settings  # noqa: E402

import allm_django as allm  # noqa: E402
from allm_django import sessions  # noqa: E402
from allm_django.loop import points  # noqa: E402
from allm_django.models import Engine, Event, Message, Session, Tool, ToolCall  # noqa: E402
from allm_django.runtime.database import DatabaseThreads  # noqa: E402
from allm_django.runtime.engine import make_driver  # noqa: E402
from allm_django.store import leases  # noqa: E402
from allm_django.store.tools import save_tool  # noqa: E402
from allm_django.testing import ScriptedModel, call, registered, say  # noqa: E402
from allm_django.tools.threads import HandlerThreads  # noqa: E402

MIN_SHARE = 0.5
MAX_GROWTH = 1.5


@allm.tool(idempotent=True)
def look(place: int) -> str:
    """Look."""
    return f"There is something at {place}, and here is what a usual result says about it in a sentence or two."


class Nobody:
    """No page watches."""

    def text(self, *_: Any) -> None: ...
    def forget(self, *_: Any) -> bool:
        return False

    def progress(self, *_: Any) -> None: ...
    def late(self, *_: Any) -> None: ...


def new_session(steps: int) -> tuple[Session, ScriptedModel]:
    """A session whose model asks ``steps`` times for the tool."""
    script = [[say("I shall look. "), call("look", {"place": place})] for place in range(steps)]
    model = ScriptedModel([*script, say("Done.")])
    engine = Engine.objects.create(name=f"e{uuid.uuid4().hex[:8]}", model=model.id, max_turns=steps + 1)
    return sessions.start(engine, user=User.objects.get_or_create(username="u")[0], text="Go on."), model


def seconds_of_steps(session: Session, model: ScriptedModel) -> list[float]:
    """When each step began, in seconds."""
    began: list[float] = []

    def hook(name: str) -> None:
        if name == "begin_step:before":
            began.append(time.perf_counter())

    async def drive() -> None:
        database, threads = DatabaseThreads(1), HandlerThreads(2, 0, lambda: None)
        try:
            lease = await database.run(leases.claim_run, session.pk, uuid.uuid4())
            driver = await make_driver(lease, database.run, Nobody(), threads, model)
            await driver.run()
        finally:
            database.close(5)
            threads.close()

    points.hook = hook
    asyncio.run(drive())
    points.hook = None
    return began


def bare_steps(session: Session) -> Callable[[], float]:
    """Transactions that write the rows of the session's steps again, for a session of their own."""
    groups = list(rows_of_steps(session))
    copy = Session.objects.create(owner=session.owner, engine=session.engine, context=None)
    run = session.runs.get()
    run.pk, run.session = uuid.uuid4(), copy
    run.save(force_insert=True)

    def write() -> float:
        start = time.perf_counter()
        for message, tool_call, events in groups:
            mine = Message(session=copy, run=run, position=message.position, role="assistant", complete=False)
            with transaction.atomic():
                lock(copy)
                mine.save(force_insert=True)
                finish(copy, run, events[:1])
            with transaction.atomic():
                lock(copy)
                mine.text, mine.complete, mine.dump, mine.usage = message.text, True, message.dump, message.usage
                mine.completed_at = message.completed_at
                mine.save()
                tool_call.pk, tool_call.session, tool_call.run, tool_call.message = uuid.uuid4(), copy, run, mine
                tool_call.save(force_insert=True)
                finish(copy, run, events[1:2])
            with transaction.atomic():
                lock(copy)
                tool_call.save()
                finish(copy, None, events[2:3])
            with transaction.atomic():
                lock(copy)
                tool_call.save()
                finish(copy, None, events[3:])
        return time.perf_counter() - start

    return write


def lock(session: Session) -> None:
    """Read the session's row in the transaction."""
    Session.objects.select_for_update().get(pk=session.pk)


def finish(session: Session, run: Any, events: list[Event]) -> None:
    """Write the events, session and run, as each of the loop's transactions does."""
    for event in events:
        row = Event(number=event.number, kind=event.kind, data=event.data, created_at=event.created_at)
        row.session = session
        row.save()
    session.event_count += len(events)
    session.save()
    if run is not None:
        run.save()


def rows_of_steps(session: Session) -> Iterator[tuple[Message, ToolCall, list[Event]]]:
    """Each step's message, call and events."""
    events = iter(session.events.filter(kind__in=STEP_EVENTS).order_by("number"))
    for tool_call in session.calls.select_related("message").order_by("message__position"):
        yield tool_call.message, tool_call, [next(events) for _ in STEP_EVENTS]


STEP_EVENTS = ("MessageStarted", "MessageCompleted", "CallStarted", "CallSucceeded")


def lengthen(session: Session, messages: int) -> None:
    """Put ``messages`` finished ones before what the session has."""
    session.messages.update(position=F("position") + messages)
    Session.objects.filter(pk=session.pk).update(message_count=F("message_count") + messages)
    Message.objects.bulk_create(
        Message(
            session=session,
            position=place + 1,
            role="assistant" if place % 2 else "user",
            text=f"Message {place} of a long conversation, about as long as messages are. " * 4,
        )
        for place in range(messages)
    )


def median_step(messages: int, steps: int) -> float:
    """Median seconds of a step in a thread of ``messages``."""
    session, model = new_session(steps)
    lengthen(session, messages)
    began = seconds_of_steps(session, model)
    return statistics.median(after - before for before, after in pairwise(began))


def main() -> None:
    """Print the figures; the exit status says whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    with override_settings(ALLM={"DISPATCH": "tests.integration.dispatches.Lost"}), registered(look) as code:
        row = Tool(name=code.name, handler=code.key, description=code.description, schema=code.schema, enabled=True)
        row.manual, row.idempotent = False, True
        save_tool(row)
        shares = []
        for _ in range(options.rounds):
            session, model = new_session(options.steps)
            began = seconds_of_steps(session, model)
            ours = (began[-1] - began[0]) / options.steps
            bare = bare_steps(session)() / options.steps
            shares.append(bare / ours)
            print(f"loop {1 / ours:.0f} steps/s, bare {1 / bare:.0f} steps/s, share {bare / ours:.0%}")
        short, long = [], []
        for _ in range(options.rounds):
            short.append(median_step(10, 60))
            long.append(median_step(1000, 60))
    share = statistics.median(shares)
    growth = statistics.median(b / a for a, b in zip(short, long, strict=True))
    print(f"share {share:.0%} (bar ≥ {MIN_SHARE:.0%})")
    few, many = statistics.median(short) * 1e3, statistics.median(long) * 1e3
    print(f"a step with 10 messages {few:.1f} ms, with 1,000 {many:.1f} ms, ratio {growth:.2f} (bar ≤ {MAX_GROWTH})")
    raise SystemExit(share < MIN_SHARE or growth > MAX_GROWTH)


if __name__ == "__main__":
    main()
