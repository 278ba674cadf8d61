"""A desk to drive stored sessions at: functions as registered tools with rows, an engine, a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from django.contrib.auth.models import User

import allm_django as allm
from allm_django import sessions
from allm_django.models import Engine, Event, Run, Session, Tool, ToolCall
from allm_django.store.tools import save_tool
from allm_django.testing import ScriptedModel, drive, open_calls, registered

ANY = {"type": "object"}
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


class Desk:
    """One engine, one session and its model. ``ran`` lists the arguments of every call of :meth:`noted` tools."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.user = User.objects.create_user("ann")
        self.ran: list[Any] = []

    def tool(
        self, function: Callable[..., Any] | None = None, name: str = "work", *, schema: Any = ANY, **row: Any
    ) -> Tool:
        """An enabled tool with this handler (None: none); automatic unless ``manual``."""
        values = {"description": f"The tool {name}.", "schema": schema, "manual": False, "enabled": True, **row}
        key = ""
        if function is not None:
            code = {field: values[field] for field in ("idempotent", "timeout") if field in values}
            function.__qualname__ += f".{name}"  # a key of its own
            decorated = allm.tool(schema=schema, name=name, manual="default", **code)(function)
            key = self.stack.enter_context(registered(decorated)).key
        return save_tool(Tool(name=name, handler=key, **values))

    def noted(self, name: str = "work", result: Any = "done", **row: Any) -> Tool:
        """A tool whose calls are noted, and which gives ``result`` (or what a function makes of the arguments)."""

        def handler(arguments: Any) -> Any:
            self.ran.append(arguments)
            return result(arguments) if callable(result) else result

        return self.tool(handler, name, **row)

    def recipe(self, plan: Callable[[Any], Any], **options: Any) -> Tool:
        """A recipe named ``plan``."""

        def recipe(arguments: dict[str, Any]) -> Any:
            return plan(arguments)

        decorated = allm.recipe(schema=ANY, name="plan", manual="default", **options)(recipe)
        key = self.stack.enter_context(registered(decorated)).key
        return save_tool(Tool(name="plan", handler=key, description="Plan.", schema=ANY, enabled=True, manual=False))

    def engine(self, **values: Any) -> Engine:
        """Another engine."""
        tools = values.pop("tools", ())
        engine: Engine = Engine.objects.create(
            **{"name": f"desk-{Engine.objects.count()}", "model": "planner:desk", **values}
        )
        engine.tools.set(tools)
        return engine

    def start(self, *entries: Any, session: dict[str, Any] | None = None, **engine: Any) -> Session:
        """A session with a message, not driven yet; ``entries`` are the model's script."""
        self.model = ScriptedModel(entries)
        self.session = sessions.start(self.engine(**engine), **{"user": self.user, "text": "Go.", **(session or {})})
        return self.session

    def run(self, *entries: Any, **values: Any) -> Session:
        """:meth:`start`, and drive to the first halt."""
        self.start(*entries, **values)
        return self.drive()

    def drive(self) -> Session:
        """Drive on to the next halt."""
        self.session = drive(self.session, self.model)
        return self.session

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def last_run(self) -> Run:
        """The latest run."""
        run = self.session.runs.order_by("-created_at").first()
        assert run is not None
        return run

    @property
    def reason(self) -> str:
        """Why the latest run halted."""
        return self.last_run.halted_reason

    def calls(self) -> list[ToolCall]:
        """All calls in order."""
        return list(self.session.calls.order_by("message__position", "position"))

    def call(self) -> ToolCall:
        """The only call."""
        (only,) = self.calls()
        return only

    def open(self) -> list[ToolCall]:
        """The calls that wait."""
        return open_calls(self.session)

    def told(self) -> list[str]:
        """What the last request told the model of its calls."""
        return [message.content for message in self.model.requests[-1].messages if message.role == "tool"]

    def offered(self) -> list[str]:
        """The tools that the last request offered."""
        return [tool.name for tool in self.model.requests[-1].tools]

    def kinds(self) -> list[str]:
        """The kinds of all events in order."""
        return list(Event.objects.filter(session=self.session).order_by("number").values_list("kind", flat=True))
