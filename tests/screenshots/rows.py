"""Conversations in the demo's database that show a card in each of its states."""

from __future__ import annotations

import json
import sys
from uuid import uuid4

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client, override_settings  # noqa: E402

from allm_django import sessions  # noqa: E402
from allm_django.loop import points  # noqa: E402
from allm_django.models import Session, Tool, ToolCall  # noqa: E402
from allm_django.store import workers  # noqa: E402
from allm_django.store.tools import save_tool  # noqa: E402
from allm_django.testing import drive, open_calls  # noqa: E402
from project.support.planner import Planner  # noqa: E402
from tests.integration.cast import NoDispatch  # noqa: E402

MODEL = Planner(delay=0)
HIDDEN = "Refund 10 euros on order 1060, gift for \u202eanna\u202c\u200b"


class Crash(Exception):
    """The process is gone."""


def asked(text: str, who: str = "agent") -> Session:
    """A session in which someone wrote ``text``, driven to its halt."""
    return drive(sessions.start("support", user=User.objects.get(username=who), text=text), MODEL)


def on(session: Session, verb: str, **fields: object) -> Session:
    """Kim decides every open call, and the loop goes on."""
    kim = User.objects.get(username="approver")
    for call in open_calls(session):
        sessions.decide(call, verb, by=kim, version=call.version, **fields)  # type: ignore[arg-type]
    return drive(session, MODEL)


def lost(text: str) -> Session:
    """A session whose worker died in the middle of its call."""
    session = asked(text)
    call = open_calls(session)[0]
    sessions.approve(call, by=User.objects.get(username="approver"), version=call.version)

    def crash(name: str) -> None:
        if name == "handler:before":
            raise Crash

    points.hook = crash
    try:
        drive(session, MODEL)
    except Crash:
        pass
    finally:
        points.hook = None
    call.refresh_from_db()
    workers.beat(call.worker or uuid4(), sessions=1, hung_threads=0)
    Session.objects.filter(pk=session.pk).update(lease_owner=None, lease_until=None)
    return drive(session, MODEL)


def changed(session: Session) -> Session:
    """The tool of its call changes while it waits."""
    tool = Tool.objects.get(name=ToolCall.objects.filter(session=session, state="pending").first().name)  # type: ignore[union-attr]
    schema = json.loads(json.dumps(tool.schema))
    schema["properties"]["amount"]["maximum"] = 50
    tool.schema, tool.timeout, tool.four_eyes = schema, 10.0, True
    save_tool(tool, by=User.objects.get(username="admin"))
    return session


def build() -> dict[str, str]:
    """Each conversation's id by its name."""
    call_command("migrate", verbosity=0)
    call_command("sync_tools", verbosity=0)
    call_command("demo_data", verbosity=0)
    made = {
        "done": asked("Where is order 1042?"),
        "approved": on(asked("Refund 12.50 euros on order 1063, tea came open"), "approve"),
        "rejected": on(asked("Refund 300 euros on order 1042, they are angry"), "reject", reason="Not that much"),
        "unknown": lost("E-mail the customer of order 1071 that the parcel is on its way"),
        "drift": changed(asked("Refund 25 euros on order 1080, the tea was stale")),
        "question": asked("When should order 1051 be delivered?"),
        "hidden": asked(HIDDEN),
        "two": asked("E-mail the customer of order 1042 that we are sorry for the delay, and refund 10 euros"),
        "waiting": asked("Refund 49 euros on order 1042, the cup was broken"),
    }
    return {name: str(session.pk) for name, session in made.items()}


def logins() -> dict[str, str]:
    """Everyone's login cookie."""
    cookies = {}
    for user in User.objects.all():
        client = Client()
        client.force_login(user)
        cookies[user.get_username()] = client.cookies["sessionid"].value
    return cookies


if __name__ == "__main__":
    # no runner here: everything is driven by hand
    with override_settings(ALLM={**settings.ALLM, "DISPATCH": f"{NoDispatch.__module__}.NoDispatch"}):
        json.dump({"sessions": build(), "cookies": logins()}, sys.stdout)
