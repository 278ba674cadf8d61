"""Rules on stored calls: judged each turn, named on the call, on trial, on record (H12)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import allm_django as allm
from allm_django import sessions
from allm_django.errors import InvalidInputError, StateError
from allm_django.models import Rule, RuleChange, Tool
from allm_django.store.rules import delete_rule, save_rule
from allm_django.testing import call, say
from tests.integration.cast import person
from tests.integration.desk import Desk
from tests.integration.test_recipes import planned, steps

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("H12")]


def above(n: int) -> dict[str, Any]:
    """The predicate n > ``n``."""
    return {"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": n}}, "required": ["n"]}


def a_rule(name: str, effect: str, when: Any = None, tool: Tool | None = None, **values: Any) -> Rule:
    """A rule that is switched on."""
    return save_rule(Rule(name=name, effect=effect, when=when or {}, tool=tool, **values))


def test_one_turn_is_denied_asked_and_let_through_by_its_arguments(desk: Desk) -> None:
    tool = desk.noted()
    a_rule("over 1000", "deny", above(1000), tool, reason="Split it.")
    a_rule("over 100", "ask", above(100), reason="Large sums.")
    desk.run([call("work", {"n": n}) for n in (1, 500, 5000)], say("Done."))
    small, middle, large = desk.calls()
    assert (small.state, small.rule, desk.ran) == ("settled", "", [{"n": 1}])
    assert (middle.state, middle.rule, middle.why) == ("pending", "over 100", "rule “over 100”: Large sums.")
    assert (large.outcome, large.rule) == ("denied", "over 1000")
    sessions.approve(middle, by=None)
    desk.drive()
    assert "Split it." in desk.told()[2]
    assert desk.ran == [{"n": 1}, {"n": 500}]


def test_an_allow_rule_frees_what_code_left_to_the_admin_and_nothing_else(desk: Desk) -> None:
    desk.noted(manual=True)
    desk.tool(None, "by_hand", manual=True)
    a_rule("all", "allow")
    desk.run([call("work"), call("by_hand")], say("Done."))
    freed, by_hand = desk.calls()
    assert (freed.outcome, freed.rule, freed.why) == ("succeeded", "all", "allowed by rule “all”")
    assert (by_hand.state, by_hand.rule) == ("pending", "")


def test_a_rule_on_trial_only_leaves_its_word_on_the_call(desk: Desk) -> None:
    desk.noted()
    a_rule("on trial", "deny", shadow=True)
    desk.run(call("work"), say("Done."))
    assert (desk.call().outcome, desk.call().rule) == ("succeeded", "")
    assert desk.call().shadow == [{"rule": "on trial", "effect": "deny"}]


def test_a_predicate_that_cannot_be_checked_asks(desk: Desk) -> None:
    desk.noted()
    rule = a_rule("broken", "allow")
    Rule.objects.filter(pk=rule.pk).update(when={"type": "object", "required": "n"})
    desk.run(call("work"), say("Done."))
    assert (desk.call().state, desk.call().rule) == ("pending", "broken")


def test_the_rule_that_asked_stays_named_when_it_is_changed_meanwhile(desk: Desk) -> None:
    desk.noted()
    rule = a_rule("first", "ask")
    desk.run(call("work"), say("Done."))
    rule.effect, rule.name = "deny", "second"
    save_rule(rule)
    assert desk.call().rule == "first"
    sessions.approve(desk.call(), by=None)
    desk.drive()
    assert desk.call().outcome == "succeeded"


def test_nobody_edits_a_call_into_what_a_rule_forbids(desk: Desk) -> None:
    desk.noted(manual=True)
    a_rule("over 100", "deny", above(100))
    desk.run(call("work", {"n": 1}), say("Done."))
    with pytest.raises(InvalidInputError, match="over 100") as caught:
        sessions.approve(desk.call(), by=None, arguments={"n": 500})
    assert (caught.value.field, desk.call().state) == ("arguments", "pending")


def test_a_recipes_steps_are_judged_by_the_rules(desk: Desk) -> None:
    desk.noted()
    planned(desk, allm.Plan(serial=[allm.Step("work", {"n": 5})]))
    a_rule("steps", "ask", above(1))
    desk.run(call("plan"), say("Done."))
    assert [(row.name, row.state, row.rule) for row in steps(desk)] == [("work", "pending", "steps")]


def test_a_turn_reads_the_rules_once_however_many_there_are(desk: Desk) -> None:
    desk.noted()
    for number in range(20):
        a_rule(f"rule {number}", "ask", above(number + 1000))
    desk.start([call("work", {"n": n}) for n in range(3)], say("Done."))
    with CaptureQueriesContext(connection) as seen:
        desk.drive()
    assert len(desk.ran) == 3
    assert len([query for query in seen if "allm_django_rule" in query["sql"]]) == 1


def test_each_change_is_on_record_and_cannot_be_rewritten(desk: Desk) -> None:
    chief = person("chief")
    rule = a_rule("r", "ask")
    save_rule(rule, by=chief)
    rule.effect = "deny"
    save_rule(rule, by=chief)
    delete_rule(rule, by=chief)
    record = list(RuleChange.objects.order_by("pk"))
    assert [(row.who, row.data and row.data["effect"]) for row in record] == [
        ("the application", "ask"),
        ("chief", "deny"),
        ("chief", None),
    ]
    with pytest.raises(StateError, match="append-only"):
        record[0].save()


def test_a_predicate_outside_the_subset_is_not_saved(desk: Desk) -> None:
    with pytest.raises(InvalidInputError, match="pattern") as caught:
        a_rule("r", "ask", {"type": "object", "properties": {"n": {"pattern": "(a+)+$"}}})
    assert caught.value.field == "when"
    assert not Rule.objects.exists()
