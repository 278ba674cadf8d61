"""The record of decisions: append-only, and no edit by SQL goes unseen (H14, security rows 41 and 42)."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import ProtectedError

from allm_django import sessions
from allm_django.errors import ConfigurationError, StateError
from allm_django.models import Decision, Event, Session
from allm_django.store import clock, verifying
from allm_django.testing import ScriptedModel, call, drive, say
from tests.integration.cast import without_runner
from tests.integration.desk import Desk
from tests.integration.records import ARGUMENTS, TABLE, decided, key, sql, verify

pytestmark = [pytest.mark.django_db, pytest.mark.row("H14")]


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """A desk whose user may do all."""
    desk.user.is_superuser = True
    desk.user.save()
    return desk


@pytest.mark.both_databases
def test_untouched_chains_are_verified_on_values_that_databases_write_in_their_own_way(desk: Desk) -> None:
    decided(desk)
    decided(desk, 2)
    assert verify() == ("5 decisions of 2 sessions are as they were written.\n", "")


TAMPERING: dict[str, tuple[str, str]] = {
    f"UPDATE {TABLE} SET reason = 'Fine.' WHERE number = 2 AND session_id = %s": ("changed", "decision 2"),
    f"UPDATE {TABLE} SET arguments_before = '{{}}' WHERE number = 1 AND session_id = %s": ("changed", "decision 1"),
    f"UPDATE {TABLE} SET shown = '{{}}' WHERE number = 3 AND session_id = %s": ("changed", "decision 3"),
    f"UPDATE {TABLE} SET number = 7 WHERE number = 3 AND session_id = %s": ("missing", "decisions 3 to 6"),
    f"DELETE FROM {TABLE} WHERE number = 1 AND session_id = %s": ("missing", "decision 1 is gone"),
    f"DELETE FROM {TABLE} WHERE number > 1 AND session_id = %s": ("missing", "decisions 2 to 3 are gone"),
    f"DELETE FROM {TABLE} WHERE session_id = %s": ("missing", "decisions 1 to 3 are gone"),
    "UPDATE allm_django_session SET decision_count = 2 WHERE id = %s": ("added", "decision 3"),
}


@pytest.mark.parametrize(("statement", "found"), TAMPERING.items())
def test_each_way_to_tamper_is_named_with_the_first_broken_row(
    desk: Desk, statement: str, found: tuple[str, str]
) -> None:
    whole, broken = decided(desk, 2), decided(desk)
    sql(statement, key(broken))
    told, error = verify(json=True)
    report = json.loads(told)
    [place] = report["broken"]
    assert (place["session_id"], place["kind"]) == (str(broken.pk), found[0])
    assert found[1] in place["words"]
    assert report["sessions"] == 2
    assert error == "1 of 2 sessions are broken."
    assert verify(session=whole.pk)[1] == ""
    assert verify(session=broken.pk)[0].startswith(f"{broken.pk}: ")


def test_the_last_decisions_can_not_be_taken_away_with_the_count_and_a_later_one_heals_nothing(desk: Desk) -> None:
    session = decided(desk)
    sql(f"DELETE FROM {TABLE} WHERE number = 3 AND session_id = %s", key(session))
    sql("UPDATE allm_django_session SET decision_count = 2 WHERE id = %s", key(session))
    assert "count or seal" in verify()[0]
    desk.drive()
    sessions.reply(desk.session, "Again.", user=desk.user)
    drive(session, ScriptedModel([call("work3", ARGUMENTS)]))
    sessions.reject(desk.open()[0], by=desk.user)
    assert "after the chain had been tampered with" in verify()[0]


def test_a_decision_that_someone_without_the_key_puts_in_is_seen(desk: Desk) -> None:
    session = decided(desk)
    last = Decision.objects.filter(session=session).order_by("-number").first()
    assert last is not None
    last.pk, last.number, last._state.adding = None, 4, True
    last.save()
    sql("UPDATE allm_django_session SET decision_count = 4 WHERE id = %s", key(session))
    assert "decision 4" in verify()[0]


def test_a_decision_made_while_a_chain_is_read_raises_no_alarm(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    session = decided(desk)
    stale = Session.objects.get(pk=session.pk)
    stale.decision_count -= 1
    monkeypatch.setattr(verifying.Verification, "_pages", lambda self: iter([[stale]]))
    assert verify()[1] == ""


def test_keys_can_be_changed_over_and_a_missing_one_is_told(
    desk: Desk, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = settings.SECRET_KEY
    decided(desk)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [former]
    assert verify()[1] == ""
    decided(desk, 2)
    settings.SECRET_KEY_FALLBACKS = []
    assert verify()[1] == "1 of 2 sessions are broken."
    settings.ALLM = {"AUDIT_KEY": "ALLM_TEST_AUDIT"}
    assert "ALLM_TEST_AUDIT" in verify()[1]
    desk.run(call("work2", ARGUMENTS))
    with pytest.raises(ConfigurationError, match="ALLM_TEST_AUDIT"):
        sessions.reject(desk.open()[0], by=None)
    monkeypatch.setenv("ALLM_TEST_AUDIT", "fresh another")
    sessions.reject(desk.open()[0], by=None)
    assert verify(session=desk.session.pk)[1] == ""


def test_a_decision_says_who_when_what_was_shown_and_what_came_of_it(desk: Desk) -> None:
    moment = datetime(2026, 5, 4, 3, 2, tzinfo=UTC)
    with clock.stopped_at(moment):
        session = decided(desk)
    first, second, third = Decision.objects.filter(session=session).order_by("number")
    assert (first.user, first.who, first.who_id) == (desk.user, "ann", str(desk.user.pk))
    assert (third.user, third.who, third.who_id) == (None, "the application", "")
    assert (first.verb, first.outcome, first.created_at) == ("edit", "ready", moment)
    assert (second.verb, second.outcome, second.reason) == ("reject", "rejected", "Too much.")
    assert (first.arguments_before["n"], first.arguments_after["n"]) == (0, 1.5)
    assert first.shown["description"] == "Works."
    assert (first.shown["state"], first.shown["tool_version"]) == ("pending", 1)


@pytest.mark.both_databases
def test_deleting_a_person_keeps_the_record_and_its_chain(desk: Desk) -> None:
    session = decided(desk)
    desk.user.delete()
    first = Decision.objects.filter(session=session).earliest("number")
    assert (first.user, first.who) == (None, "ann")
    assert verify()[1] == ""


WRITES: list[Callable[[Any], Any]] = [
    lambda rows: rows.first().save(),
    lambda rows: rows.first().delete(),
    lambda rows: rows.update(number=99),
    lambda rows: rows.delete(),
    lambda rows: rows.bulk_update(rows.all(), ["number"]),
    lambda rows: rows.bulk_create(rows.all(), ignore_conflicts=True),
    lambda rows: rows.bulk_create(rows.all(), update_conflicts=True, update_fields=["number"], unique_fields=["id"]),
    lambda rows: rows.update_or_create(pk=rows.first().pk, defaults={"number": 99}),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("model", [Decision, Event])
def test_the_orm_refuses_to_change_or_delete_what_is_on_record(desk: Desk, model: Any, write: Any) -> None:
    session = decided(desk)
    before = list(model.objects.values())
    for rows in (model.objects.all(), model.objects.filter(session=session)):
        with pytest.raises(StateError, match="append-only"):
            write(rows)
    assert list(model.objects.values()) == before


def test_neither_a_session_nor_a_persons_relation_is_a_way_round(desk: Desk) -> None:
    session = decided(desk)
    with pytest.raises(ProtectedError):
        session.delete()
    with pytest.raises(StateError):
        desk.user.allm_decisions.clear()
    with pytest.raises(StateError):
        session.decisions.update(reason="")


CANARY = "canary-9127"


def exported(**options: Any) -> str:
    """What the command writes."""
    out = StringIO()
    call_command("allm_audit", stdout=out, **options)
    return out.getvalue()


def test_the_record_is_exported_masked_and_harmless_to_spreadsheets(desk: Desk) -> None:
    desk.noted(manual=True, sensitive=["card"])
    with clock.stopped_at(datetime(2026, 5, 4, 23, tzinfo=UTC)):
        desk.run(call("work", {"card": CANARY, "n": 1}), say("Done."))
        sessions.reject(desk.open()[0], by=desk.user, reason=' =HYPERLINK("http://evil")')
    [row] = csv.DictReader(StringIO(exported()))
    assert (row["who"], row["verb"], row["tool"]) == ("ann", "reject", "work")
    assert row["reason"] == '\' =HYPERLINK("http://evil")'
    [line] = exported(format="jsonl").splitlines()
    told = json.loads(line)
    assert told["arguments_before"] == {"card": "••••••", "n": 1}
    assert told["created_at"] == "2026-05-04T23:00:00Z"
    assert CANARY not in exported() + line
    assert CANARY in exported(clear=True)
    assert exported(since="2026-05-05T00:00+00:00", format="jsonl") == ""
    assert exported(since="2026-05-04T00:00Z", until="2026-05-05T00:00Z", format="jsonl") == line + "\n"
    with pytest.raises(CommandError, match="--until"):
        exported(until="yesterday")


def test_the_admin_exports_what_the_person_sees(desk: Desk, admin_client: Any) -> None:
    desk.noted(manual=True, sensitive=["card"])
    desk.run([call("work", {"card": CANARY}), call("work", {"card": CANARY})], say("Done."))
    one, two = [sessions.reject(waiting, by=desk.user) for waiting in desk.open()]
    chosen = Decision.objects.get(call=one)
    form = {"action": "export_lines", "_selected_action": [chosen.pk]}
    with without_runner():
        answer = admin_client.post("/admin/allm_django/decision/", form)
    lines = answer.content.decode().splitlines()
    assert [json.loads(line)["call"] for line in lines] == [str(one.pk)]
    assert CANARY not in lines[0]
    assert answer.headers["Content-Disposition"] == 'attachment; filename="decisions.jsonl"'
    assert str(two.pk) not in lines[0]
