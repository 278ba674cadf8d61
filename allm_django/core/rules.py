"""Rules over a call's arguments: deny > ask > allow, the first match inside a level, no code (H12, ADR 9).

A predicate is a JSON Schema of the subset that tools use: the rule matches the arguments that fit. One that can't be
checked (unreadable, or more work than its share of a validation's allowance) counts as an ask, whatever the effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from allm_django.core.schema import compile_schema, lint
from allm_django.core.types import JSONObject, check_flag, check_tool_name
from allm_django.errors import InvalidInputError, SchemaError

Effect: TypeAlias = Literal["deny", "ask", "allow"]
EFFECTS: tuple[Effect, ...] = ("deny", "ask", "allow")  # in order of precedence
MAX_NAME, MAX_REASON = 120, 500


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """A rule as a value. ``when``: the arguments it is about, as a JSON Schema; empty = all.

    ``tool``: the tool's name; empty = every tool. ``reason``: what model and person are told. ``shadow``: it only
    says what it would do. Raises InvalidInputError, naming the field; the predicate is linted by :func:`check_rule`.
    """

    name: str
    effect: Effect
    when: JSONObject = field(default_factory=dict)
    tool: str = ""
    reason: str = ""
    shadow: bool = False

    def __post_init__(self) -> None:
        _check_text(self.name, "name", MAX_NAME)
        if not self.name.strip():
            raise InvalidInputError("name: empty; a rule is shown by its name.", field="name")
        _check_text(self.reason, "reason", MAX_REASON)
        if self.effect not in EFFECTS:
            raise InvalidInputError(f"effect: {self.effect!r} is not one of {', '.join(EFFECTS)}.", field="effect")
        if self.tool:
            check_tool_name(self.tool, "tool")
        check_flag(self.shadow, "shadow")

    @property
    def label(self) -> str:
        """Its name as people read it on a card."""
        return f"rule “{self.name}”"


@dataclass(frozen=True, slots=True)
class Said:
    """What one rule says of one call: it matches, it does not, or (None) it could not be checked."""

    rule: RuleSpec
    matches: bool | None

    @property
    def effect(self) -> Effect | None:
        """What follows from it alone."""
        if self.matches is None:
            return "ask"
        return self.rule.effect if self.matches else None

    @property
    def why(self) -> str:
        """The rule with its words."""
        if self.matches is None:
            return f"{self.rule.label} could not be checked on these arguments"
        return f"{self.rule.label}: {self.rule.reason}" if self.rule.reason else self.rule.label


def check_rule(rule: RuleSpec) -> None:
    """Raise SchemaError unless the rule's predicate is one that can be checked in bounded time."""
    if not isinstance(rule.when, dict):
        raise SchemaError("when: a JSON object is needed.", field="when")
    if rule.when:
        lint(rule.when, field="when")


def read_rules(given: Iterable[Any], tools: Collection[str]) -> tuple[RuleSpec, ...]:
    """The rules of a stateless engine with these ``tools``, checked. Raises InvalidInputError, naming the place.

    A tool that is misspelt is refused: its rule would never apply. So is a shadow rule: nothing keeps its word.
    """
    rules = tuple(given)
    for number, rule in enumerate(rules):
        where = f"rules.{number}"
        if not isinstance(rule, RuleSpec):
            raise InvalidInputError(f"{where}: {type(rule).__name__} given; a RuleSpec is needed.", field=where)
        if rule.tool and rule.tool not in tools:
            raise InvalidInputError(f"{where}.tool: there is no tool {rule.tool!r} here.", field=f"{where}.tool")
        if rule.shadow:
            words = f"{where}.shadow: only stored sessions keep what a rule would have done."
            raise InvalidInputError(words, field=f"{where}.shadow")
        check_rule(rule)
    return rules


def ask_rules(rules: Iterable[RuleSpec], tool: str, arguments: JSONObject) -> list[Said]:
    """What each of the rules that are about ``tool`` says of ``arguments``, in their order."""
    about = [rule for rule in rules if rule.tool in ("", tool)]
    return [Said(rule, holds(rule.when, arguments, share=len(about))) for rule in about]


def deciding(said: Iterable[Said]) -> Said | None:
    """The one that decides: the first of the strictest level that has any. Shadow rules never do."""
    acting = [one for one in said if not one.rule.shadow]
    return next((one for effect in EFFECTS for one in acting if one.effect == effect), None)


def shadows(said: Iterable[Said]) -> tuple[JSONObject, ...]:
    """What shadow rules would have done, as a call keeps it: ``{"rule": …, "effect": …}`` each."""
    return tuple({"rule": one.rule.name, "effect": one.effect} for one in said if one.rule.shadow and one.effect)


def holds(predicate: JSONObject, arguments: JSONObject, *, share: int = 1) -> bool | None:
    """Whether ``arguments`` fit ``predicate``; None if that can't be told."""
    if predicate == {}:
        return True
    try:
        return compile_schema(predicate).holds(arguments, share=share)
    except Exception:  # whatever is wrong with it, a person looks at the call: never the other way
        return None


def _check_text(value: object, field_name: str, most: int) -> None:
    if not isinstance(value, str) or len(value) > most:
        raise InvalidInputError(f"{field_name}: text of at most {most} characters is needed.", field=field_name)
