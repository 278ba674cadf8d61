"""The process that is killed: it loads Django once, then forks a fresh child for each command, so a death costs 20 ms.

Commands are lines of JSON on standard input, answers lines of JSON on standard output (tests/crash/children.py asks).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import django

from allm_django.loop import points


class Teller:
    """Tells the parent, at once, what a child has come to."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def __call__(self, kind: str, value: Any = None) -> None:
        os.write(self._pipe, json.dumps([kind, value]).encode() + b"\n")


def die() -> None:
    """End as a power cut ends a process."""
    os.kill(os.getpid(), signal.SIGKILL)


def watch(tell: Teller, kill_at: Sequence[Any] | None) -> None:
    """Die at the n-th pass of a point, ``[name, n]``; without: tell of each point that is passed."""
    passed: Counter[str] = Counter()

    def hook(name: str) -> None:
        passed[name] += 1
        if kill_at is None:
            tell("point", [name, passed[name]])
        elif [name, passed[name]] == list(kill_at):
            tell("died at", name)
            die()

    points.hook = hook


def migrate(tell: Teller) -> None:
    """Make the database, its tools and an engine."""
    from django.core.management import call_command

    from allm_django.models import Engine
    from allm_django.store.tool_sync import sync_tools

    call_command("migrate", verbosity=0)
    sync_tools()
    Engine.objects.create(name="desk", model="story:once")


def live(tell: Teller, story: dict[str, Any], kill_at: Sequence[Any] | None = None) -> None:
    """Start a session, decide what waits, stay until it ends; acknowledged is what the verbs have returned for."""
    from allm_django import runtime, sessions
    from allm_django.runtime.runner import runner

    watch(tell, kill_at)
    session = sessions.start("desk", user=None, text=json.dumps(story))
    tell("acknowledged", str(session.pk))
    settle(tell, sessions.wait(session))
    if story.get("again"):
        sessions.reply(session, json.dumps(story))
        tell("acknowledged", str(session.pk))
        settle(tell, sessions.wait(session))
    tell("ran here", runner.running)
    runtime.shutdown()


def settle(tell: Teller, session: Any) -> None:
    """Do what a person would, until the session has ended well: approve, look what became of it, go on."""
    from allm_django import sessions
    from allm_django.core.states import CallState, SessionStatus
    from allm_django.testing import open_calls

    while session.status != SessionStatus.COMPLETED:
        for call in open_calls(session):
            if call.state == CallState.PENDING:
                sessions.approve(call, by=None)
                tell("approved", str(call.pk))
            else:
                sessions.answer(call, by=None, value="looked after by hand")
        if session.status in (SessionStatus.ERROR, SessionStatus.IDLE):
            sessions.resume(session)
        session = sessions.wait(session)


def finish(tell: Teller, kill_at: Sequence[Any] | None = None) -> None:
    """Take up all that was left, to the end."""
    from allm_django import runtime, sessions
    from allm_django.models import Session

    watch(tell, kill_at)
    runtime.ensure_started()
    for session in Session.objects.order_by("created_at"):
        settle(tell, sessions.wait(session))
    points.hook = None
    runtime.shutdown()
    tell("finished")


def settled(tell: Teller) -> None:
    """Wait until all is done, by whoever does it."""
    from allm_django import sessions
    from allm_django.models import Session

    for session in Session.objects.order_by("created_at"):
        settle(tell, sessions.wait(session))


def inspect(tell: Teller, approved: Sequence[str] = ()) -> None:
    """Tell everything that is wrong in the rows; ``approved``: calls whose approval was acknowledged."""
    from django.conf import settings

    from allm_django.models import Decision, Session
    from tests.crash.witness import problems_of

    ledger = read(settings.LEDGER).splitlines()
    for session in Session.objects.all():
        for problem in problems_of(session, ledger):
            tell("problem", f"{session.pk}: {problem}")
        tell("session", str(session.pk))
    recorded = {str(pk) for pk in Decision.objects.filter(verb="approve").values_list("call", flat=True)}
    for call in set(approved) - recorded:
        tell("problem", f"the approval of {call} was acknowledged and is lost")


