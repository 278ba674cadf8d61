"""Grants: given on a card, used by later calls, ended by time, use, change, revocation and lost rights (H13)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from allm_django import sessions
from allm_django.errors import InvalidInputError, StateError
from allm_django.models import Grant, ToolCall
from allm_django.store import clock
from allm_django.store.grants import revoke_grant
from allm_django.store.rules import save_rule
from allm_django.store.tools import save_tool
from allm_django.testing import ScriptedModel, call, say
from tests.integration.cast import Browser, again, person, without_runner
from tests.integration.desk import Desk
from tests.integration.test_rules import a_rule, above

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("H13")]
HOUR: dict[str, Any] = {"scope": "session", "match": "any", "seconds": 3600}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The tests drive sessions themselves."""
    with without_runner():
        yield


@pytest.fixture
def boss(db: None) -> User:
    """Someone who may decide."""
    return person("boss", "decide_toolcall")


def ask(desk: Desk, *arguments: dict[str, Any], **row: Any) -> ToolCall:
    """A session that asks for one manual call after the other; the first waits."""
    desk.noted(manual=True, grants=True, **row)
    desk.run(*(call("work", given) for given in arguments), say("Done."))
    return desk.open()[0]


def approve(desk: Desk, by: User | None, **grant: Any) -> None:
    """Approve what waits, with a grant, and drive on."""
    sessions.approve(desk.open()[0], by=by, grant={**HOUR, **grant})
    desk.drive()


def test_a_granted_call_runs_without_asking_and_says_by_whom(desk: Desk, boss: User) -> None:
    ask(desk, {"n": 1}, {"n": 2})
    approve(desk, boss)
    assert (desk.reason, desk.ran) == ("completed", [{"n": 1}, {"n": 2}])
    first, second = desk.calls()
    assert second.why.startswith("granted by boss on ")
    assert (second.decided_verb, second.decided_name) == ("grant", "boss")
    given, used = second.session.decisions.order_by("number")
    assert (given.verb, given.value) == ("approve", {"grant": HOUR})
    assert (used.verb, used.outcome, used.call, used.value["grant"]) == (
        "grant",
        "ready",
        second,
        str(Grant.objects.get().pk),
    )
    assert first.grants.get().used == 1


@pytest.mark.parametrize(
    ("grant", "second", "goes"),
    [
        ({"match": "exact"}, {"n": 1}, True),
        ({"match": "exact"}, {"n": 2}, False),
        ({"match": "pattern", "pattern": above(5)}, {"n": 6}, True),
        ({"match": "pattern", "pattern": above(5)}, {"n": 5}, False),
    ],
)
def test_a_grant_is_good_for_the_arguments_it_names(
    desk: Desk, boss: User, grant: dict[str, Any], second: dict[str, Any], goes: bool
) -> None:
    ask(desk, {"n": 1}, second)
    approve(desk, boss, **grant)
    assert (desk.calls()[1].state == "settled") is goes


def test_a_grant_is_used_up(desk: Desk, boss: User) -> None:
    ask(desk, {"n": 1}, {"n": 2}, {"n": 3})
    approve(desk, boss, uses=1)
    assert [row.state for row in desk.calls()] == ["settled", "settled", "pending"]
    assert Grant.objects.get().uses_left == 0


def test_parallel_calls_share_the_uses(desk: Desk, boss: User) -> None:
    desk.noted(manual=True, grants=True)
    desk.run(call("work"), [call("work"), call("work")], say("Done."))
    approve(desk, boss, uses=1)
    assert sorted(row.state for row in desk.calls()) == ["pending", "settled", "settled"]


def test_a_grant_for_the_session_ends_with_it_one_for_the_person_does_not(desk: Desk, boss: User) -> None:
    ask(desk, {"n": 1})
    approve(desk, boss)
    desk.run(call("work", {"n": 1}), say("Done."))
    assert desk.call().state == "pending"
    approve(desk, boss, scope="user")
    desk.run(call("work", {"n": 1}), say("Done."))
    assert desk.call().outcome == "succeeded"
    desk.run(call("work", {"n": 1}), say("Done."), session={"user": person("another", "chat")})
    assert desk.call().state == "pending"


def a_day_later(desk: Desk, boss: User, monkeypatch: Any) -> None:
    now = clock.now() + timedelta(days=1)
    monkeypatch.setattr(clock, "now", lambda: now)


def no_right_any_more(desk: Desk, boss: User, monkeypatch: Any) -> None:
    boss.user_permissions.clear()


def deactivated(desk: Desk, boss: User, monkeypatch: Any) -> None:
    User.objects.filter(pk=boss.pk).update(is_active=False)


def person_deleted(desk: Desk, boss: User, monkeypatch: Any) -> None:
    boss.delete()


def revoked(desk: Desk, boss: User, monkeypatch: Any) -> None:
    revoke_grant(Grant.objects.get().pk, by=boss)


def tool_changed(desk: Desk, boss: User, monkeypatch: Any) -> None:
    row = Grant.objects.get().tool_version.tool
    assert row is not None
    row.description = "It does more now."
    save_tool(row)


def four_eyes(desk: Desk, boss: User, monkeypatch: Any) -> None:
    desk.session.owner = boss  # who gave it is the asker now
    desk.session.save()


def a_rule_asks(desk: Desk, boss: User, monkeypatch: Any) -> None:
    a_rule("new", "ask")


def a_rule_denies(desk: Desk, boss: User, monkeypatch: Any) -> None:
    a_rule("new", "deny")


