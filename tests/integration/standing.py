"""Sessions brought to each place where they can stand (S01)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

import allm_django as allm
from allm_django import sessions
from allm_django.loop import points
from allm_django.models import Session, Tool
from allm_django.store import leases
from allm_django.store.tools import save_tool
from allm_django.testing import call, fail, registered, say
from tests.integration.desk import ANY, Desk


class Crash(Exception):
    """The process is gone."""


def die_at(desk: Desk, point: str, passes: int = 1) -> None:
    """Drive until ``point`` is reached for the ``passes``-th time, and die there; the lease is still held."""
    left = iter(range(passes - 1))

    def crash(name: str) -> None:
        if name == point and next(left, None) is None:
            points.hook = None
            raise Crash

    points.hook = crash
    try:
        with pytest.raises(Crash):
            desk.drive()
    finally:
        points.hook = None


def let_go(session: Session) -> None:
    """The lease of whoever died has run out."""
    Session.objects.filter(pk=session.pk).update(lease_owner=None, lease_until=None)


def fresh(session: Session) -> Session:
    """Its row as it stands."""
    return Session.objects.get(pk=session.pk)


def idle(desk: Desk) -> None:
    """Its session is idle."""
    desk.start(session={"text": ""})


def running(desk: Desk) -> None:
    """Its session is running."""
    desk.start(say("Hello."))


def at_work(desk: Desk) -> None:
    """A worker holds its lease."""
    running(desk)
    assert leases.claim_run(desk.session.pk, uuid4()) is not None


def awaiting_user(desk: Desk) -> None:
    """Its session is awaiting user."""
    desk.tool(lambda arguments: allm.AskUser("Which one?"))
    desk.run(call("work"), say("Done."))


def two_questions(desk: Desk) -> None:
    """Two calls of its session ask."""
    desk.tool(lambda arguments: allm.AskUser("Which one?"))
    desk.run([call("work"), call("work")], say("Done."))


def awaiting_tools(desk: Desk) -> None:
    """Its session is awaiting tools."""
    desk.tool(manual=True)
    desk.run(call("work"), say("Done."))


def superseding(desk: Desk) -> None:
    """Its session waits, and its owner may write on."""
    desk.tool(manual=True)
    desk.run(call("work"), say("Done."), typing="supersede")


def unknown(desk: Desk) -> None:
    """A worker died in the middle of its session's call."""
    executing(desk)
    let_go(desk.session)
    desk.drive()


def completed(desk: Desk) -> None:
    """Its session is completed."""
    desk.run(say("Hello."), say("And hello again."))


def out_of_turns(desk: Desk) -> None:
    """Its session ended on max_turns."""
    desk.noted()
    desk.run(call("work"), say("Done."), max_turns=1)


def cancelled(desk: Desk) -> None:
    """Its session is cancelled."""
    desk.start(say("Hello."))
    sessions.cancel(desk.session)


def failed(desk: Desk) -> None:
    """Its session ended in error."""
    desk.run(fail(400), say("Hello."))


def pending(desk: Desk) -> None:
    """Its call waits, and could run."""
    desk.noted(manual=True)
    desk.run(call("work"), say("Done."))


def changed(desk: Desk) -> None:
    """Its call waits; the tool has another description now."""
    pending(desk)
    tool = Tool.objects.get()
    tool.description = "Something else."
    save_tool(tool)


def disabled(desk: Desk) -> None:
    """Its call waits; the tool is off."""
    pending(desk)
    tool = Tool.objects.get()
    tool.enabled = False
    save_tool(tool)


def ready(desk: Desk) -> None:
    """Its call is approved, and nobody runs it yet."""
    pending(desk)
    sessions.approve(desk.call(), by=None)


def executing(desk: Desk) -> None:
    """Its call runs."""
    desk.noted()
    desk.start(call("work"), say("Done."))
    die_at(desk, "handler:before")


def delegated(desk: Desk) -> None:
    """Its call is a recipe whose step waits."""
    desk.noted("refund", manual=True)
    plan = allm.recipe(schema=ANY, name="plan", manual="default")(
        lambda arguments: allm.Plan(serial=[allm.Step("refund", {})])
    )
    key = desk.stack.enter_context(registered(plan)).key
    save_tool(Tool(name="plan", handler=key, description="Plan.", schema=ANY, enabled=True, manual=False))
    desk.run(call("plan"), say("Done."))


def settled(desk: Desk) -> None:
    """Its call has its result."""
    desk.noted()
    desk.run(call("work"), say("Done."))


CALLS: dict[str, Callable[[Desk], None]] = {
    "without_handler": awaiting_tools,
    "asking": awaiting_user,
    **{make.__name__: make for make in (pending, changed, disabled, unknown, ready, executing, delegated, settled)},
}
STATES: dict[Callable[[Desk], None], str] = {
    idle: "idle",
    running: "running",
    at_work: "running",
    awaiting_user: "awaiting_user",
    two_questions: "awaiting_user",
    awaiting_tools: "awaiting_tools",
    superseding: "awaiting_tools",
    unknown: "awaiting_tools",
    completed: "completed",
    out_of_turns: "completed",
    cancelled: "completed",
    failed: "error",
}
