"""People, tools, engines and halted sessions for the tests of access, API and sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group, Permission, User
from django.core.signals import request_started
from django.test import Client

from allm_django import sessions
from allm_django.apps import _ensure_started
from allm_django.models import Engine, Session, Tool, ToolCall
from allm_django.store.tools import save_tool
from allm_django.testing import ScriptedModel, drive, open_calls, say
from allm_django.testing import call as asks

API = "/api/"
SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "integer"}, "amount": {"type": "number"}, "card": {"type": "string"}},
    "required": ["order"],
    "additionalProperties": False,
}


@contextmanager
def without_runner() -> Iterator[None]:
    """A request does not start the runner inside the block: the test drives sessions itself."""
    request_started.disconnect(dispatch_uid="allm_django.runtime")
    try:
        yield
    finally:
        request_started.connect(_ensure_started, dispatch_uid="allm_django.runtime")


def person(name: str, *permissions: str, groups: Sequence[str] = (), **values: Any) -> User:
    """Someone with these permissions of ours, in these groups."""
    user = User.objects.create_user(name, password="secret", **values)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="allm_django", codename__in=permissions)
    )
    user.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    return user


def again(user: User) -> User:
    """The same person, with permissions read anew."""
    return User.objects.get(pk=user.pk)


def a_tool(name: str = "refund", *, groups: Sequence[str] = (), **values: Any) -> Tool:
    """A manual tool without a handler, unless said otherwise: a person gives its results."""
    values = {"description": "Refunds.", "schema": SCHEMA, "manual": True, "enabled": True} | values
    rows = [Group.objects.get_or_create(name=group)[0] for group in groups]
    return save_tool(Tool(name=name, title=values.pop("title", name.title()), **values), approver_groups=rows)


def an_engine(name: str = "desk", *, groups: Sequence[str] = (), **values: Any) -> Engine:
    """An engine; tests hand the model to ``drive``."""
    engine: Engine = Engine.objects.create(name=name, **({"model": "planner:desk"} | values))
    engine.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    return engine


def halted(
    owner: User | None, *arguments: dict[str, Any], engine: Engine | None = None, tool: str = "refund"
) -> Session:
    """A session whose model asked for one call of ``tool`` per ``arguments``, all of them waiting."""
    engine = engine or Engine.objects.filter(name="desk").first() or an_engine()
    session = sessions.start(engine, user=owner, text="Please refund order 7.")
    model = ScriptedModel([[say("I will refund it."), *(asks("refund", given) for given in arguments)], say("Done.")])
    return drive(session, model)


def waiting_call(owner: User | None, engine: Engine | None = None, **arguments: Any) -> ToolCall:
    """The one call that waits in a new session of ``owner``."""
    return open_calls(halted(owner, {"order": 7, **arguments}, engine=engine))[0]


class Browser:
    """A person's client: logged in, checks CSRF as a browser's requests are checked."""

    def __init__(self, user: User | None = None) -> None:
        self.client = Client(enforce_csrf_checks=True)
        if user is not None:
            self.client.force_login(user)
        self.token = "a" * 32
        self.client.cookies["csrftoken"] = self.token

    def get(self, path: str, **query: Any) -> Any:
        """An answer of the API."""
        return self.client.get(API + path, query)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """A command to the API; ``headers`` as Django's test client takes them."""
        text = body if isinstance(body, (str, bytes)) else json.dumps({} if body is None else body)
        return self.client.post(
            API + path, text, content_type="application/json", headers={"X-CSRFToken": self.token, **headers}
        )

    def decide(self, call: ToolCall, verb: str, **more: Any) -> Any:
        """A decision on the call as it was seen."""
        return self.post(f"calls/{call.pk}/decide/", {"verb": verb, "version": call.version, **more})


class NoDispatch:
    """Nobody is woken: the test drives sessions itself (``ALLM["DISPATCH"]``)."""

    def wake(self, session_id: UUID) -> None:
        """Nothing."""


QUIET = {"DISPATCH": f"{__name__}.NoDispatch", "POLL_SECONDS": 600.0}
