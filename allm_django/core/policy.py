"""The verdict on one call before anything runs: ready, pending, or settled at once (T07, T20–T22, L03, L04, L11, H12).

What the model may do is decided here from values alone; its text can change arguments, never the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from allm_django.core import compact
from allm_django.core.decide import TERMINAL_EFFECT
from allm_django.core.encode import model_copy, to_text
from allm_django.core.plans import NewStep
from allm_django.core.rules import RuleSpec, Said, ask_rules, deciding, shadows
from allm_django.core.schema import compile_schema, parse_arguments
from allm_django.core.states import CallState, Outcome
from allm_django.core.types import JSON, JSONObject, Mode, ToolResult, ToolSpec

NOT_RUNNABLE = frozenset({"unknown_tool", "invalid_arguments"})  # codes of calls refused as the model wrote them (L10)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a new call starts and why. ``result`` is set when it is settled at once.

    ``rule``: the name of the rule that decided it, if one did; ``shadow``: what rules on trial would have done.
    """

    state: CallState
    why: str
    arguments: JSONObject | None = None
    outcome: Outcome | None = None
    result: ToolResult | None = None
    effect: str = ""
    rule: str = ""
    shadow: tuple[JSONObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """What a turn was offered: the tools by name, the loop's mode, the terminal tool's name (or None), and the rules
    in their order.
    """

    tools: Mapping[str, ToolSpec]
    mode: Mode = "auto"
    terminal_tool: str | None = None
    rules: tuple[RuleSpec, ...] = ()


def judge(call_id: str, name: str, raw: str, offer: Offer) -> Verdict:
    """The verdict on a call that the model just made, as text ``raw`` names its arguments."""
    spec = compact.offered(name, offer.tools)
    if spec is None:
        return _refused(call_id, Outcome.UNAVAILABLE, "unknown_tool", _unknown_text(name, list(offer.tools)), None)
    arguments, problem = parse_arguments(raw)
    if arguments is None:
        return _invalid(call_id, problem, None, spec)
    if problem := check_arguments(spec.schema, arguments):
        return _invalid(call_id, problem, arguments, spec)
    if spec is compact.HELP:
        return _help(call_id, arguments, offer)
    said = ask_rules(offer.rules, name, arguments)
    verdict = _by_rules(call_id, spec, arguments, offer, deciding(said))
    return replace(verdict, shadow=shadows(said)) if said else verdict


def _by_rules(call_id: str, spec: ToolSpec, arguments: JSONObject, offer: Offer, rule: Said | None) -> Verdict:
    """Deny, then ask, then allow; an allow rule frees only where code left the manual flag to the admin (H12)."""
    effect, name = (rule.effect, rule.rule.name) if rule else (None, "")
    if rule and effect == "deny":
        return replace(_refused(call_id, Outcome.DENIED, "denied", _denied_text(rule), arguments), rule=name)
    if spec.name == offer.terminal_tool:
        result = ToolResult(call_id, value=arguments, content=to_text(arguments))
        return Verdict(CallState.SETTLED, "terminal tool", arguments, Outcome.SUCCEEDED, result, TERMINAL_EFFECT)
    if rule and effect == "ask":
        return Verdict(CallState.PENDING, rule.why, arguments, rule=name)
    if offer.mode == "manual":
        return Verdict(CallState.PENDING, "every call in this conversation asks first", arguments)
    if rule and spec.manual and not spec.manual_fixed:
        return Verdict(CallState.READY, f"allowed by {rule.why}", arguments, rule=name)
    if spec.manual:
        return Verdict(CallState.PENDING, "this tool always asks first", arguments)
    return Verdict(CallState.READY, "this tool needs no decision", arguments)


def denied(rules: Sequence[RuleSpec], name: str, arguments: JSONObject) -> str:
    """Why a rule forbids a call of the tool ``name`` with these ``arguments``, whoever wants it, or ``""``."""
    rule = deciding(ask_rules(rules, name, arguments))
    return _denied_text(rule) if rule and rule.effect == "deny" else ""


def judge_step(
    call_id: str,
    step: NewStep,
    spec: ToolSpec | None,
    mode: Mode,
    *,
    recipe: bool = False,
    rules: tuple[RuleSpec, ...] = (),
) -> Verdict:
    """The verdict on a recipe's step: judged as any call, but for tools that are not on offer (R07).

    ``spec``: its tool, if there is one that may be used; ``recipe``: that tool is a recipe, which no step can be.
    """
    if recipe:
        return _refused(call_id, Outcome.INVALID, "nested_recipe", "A step can't be a recipe.", step.arguments)
    if spec is None:
        words = f"There is no tool named {step.name!r} that could be used."
        return _refused(call_id, Outcome.UNAVAILABLE, "unknown_tool", words, step.arguments)
    if step.problem:
        return _refused(call_id, Outcome.INVALID, "invalid_arguments", step.problem, None)
    verdict = judge(call_id, step.name, to_text(step.arguments), Offer({step.name: spec}, mode, rules=rules))
    return replace(verdict, why=f"step “{step.label}”: {verdict.why}")


def check_arguments(schema: JSONObject, arguments: JSONObject) -> str:
    """What is wrong with ``arguments``, in words a model or a person can act on, or ``""``."""
    problems = compile_schema(schema).errors(arguments)
    if not problems:
        return ""
    listed = "; ".join(f"{problem.path or 'arguments'}: {problem.message}" for problem in problems)
    return f"The arguments do not fit the tool's schema: {listed}"


def error_text(code: str, message: str, **more: JSON) -> str:
    """The model's copy of an error: JSON, so that it can't be taken for a tool's own words."""
    return to_text({"error": code, "message": message, **more})


def error_result(call_id: str, code: str, message: str, *, detail: str = "", value: JSON = None) -> ToolResult:
    """A result that tells the model of a failure."""
    return ToolResult(
        call_id, value=value, content=error_text(code, message), code=code, message=message, detail=detail
    )


def _refused(call_id: str, outcome: Outcome, code: str, message: str, arguments: JSONObject | None) -> Verdict:
    return Verdict(CallState.SETTLED, message, arguments, outcome, error_result(call_id, code, message))


def _denied_text(rule: Said) -> str:
    words = f"The {rule.rule.label} forbids this call; it was not run."
    return f"{words} {rule.rule.reason}" if rule.rule.reason else words


def _invalid(call_id: str, problem: str, arguments: JSONObject | None, spec: ToolSpec) -> Verdict:
    """Of a compact tool the model may know the line only: it is told the rest along with what is wrong (T22)."""
    verdict = _refused(call_id, Outcome.INVALID, "invalid_arguments", problem, arguments)
    if not spec.compact or verdict.result is None:
        return verdict
    content = error_text("invalid_arguments", problem, tool=compact.definition(spec))
    return replace(verdict, result=replace(verdict.result, content=model_copy(content)))


def _help(call_id: str, arguments: JSONObject, offer: Offer) -> Verdict:
    """The model looks tools up: answered at once from the offer, in every mode."""
    value = compact.help_with(arguments, offer.tools)
    result = ToolResult(call_id, value=value, content=model_copy(to_text(value)))
    return Verdict(CallState.SETTLED, "the model looked tools up", arguments, Outcome.SUCCEEDED, result)


def _unknown_text(name: str, offered: Sequence[str]) -> str:
    shown = ", ".join(sorted(offered)) or "none"
    return f"There is no tool named {name[:64]!r}. Tools on offer: {shown}."
