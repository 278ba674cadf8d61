"""Rules and grants in the admin: changed by who may, tried without effect, revoked (H12, H13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from allm_django import sessions
from allm_django.models import Event, Grant, Rule, RuleChange, ToolCall
from allm_django.testing import call, say
from tests.integration.cast import person, without_runner
from tests.integration.desk import Desk
from tests.integration.test_rules import a_rule, above

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
RULE = "admin:allm_django_rule_"
RIGHTS = ("view_rule", "add_rule", "change_rule", "delete_rule")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The tests drive sessions themselves."""
    with without_runner():
        yield


def as_(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def fields(**values: Any) -> dict[str, Any]:
    return {"name": "over 100", "effect": "ask", "when": "{}", "position": 0, "enabled": "on", "tool": "", **values}


def test_a_configurer_writes_changes_and_deletes_rules_each_on_record(db: None) -> None:
    chief = as_(person("chief", "configure_tool", *RIGHTS, is_staff=True))
    chief.post(reverse(RULE + "add"), fields())
    rule = Rule.objects.get()
    chief.post(reverse(RULE + "change", args=[rule.pk]), fields(effect="deny"))
    assert "chief" in chief.get(reverse(RULE + "history", args=[rule.pk])).content.decode()
    chief.post(reverse(RULE + "delete", args=[rule.pk]), {"post": "yes"})
    assert not Rule.objects.exists()
    assert list(RuleChange.objects.order_by("pk").values_list("who", flat=True)) == ["chief"] * 3


def test_without_the_permission_to_configure_rules_are_read_only(db: None) -> None:
    rule = a_rule("r", "deny")
    staff = as_(person("staff", *RIGHTS, is_staff=True))
    assert staff.get(reverse(RULE + "change", args=[rule.pk])).status_code == 200
    assert staff.post(reverse(RULE + "change", args=[rule.pk]), fields()).status_code == 403
    assert staff.post(reverse(RULE + "delete", args=[rule.pk]), {"post": "yes"}).status_code == 403
    assert Rule.objects.get().effect == "deny"


def test_a_predicate_outside_the_subset_is_refused_at_its_field(db: None) -> None:
    chief = as_(person("chief", "configure_tool", *RIGHTS, is_staff=True))
    page = chief.post(reverse(RULE + "add"), fields(when='{"type": "string"}'))
    assert "when" in page.context["adminform"].form.errors
    assert not Rule.objects.exists()


def test_the_box_says_what_would_happen_and_does_nothing(desk: Desk) -> None:
    tool = desk.noted(manual=True)
    a_rule("over 100", "deny", above(100), tool, reason="Split it.")
    a_rule("on trial", "ask", shadow=True)
    a_rule("little", "allow")
    chief = as_(person("chief", "configure_tool", is_staff=True))
    url = reverse(RULE + "trial")

    def told(arguments: str) -> Any:
        return chief.post(url, {"tool": tool.pk, "arguments": arguments}).context

    large, small, broken = told('{"n": 500}'), told('{"n": 1}'), told("{")
    assert (str(large["outcome"]), "Split it." in large["told"]) == ("It would not run.", True)
    assert [(row["name"], row["decides"], row["shadow"]) for row in small["rules"]] == [
        ("over 100", False, False),
        ("on trial", False, True),
        ("little", True, False),
    ]
    assert str(small["outcome"]) == "It would run."
    assert (str(broken["outcome"]), broken["rules"]) == ("It would not run.", [])
    assert (desk.ran, ToolCall.objects.count(), Event.objects.count()) == ([], 0, 0)
    assert as_(person("staff", is_staff=True)).get(url).status_code == 403


def test_grants_are_listed_and_revoked(desk: Desk) -> None:
    desk.noted(manual=True, grants=True)
    desk.run(call("work"), say("Done."))
    boss = person("boss", "decide_toolcall", "view_grant", is_staff=True)
    sessions.approve(desk.open()[0], by=boss, grant={"scope": "user", "match": "exact", "seconds": 60})
    grant, url = Grant.objects.get(), reverse("admin:allm_django_grant_changelist")
    other = as_(person("other", "view_grant", is_staff=True))
    assert "in force" not in other.get(url).content.decode()
    assert "in force" in as_(boss).get(url).content.decode()
    assert as_(boss).get(reverse("admin:allm_django_grant_change", args=[grant.pk])).status_code == 200
    for client in (other, as_(boss)):
        client.post(url, {"action": "revoke_grants", "_selected_action": [str(grant.pk)]})
        grant.refresh_from_db()
        assert grant.revoked_by == ("boss" if client is not other else "")