@pytest.mark.parametrize(
    "happens",
    [
        a_day_later,
        no_right_any_more,
        deactivated,
        person_deleted,
        revoked,
        tool_changed,
        four_eyes,
        a_rule_asks,
        a_rule_denies,
    ],
)
def test_a_grant_is_dead_once(desk: Desk, boss: User, monkeypatch: Any, happens: Any) -> None:
    ask(desk, {"n": 1})
    approve(desk, boss)
    happens(desk, boss, monkeypatch)
    desk.session.refresh_from_db()
    sessions.reply(desk.session, "Again.")
    desk.model = ScriptedModel([call("work", {"n": 1}), say("Done.")])
    desk.drive()
    last = desk.calls()[-1]
    assert (last.state, last.outcome) == (("settled", "denied") if happens is a_rule_denies else ("pending", ""))
    assert desk.ran == [{"n": 1}]


def test_a_grant_answers_the_rule_it_was_given_on_until_that_rule_changes(desk: Desk, boss: User) -> None:
    tool = desk.noted(grants=True)
    rule = a_rule("over 3", "ask", above(3), tool)
    desk.run(call("work", {"n": 5}), call("work", {"n": 6}), say("Done."))
    approve(desk, boss)
    assert desk.ran == [{"n": 5}, {"n": 6}]
    rule.when = above(4)
    save_rule(rule, by=boss)
    assert Grant.objects.get().revoked_by == "boss"


@pytest.mark.parametrize(
    ("row", "grant", "words"),
    [
        ({"grants": False}, {}, "one by one"),
        ({}, {"seconds": 5}, "grant.seconds"),
        ({}, {"scope": "world"}, "grant.scope"),
    ],
)
def test_what_can_not_be_granted_is_refused_and_nothing_is_decided(
    desk: Desk, boss: User, row: dict[str, Any], grant: dict[str, Any], words: str
) -> None:
    desk.noted(manual=True, **{"grants": True, **row})
    desk.run(call("work"), say("Done."))
    with pytest.raises(InvalidInputError, match=words):
        sessions.approve(desk.open()[0], by=boss, grant={**HOUR, **grant})
    assert (desk.call().state, Grant.objects.count()) == ("pending", 0)


def test_a_grant_goes_with_a_plain_approval_by_a_person_only(desk: Desk, boss: User) -> None:
    waiting = ask(desk, {"n": 1})
    with pytest.raises(InvalidInputError, match="approve only"):
        sessions.approve(waiting, by=boss, arguments={"n": 2}, grant=HOUR)
    with pytest.raises(InvalidInputError, match="a person"):
        sessions.approve(waiting, by=None, grant=HOUR)


def test_a_grant_is_revoked_once(desk: Desk, boss: User) -> None:
    ask(desk, {"n": 1})
    approve(desk, boss)
    grant = revoke_grant(Grant.objects.get().pk, by=again(boss))
    assert (grant.revoked_by, grant.revoked_at is not None) == ("boss", True)
    with pytest.raises(StateError, match="boss"):
        revoke_grant(grant.pk, by=boss)


# -- the API ----------------------------------------------------------------------------------------------------------


def test_a_grant_is_given_listed_and_revoked_over_the_api(desk: Desk, boss: User) -> None:
    waiting = ask(desk, {"n": 1, "card": "4111"}, {"n": 2}, sensitive=["card"])
    browser = Browser(boss)
    assert browser.get(f"calls/{waiting.pk}/").json()["may_grant"] is True
    answer = browser.decide(waiting, "approve", grant={**HOUR, "match": "exact"})
    assert answer.status_code == 200
    assert answer.json()["call"]["may_grant"] is False
    (grant,) = browser.get("grants/").json()["results"]
    assert (grant["by"], grant["state"], grant["uses_left"]) == ("boss", "active", None)
    assert "4111" not in str(grant["arguments"])
    revoked = browser.post(f"grants/{grant['id']}/revoke/")
    assert (revoked.status_code, revoked.json()["grant"]["state"]) == (200, "revoked")
    assert browser.post(f"grants/{grant['id']}/revoke/").status_code == 409


def test_a_grant_is_seen_and_revoked_by_its_giver_its_owner_and_who_configures(desk: Desk, boss: User) -> None:
    ask(desk, {"n": 1})
    approve(desk, boss)
    desk.user.user_permissions.set(person("model", "chat").user_permissions.all())
    others = [person("other", "chat", "decide_toolcall"), person("chief", "chat", "configure_tool")]
    seen = [len(Browser(who).get("grants/").json()["results"]) for who in (boss, desk.user, *others)]
    assert seen == [1, 1, 0, 1]
    grant = Grant.objects.get()
    assert Browser(others[0]).post(f"grants/{grant.pk}/revoke/").status_code == 404
    assert Browser(desk.user).post(f"grants/{grant.pk}/revoke/").status_code == 200


@pytest.mark.parametrize(
    ("grant", "field"),
    [
        ({"scope": "world"}, "scope"),
        ({"for": 1}, "for"),
        ({"seconds": "60"}, "seconds"),
        ({"uses": 1.5}, "uses"),
        ({"match": "pattern", "pattern": {"type": "text"}}, "grant.pattern"),
    ],
)
def test_wrong_terms_are_refused_by_field_over_the_api(desk: Desk, boss: User, grant: Any, field: str) -> None:
    answer = Browser(boss).decide(ask(desk, {"n": 1}), "approve", grant={**HOUR, **grant})
    assert answer.status_code == 400
    assert field in str(answer.json())
