"""Sessions with decisions on record, and what someone with the database's password does to them."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from allm_django import sessions
from allm_django.models import Session
from allm_django.testing import call, say
from tests.integration.desk import Desk

TABLE = "allm_django_decision"
ARGUMENTS = {"z": 1e16, "a": [1.0, -0.0, 2**63 + 1], "text": "ü‮", "n": None}


def decided(desk: Desk, count: int = 3) -> Session:
    """A session with ``count`` decisions, of two verbs."""
    desk.noted(f"work{count}", manual=True, description="Works.")
    desk.run([call(f"work{count}", {**ARGUMENTS, "n": number}) for number in range(count)], say("Done."))
    for number, waiting in enumerate(desk.open()):
        if number % 2:
            sessions.reject(waiting, by=desk.user, reason="Too much.")
        else:
            sessions.approve(waiting, by=None if number else desk.user, arguments={**ARGUMENTS, "n": 1.5})
    return desk.session


def sql(text: str, *values: Any) -> None:
    """What someone with the database's password does."""
    with connection.cursor() as cursor:
        cursor.execute(text, values)


def key(session: Session) -> Any:
    """The session's key as the database has it."""
    return session.pk if connection.vendor == "postgresql" else session.pk.hex


def verify(**options: Any) -> tuple[str, str]:
    """What the command writes, and the error that it ends with."""
    out = StringIO()
    try:
        call_command("allm_verify", stdout=out, **options)
    except CommandError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""
