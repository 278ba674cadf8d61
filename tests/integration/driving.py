"""Sessions that the real runner drives: engines with a script, tools from functions, threads that start together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from django.db import connections

import allm_django as allm
from allm_django import sessions
from allm_django.core.states import CallState
from allm_django.models import Engine, Session, Tool, ToolCall
from allm_django.store.tools import save_tool
from allm_django.testing import ScriptedModel, registered

DEADLINE = 30.0


@contextmanager
def tool(function: Callable[..., Any], **declared: Any) -> Iterator[Tool]:
    """``function`` as a registered tool with an enabled row; ``declared`` is what ``@tool`` takes."""
    with registered(allm.tool(**declared)(function)) as code:
        row = Tool(name=code.name, handler=code.key, description=code.description, schema=code.schema, enabled=True)
        row.manual, row.idempotent, row.timeout = code.manual, code.idempotent, code.timeout
        yield save_tool(row)


def session_of(model: ScriptedModel, owner: Any = None, **engine: Any) -> Session:
    """A new session with a message, of an engine of its own."""
    row = Engine.objects.create(name=f"engine-{uuid4().hex}", model=model.id, **engine)
    session = sessions.start(row, user=owner, text="Go on.")
    session.script = model  # a scripted model is found for as long as somebody holds it
    return session


def call_of(session: Session, state: CallState | None = None) -> ToolCall:
    """The session's one call; with ``state``: once it is in it."""
    return until(lambda: session.calls.filter(**({"state": state} if state else {})).first())


def until(look: Callable[[], Any]) -> Any:
    """What ``look`` gives once it is something. Fails when that takes half a minute."""
    waited = threading.Event()
    for _ in range(int(DEADLINE / 0.01)):
        if found := look():
            return found
        waited.wait(0.01)
    raise AssertionError("It never came.")


def at_once(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run all at the same moment, each in a thread of its own; what each returned or raised, in order."""
    barrier = threading.Barrier(len(functions))
    results: list[Any] = [None] * len(functions)

    def run(place: int, function: Callable[[], Any]) -> None:
        try:
            barrier.wait(DEADLINE)
            results[place] = function()
        except Exception as error:
            results[place] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    return results
