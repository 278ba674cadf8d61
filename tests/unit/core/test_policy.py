"""The verdict on a call: deny > ask > allow > the manual flag, whatever rules there are (H12), and grants (H13)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import allm_django as allm
from allm_django.core.grants import GrantSpec, answers, read_terms
from allm_django.core.policy import Offer, Verdict, judge
from allm_django.core.rules import RuleSpec, ask_rules, check_rule, deciding
from allm_django.core.states import CallState, Outcome
from allm_django.errors import InvalidInputError
from allm_django.testing import ScriptedModel, call, say

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
BROKEN = {"type": "object", "required": "n"}  # written past the checks


def above(n: int) -> dict[str, Any]:
    """The predicate n > ``n``."""
    return {"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": n}}, "required": ["n"]}


def tool(**values: Any) -> allm.ToolSpec:
    return allm.ToolSpec(name="work", description="Work.", schema=SCHEMA, **values)


def verdict(rules: Any, n: int = 5, mode: Any = "auto", **values: Any) -> Verdict:
    return judge("c", "work", f'{{"n": {n}}}', Offer({"work": tool(**values)}, mode, rules=tuple(rules)))


PREDICATES = st.one_of(st.just({}), st.just(BROKEN), st.integers(-3, 3).map(above))
RULES = st.builds(
    RuleSpec,
    name=st.sampled_from(["a", "b", "c", "d", "e"]),
    effect=st.sampled_from(["deny", "ask", "allow"]),
    when=PREDICATES,
    tool=st.sampled_from(["", "work", "other"]),
    shadow=st.booleans(),
)


def effects(rules: list[RuleSpec], n: int) -> list[tuple[str, str]]:
    """What each acting rule comes to, worked out another way than the policy does."""
    found = []
    for rule in rules:
        if rule.shadow or rule.tool == "other":
            continue
        if rule.when is BROKEN or rule.when == BROKEN:
            found.append(("ask", rule.name))
        elif rule.when == {} or n > rule.when["properties"]["n"]["exclusiveMinimum"]:
            found.append((rule.effect, rule.name))
    return found


@pytest.mark.row("H12")
@settings(max_examples=60)
@given(
    st.lists(RULES, max_size=6), st.integers(-4, 4), st.booleans(), st.booleans(), st.sampled_from(["auto", "manual"])
)
def test_deny_goes_before_ask_before_allow_and_code_is_never_loosened(
    rules: list[RuleSpec], n: int, manual: bool, fixed: bool, mode: Any
) -> None:
    found = effects(rules, n)
    named = {effect: next((name for one, name in found if one == effect), None) for effect in ("deny", "ask", "allow")}
    got = verdict(rules, n, mode, manual=manual, manual_fixed=fixed)
    if named["deny"]:
        assert (got.state, got.outcome, got.rule) == (CallState.SETTLED, Outcome.DENIED, named["deny"])
    elif named["ask"]:
        assert (got.state, got.rule) == (CallState.PENDING, named["ask"])
    elif mode == "manual" or (manual and (fixed or not named["allow"])):
        assert (got.state, got.rule) == (CallState.PENDING, "")
    else:
        assert got.state is CallState.READY
        assert got.rule == (named["allow"] if manual else "")
    assert [said["rule"] for said in got.shadow] == [
        rule.name for rule in rules if rule.shadow and effects([_acting(rule)], n)
    ]


def _acting(rule: RuleSpec) -> RuleSpec:
    return RuleSpec(rule.name, rule.effect, rule.when, rule.tool)


@pytest.mark.row("H12")
@settings(max_examples=60)
@given(st.lists(RULES, max_size=6), st.integers(-4, 4), RULES)
def test_a_further_rule_that_does_not_allow_never_lets_more_through(
    rules: list[RuleSpec], n: int, further: RuleSpec
) -> None:
    order = [CallState.SETTLED, CallState.PENDING, CallState.READY]
    before, after = verdict(rules, n), verdict([*rules, further], n)
    if further.effect != "allow":
        assert order.index(after.state) <= order.index(before.state)


@pytest.mark.row("H12")
def test_a_denied_call_tells_the_model_the_rules_words() -> None:
    got = verdict([RuleSpec("too much", "deny", above(3), reason="Ask for less.")])
    assert got.result is not None
    assert (got.result.code, got.arguments) == ("denied", {"n": 5})
    assert "“too much”" in got.result.content
    assert "Ask for less." in got.result.content


@pytest.mark.row("H12")
def test_arguments_that_cost_too_much_to_check_ask() -> None:
    when = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "integer"}}}}
    rules = [RuleSpec(f"rule {number}", "deny", when) for number in range(40)]
    said = deciding(ask_rules(rules, "work", {"x": [1] * 5_000}))
    assert said is not None
    assert (said.matches, said.effect) == (None, "ask")
    assert "could not be checked" in said.why


@pytest.mark.row("H12")
def test_a_terminal_tool_is_denied_by_a_rule_but_never_asks() -> None:
    offer = {"tools": {"work": tool()}, "terminal_tool": "work"}
    assert judge("c", "work", '{"n": 1}', Offer(**offer, rules=(RuleSpec("r", "deny"),))).outcome is Outcome.DENIED
    assert judge("c", "work", '{"n": 1}', Offer(**offer, rules=(RuleSpec("r", "ask"),))).outcome is Outcome.SUCCEEDED


@pytest.mark.row("H12")
@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"name": ""}, "name"),
        ({"effect": "permit"}, "effect"),
        ({"tool": "no name"}, "tool"),
        ({"when": {"properties": {}}}, "when/type"),
        ({"when": {"type": "object", "$ref": "http://example.org/x"}}, "when/$ref"),
        ({"reason": "x" * 501}, "reason"),
    ],
)
def test_a_wrong_rule_is_refused_by_field(rule: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_rule(RuleSpec(**{"name": "r", "effect": "ask", **rule}))
    assert caught.value.field == field


# -- stateless use ----------------------------------------------------------------------------------------------------


@pytest.mark.row("H12")
def test_the_rules_of_an_engine_bind_a_stateless_chat() -> None:
    ran: list[int] = []

    @allm.tool(manual="default")
    def work(n: int) -> str:
        """Work."""
        ran.append(n)
        return "done"

    rules = [allm.RuleSpec("much", "deny", above(100)), allm.RuleSpec("little", "allow", tool="work")]
    model = ScriptedModel([[call("work", {"n": 1}), call("work", {"n": 500})], say("Done.")])
    result = allm.chat(allm.EngineSpec(model=model, tools=[work], rules=rules), [allm.user("Go.")])
    assert (ran, result.text) == ([1], "Done.")
    assert "much" in next(m.content for m in result.messages if m.is_error)


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ("deny all", "rules.0"),
        (RuleSpec("r", "deny", tool="wrok"), "rules.0.tool"),
        (RuleSpec("r", "ask", shadow=True), "rules.0.shadow"),
    ],
)
def test_a_rule_that_could_not_apply_is_refused_before_the_model_is_called(rule: Any, field: str) -> None:
    engine = allm.EngineSpec(model=ScriptedModel([say("Hi.")]), tools=[tool(manual=True)], rules=[rule])
    with pytest.raises(InvalidInputError) as caught:
        allm.chat(engine, [allm.user("Go.")])
    assert caught.value.field == field


# -- grants -----------------------------------------------------------------------------------------------------------


@pytest.mark.row("H13")
@pytest.mark.parametrize(
    ("grant", "rule", "arguments", "lets"),
    [
        (GrantSpec("any"), "", {"n": 1}, True),
        (GrantSpec("any"), "", None, False),
        (GrantSpec("any"), "over 100", {"n": 1}, False),
        (GrantSpec("any", rule="over 100"), "over 100", {"n": 1}, True),
        (GrantSpec("any", rule="over 100"), "", {"n": 1}, True),
        (GrantSpec("any", rule="over 100"), "at night", {"n": 1}, False),
        (GrantSpec("exact", {"n": 1, "m": 2}), "", {"m": 2, "n": 1}, True),
        (GrantSpec("exact", {"n": 1}), "", {"n": True}, False),
        (GrantSpec("exact", {"n": 1}), "", {"n": 1, "m": 2}, False),
        (GrantSpec("pattern", pattern=above(3)), "", {"n": 4}, True),
        (GrantSpec("pattern", pattern=above(3)), "", {"n": 3}, False),
        (GrantSpec("pattern", pattern=BROKEN), "", {"n": 3}, False),
        (GrantSpec("pattern"), "", {"n": 3}, False),
    ],
)
def test_a_grant_answers_only_what_its_giver_saw(grant: GrantSpec, rule: str, arguments: Any, lets: bool) -> None:
    assert answers(grant, rule=rule, arguments=arguments) is lets


@pytest.mark.row("H13")
@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ([], "grant"),
        ({"for": "ever"}, "grant"),
        ({"scope": "world"}, "grant.scope"),
        ({"match": "some"}, "grant.match"),
        ({"match": "pattern"}, "grant.pattern"),
        ({"pattern": above(1)}, "grant.pattern"),
        ({"match": "pattern", "pattern": {"type": "string"}}, "grant.pattern/type"),
        ({"seconds": 10**9}, "grant.seconds"),
        ({"seconds": True}, "grant.seconds"),
        ({"uses": 0}, "grant.uses"),
    ],
)
def test_wrong_terms_of_a_grant_are_refused_by_field(terms: Any, field: str) -> None:
    given = {"scope": "session", "match": "any", "seconds": 60, **terms} if isinstance(terms, dict) else terms
    with pytest.raises(InvalidInputError) as caught:
        read_terms(given)
    assert caught.value.field == field
