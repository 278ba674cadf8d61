"""Retention and erasure: what is removed is gone, and a tombstone explains the gap (H14)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core import serializers
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from allm_django import sessions
from allm_django.models import Session, Tombstone
from allm_django.store import clock
from allm_django.testing import call, say
from tests.integration.desk import Desk
from tests.integration.records import TABLE, decided, sql, verify

pytestmark = [pytest.mark.django_db, pytest.mark.row("H14")]
CANARY = "canary-5527"


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """A desk whose user may do all."""
    desk.user.is_superuser = True
    desk.user.save()
    return desk


def purge(**options: Any) -> str:
    """What the command writes."""
    out = StringIO()
    call_command("allm_purge", stdout=out, **options)
    return out.getvalue()


def everything(but: Any = ()) -> str:
    """All rows of ours, as text."""
    models = [model for model in apps.get_app_config("allm_django").get_models() if model not in but]
    return "".join(serializers.serialize("json", model._base_manager.all()) for model in models)


def at(days: int) -> Any:
    """The clock, so many days on."""
    moment: datetime = timezone.now() + timedelta(days=days)
    return clock.stopped_at(moment)


@pytest.mark.both_databases
def test_old_sessions_at_rest_go_with_all_that_is_in_them_and_leave_a_tombstone(desk: Desk) -> None:
    old = decided(desk)
    desk.drive()
    sessions.rename(old, CANARY)
    waiting = decided(desk, 2)
    waiting.calls.update(name=CANARY)
    desk.tool(name="later", manual=True)
    open_ = desk.run(call("later"), say("Done."))
    with at(days=91):
        assert purge(older_than="92d", dry_run=True).startswith("0 sessions would be removed")
        assert purge(older_than="90d", dry_run=True).startswith("1 sessions would be removed, 2")
        assert Session.objects.count() == 3
        assert purge(older_than="90d") == "1 sessions removed, 2 at work or waiting for someone are left.\n"
    assert set(Session.objects.all()) == {waiting, open_}
    assert str(old.pk) not in everything(but=[Tombstone])
    stone = Tombstone.objects.get()
    assert (stone.session_id, stone.why, stone.intact) == (old.pk, "retention", True)
    assert (stone.counts["decisions"], stone.counts["calls"], stone.counts["messages"]) == (3, 3, 3)
    assert stone.last_hmac
    told, error = verify()
    assert (error, "1 sessions were purged" in told) == ("", True)
    assert "3 decisions" in verify(session=old.pk)[0]


def test_all_of_a_persons_sessions_are_erased_but_not_other_peoples(desk: Desk) -> None:
    other = User.objects.create_user("bob")
    desk.run(say(CANARY), session={"text": CANARY, "context": {"a": CANARY}, "key": "k1"})
    mine = desk.session
    desk.run(say("Hello."), session={"user": other})
    assert purge(user=str(desk.user.pk)).startswith("1 sessions removed, 0")
    assert list(Session.objects.all()) == [desk.session]
    rest = everything()
    assert CANARY not in rest
    assert Tombstone.objects.get().session_id == mine.pk
    assert '"why": "erasure"' in rest


def test_what_is_open_is_not_erased_and_that_is_told(desk: Desk) -> None:
    session = decided(desk)
    with pytest.raises(CommandError, match="Cancel"):
        purge(user=str(desk.user.pk))
    assert Session.objects.get() == session
    sessions.cancel(session)
    assert purge(user=str(desk.user.pk)).startswith("1 sessions removed")


def test_a_tombstone_says_that_a_chain_was_broken_and_is_itself_signed(desk: Desk) -> None:
    session = decided(desk)
    sessions.cancel(session)
    sql(f"DELETE FROM {TABLE} WHERE number = 3")
    purge(user=str(desk.user.pk))
    assert Tombstone.objects.get().intact is False
    sql("UPDATE allm_django_tombstone SET intact = %s", True)
    report = json.loads(verify(json=True)[0])
    assert [(found["session_id"], found["kind"]) for found in report["broken"]] == [(str(session.pk), "tombstone")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "required"),
        ({"older_than": "90"}, "36h"),
        ({"user": "999999"}, "no user"),
        ({"user": "x"}, "no user"),
    ],
)
def test_who_asks_wrongly_is_told_how(db: None, options: Any, words: str) -> None:
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    with pytest.raises(CommandError, match=words):
        call_command("allm_purge", *arguments, stdout=StringIO())


@pytest.mark.skipif(connection.vendor == "postgresql", reason="about other databases")
def test_triggers_are_refused_where_there_are_none(db: None) -> None:
    with pytest.raises(CommandError, match="SQLite"):
        call_command("allm_protect", install=True)


@pytest.mark.both_databases
@pytest.mark.skipif(connection.vendor != "postgresql", reason="about PostgreSQL")
def test_postgresql_itself_refuses_changes_but_purges_and_deleted_accounts_go_through(desk: Desk) -> None:
    session = decided(desk)
    call_command("allm_protect", install=True, verbosity=0)
    call_command("allm_protect", install=True, verbosity=0)
    for statement in (
        f"UPDATE {TABLE} SET reason = 'Fine.'",
        f"UPDATE {TABLE} SET reason = 'Fine.', user_id = NULL",
        f"DELETE FROM {TABLE}",
        "UPDATE allm_django_event SET data = '{}'",
        "DELETE FROM allm_django_event",
    ):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            sql(statement)
    desk.drive()
    boss = desk.user
    assert purge(user=str(boss.pk)).startswith("1 sessions removed")
    with pytest.raises(IntegrityError), transaction.atomic():
        sql("DELETE FROM allm_django_tombstone")
    decided(desk, 2)
    boss.delete()
    assert verify()[1] == ""
    assert not Session.objects.filter(pk=session.pk).exists()
    call_command("allm_protect", remove=True, verbosity=0)
    sql("UPDATE allm_django_event SET kind = 'Nothing'")
