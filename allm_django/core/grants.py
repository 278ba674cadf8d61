"""Grants: what a person allows beforehand, on the card of a call that asked (H13, ADR 9)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from allm_django.core.rules import holds
from allm_django.core.schema import lint
from allm_django.core.types import JSONObject
from allm_django.errors import InvalidInputError

Scope: TypeAlias = Literal["session", "user"]
Match: TypeAlias = Literal["exact", "any", "pattern"]
SCOPES: tuple[Scope, ...] = ("session", "user")
MATCHES: tuple[Match, ...] = ("exact", "any", "pattern")
MIN_SECONDS, MAX_SECONDS = 60, 90 * 24 * 3600
MAX_USES = 1_000
FIELDS = ("scope", "match", "pattern", "seconds", "uses")


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """What a person wants to allow: where, with which arguments, for how long, and how often (None: any number)."""

    scope: Scope
    match: Match
    seconds: int
    pattern: JSONObject | None = None
    uses: int | None = None

    def as_json(self) -> JSONObject:
        """As it stands on record."""
        return {name: getattr(self, name) for name in FIELDS}


@dataclass(frozen=True, slots=True)
class GrantSpec:
    """A grant as a value: which arguments it is about, and the ask rule that the person saw when giving it."""

    match: str
    arguments: JSONObject | None = None
    pattern: JSONObject | None = None
    rule: str = ""


def read_terms(given: object) -> GrantTerms:
    """The terms in ``{"scope": …, "match": …, "seconds": …}`` and, optionally, ``uses`` and ``pattern``.

    Raises InvalidInputError (SchemaError for a pattern), naming the field as ``grant.…``.
    """
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"grant: {type(given).__name__} given; an object is needed.", field="grant")
    if unknown := sorted(str(name) for name in set(given) - set(FIELDS)):
        known = ", ".join(FIELDS)
        raise InvalidInputError(f"grant.{unknown[0][:40]}: not a field here; known are {known}.", field="grant")
    pattern, match = given.get("pattern"), _one_of(given.get("match"), MATCHES, "match")
    if (match == "pattern") != (pattern is not None):
        raise InvalidInputError("grant.pattern: needed with match “pattern”, and only then.", field="grant.pattern")
    if pattern is not None:
        lint(pattern, field="grant.pattern")
    uses = given.get("uses")
    return GrantTerms(
        scope=_one_of(given.get("scope"), SCOPES, "scope"),
        match=match,
        seconds=_whole(given.get("seconds"), "seconds", MIN_SECONDS, MAX_SECONDS),
        pattern=pattern,
        uses=None if uses is None else _whole(uses, "uses", 1, MAX_USES),
    )


def answers(grant: GrantSpec, *, rule: str, arguments: JSONObject | None) -> bool:
    """Whether ``grant`` lets a call go that asks because of ``rule`` (empty: not because of a rule).

    An ask rule is only answered by a grant that was given where this very rule had asked.
    """
    if arguments is None or rule not in ("", grant.rule):
        return False
    if grant.match == "exact":
        return _same(grant.arguments, arguments)
    if grant.match == "pattern":
        return grant.pattern is not None and holds(grant.pattern, arguments) is True
    return grant.match == "any"


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: unlike Python's equality, ``1``, ``1.0`` and ``true`` are three values."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _one_of(value: Any, allowed: tuple[Any, ...], name: str) -> Any:
    if value not in allowed:
        words = ", ".join(allowed)
        raise InvalidInputError(f"grant.{name}: {str(value)[:40]!r} is not one of {words}.", field=f"grant.{name}")
    return value


def _whole(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        words = f"grant.{name}: a whole number from {least} to {most} is needed."
        raise InvalidInputError(words, field=f"grant.{name}")
    return value