def start(tell: Teller, story: dict[str, Any], *, lost: bool = True) -> None:
    """Start a session for whoever finds it; its wake-up is ``lost``, or given to the queue."""
    from django.conf import settings
    from django.test import override_settings

    from allm_django import sessions

    dispatch = "tests.integration.dispatches.Lost" if lost else settings.ALLM["DISPATCH"]
    with override_settings(ALLM=settings.ALLM | {"DISPATCH": dispatch}):
        session = sessions.start("desk", user=None, text=json.dumps(story))
    tell("acknowledged", str(session.pk))


def stay(tell: Teller, story: dict[str, Any]) -> None:
    """Start a session, drive it, tell when it is at work and when nothing is; stop cleanly at SIGUSR1."""
    from allm_django import runtime, sessions
    from allm_django.runtime.runner import runner

    session = sessions.start("desk", user=None, text=json.dumps(story))
    tell("acknowledged", str(session.pk))
    at_work(tell, str(session.pk), handler=bool(story["calls"]))
    idle = False
    while signal.SIGUSR1 not in signal.sigpending():
        time.sleep(0.01)
        if not runner._drives and not idle:
            idle = True
            tell("idle")
    runtime.shutdown()


def at_work(tell: Teller, session: str, *, handler: bool) -> None:
    """Tell when a worker is up and the session streams text; or, ``handler``: when a handler of it has begun."""
    from django.conf import settings

    from allm_django.models import MessageChunk, ToolCall, Worker

    def begun() -> bool:
        if not handler:
            return MessageChunk.objects.filter(message__session=session).exists()
        keys = [call.idempotency_key for call in ToolCall.objects.filter(session=session, state="executing")]
        return any(key in read(settings.LEDGER) for key in keys)

    while not (Worker.objects.exists() and begun()):
        time.sleep(0.01)
    tell("at work")


def read(ledger: Path) -> str:
    """The ledger's text."""
    return ledger.read_text() if ledger.exists() else ""


def cancel(tell: Teller, session: str) -> None:
    """Cancel from a process that does not drive."""
    from allm_django import sessions
    from allm_django.store.sessions import get_session

    sessions.cancel(get_session(UUID(session)))


def look(tell: Teller) -> None:
    """Tell where the sessions stand."""
    from allm_django.models import Session

    for session in Session.objects.order_by("created_at"):
        run = session.runs.latest("created_at")
        leased = session.lease_owner is not None
        tell("session", {"id": str(session.pk), "status": session.status, "run": run.state, "leased": leased,
                         "reason": run.halted_reason})  # fmt: skip


COMMANDS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (migrate, live, finish, settled, inspect, start, stay, at_work, cancel, look)
}


def run(command: dict[str, Any], pipe: int) -> None:
    """Carry out a command in a fork, then end without Python's own farewells."""
    tell = Teller(pipe)
    try:
        COMMANDS[command.pop("do")](tell, **command)
    except BaseException:
        tell("failed", traceback.format_exc())
    os._exit(0)


def fork(command: dict[str, Any]) -> Iterator[list[Any]]:
    """What the fork tells, and at last how it ended (a negative number: killed by that signal)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        run(command, writing)
    os.close(writing)
    yield ["pid", pid]
    with open(reading) as lines:
        yield from (json.loads(line) for line in lines)
    yield ["ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]


def main() -> None:
    """Answer commands until standard input ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    django.setup()
    for module in ("allm_django.sessions", "allm_django.testing", "allm_django.runtime.runner", "tests.crash.witness"):
        import_module(module)
    with suppress(KeyboardInterrupt):
        for line in sys.stdin:
            for item in fork(json.loads(line)):
                sys.stdout.write(json.dumps(item) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
