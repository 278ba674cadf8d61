"""Sessions brought to each place where they can stand (S01)."""

from __future__ import annotations

from collections.abc import Callable

import allm_django as allm
from allm_django import sessions
from allm_django.models import Session
from allm_django.testing import call, fail, say
from tests.integration.desk import Desk


def fresh(session: Session) -> Session:
    """Its row as it stands."""
    return Session.objects.get(pk=session.pk)


def idle(desk: Desk) -> None:
    """Its session is idle."""
    desk.start(session={"text": ""})


def running(desk: Desk) -> None:
    """Its session is running."""
    desk.start(say("Hello."))


def awaiting_user(desk: Desk) -> None:
    """Its session is awaiting user."""
    desk.tool(lambda arguments: allm.AskUser("Which one?"))
    desk.run(call("work"), say("Done."))


def awaiting_tools(desk: Desk) -> None:
    """Its session is awaiting tools."""
    desk.tool(manual=True)
    desk.run(call("work"), say("Done."))


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


STATES: dict[Callable[[Desk], None], str] = {
    idle: "idle",
    running: "running",
    awaiting_user: "awaiting_user",
    awaiting_tools: "awaiting_tools",
    completed: "completed",
    out_of_turns: "completed",
    cancelled: "completed",
    failed: "error",
}
