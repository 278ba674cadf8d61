"""What would happen with these arguments: a call judged, but neither written nor run (H12)."""

from __future__ import annotations

from dataclasses import dataclass

from allm_django.core.policy import Offer, Verdict, judge
from allm_django.core.rules import Said, ask_rules
from allm_django.core.types import Mode
from allm_django.models import Tool, ToolVersion
from allm_django.store.offers import spec_of
from allm_django.store.rules import rules_now
from allm_django.store.tools import content


@dataclass(frozen=True, slots=True)
class Trial:
    """The verdict, and what each rule about the tool says; None and nothing for a row that can't be offered at all."""

    verdict: Verdict | None
    said: tuple[Said, ...]


def trial(tool: Tool, arguments: str, mode: Mode = "auto") -> Trial:
    """Judge a call of ``tool`` with ``arguments`` (a model's text) by the rules of this moment."""
    spec = spec_of(ToolVersion(tool=tool, name=tool.name, version=tool.version, data=content(tool)))
    if spec is None:
        return Trial(None, ())
    rules = rules_now()
    verdict = judge("trial", tool.name, arguments, Offer({tool.name: spec}, mode, rules=rules))
    return Trial(
        verdict, tuple(ask_rules(rules, tool.name, verdict.arguments)) if verdict.arguments is not None else ()
    )
