"""Recipes as rows: how far one is, and its next steps, each a call of its own with its verdict (R07)."""

from __future__ import annotations

from collections.abc import Iterable

from allm_django.core.decide import Snapshot
from allm_django.core.kinds import EventKind
from allm_django.core.plans import Delegation, NewStep, PastStep
from allm_django.core.policy import error_result, judge_step
from allm_django.core.rules import RuleSpec
from allm_django.core.settle import Settlement
from allm_django.core.states import CallState, Outcome
from allm_django.core.types import Mode, ToolSpec
from allm_django.loop.journal import RecipeProgress
from allm_django.loop.steps import step_id
from allm_django.models import ToolCall, ToolVersion
from allm_django.store.approvals import Counts
from allm_django.store.calls import apply
from allm_django.store.grants import use_grants
from allm_django.store.judging import give_verdict, lost
from allm_django.store.known import Known, working
from allm_django.store.offers import handler_of, spec_of, usable_version
from allm_django.store.rules import rules_now
from allm_django.store.snapshots import snapshot_now
from allm_django.store.writing import Lease, Writing, alias


def plans(version: ToolVersion | None) -> bool:
    """Whether calls of this version are recipes."""
    handler = handler_of(version) if version is not None else None
    return handler is not None and handler.plans


def progress_of(call: ToolCall, calls: Iterable[ToolCall]) -> RecipeProgress | None:
    """How far a delegated call is; ``calls`` holds its steps. None for any other call."""
    if call.state != CallState.DELEGATED:
        return None
    steps = [step for step in calls if step.parent_id == call.pk]
    return RecipeProgress(call.plan_shape, tuple(_past(step) for step in steps if step.state == CallState.SETTLED))


def go_on(tx: Writing, call: ToolCall, calls: Iterable[ToolCall]) -> bool:
    """Whether a delegated call may go on now: all its steps are settled, and its tool is still there."""
    if any(step.parent_id == call.pk and step.state != CallState.SETTLED for step in calls):
        return False
    if why := lost(call) or ("" if plans(call.tool_version) else "The tool is no recipe any more."):
        words = f"{why} The remaining steps were not run."
        failed = Settlement(
            CallState.SETTLED, Outcome.FAILED, error_result(call.call_id, str(Outcome.UNAVAILABLE), words)
        )
        apply(tx, call, failed)
        tx.tell(EventKind.CALL_FAILED, calls=[call])
        return False
    return True


def add_steps(lease: Lease, known: Known, call_id: str, delegation: Delegation, may_decide: Counts) -> Snapshot:
    """Record a recipe's next calls, unless it was closed meanwhile."""
    with working(lease, known) as work:
        tx = work.tx
        recipe = next(row for row in work.calls if row.call_id == call_id)
        if recipe.state == CallState.DELEGATED and not tx.session.cancel_requested:
            rules = rules_now() if delegation.steps else ()
            steps = [_new_step(tx, recipe, step, rules) for step in delegation.steps]
            ToolCall.objects.using(alias()).bulk_create(steps)
            use_grants(tx, steps, may_decide)
            work.calls.extend(steps)
            work.run.calls_used += len(steps)
            recipe.plan_shape = delegation.shape
            recipe.save(using=alias(), update_fields=["plan_shape"])
            tx.tell(EventKind.CALL_DELEGATED, calls=[recipe, *steps])
            if pending := [step for step in steps if step.state == CallState.PENDING]:
                tx.derive_status()
                tx.tell(EventKind.CALL_PENDING, calls=pending)
        return snapshot_now(work, known)


def _new_step(tx: Writing, recipe: ToolCall, step: NewStep, rules: tuple[RuleSpec, ...]) -> ToolCall:
    assert tx.run is not None
    call_id, version = step_id(recipe.call_id, step.position), usable_version(step.name)
    spec: ToolSpec | None = spec_of(version) if version else None
    mode: Mode = "manual" if tx.run.settings.get("mode") == "manual" else "auto"
    verdict = judge_step(call_id, step, spec, mode, recipe=plans(version), rules=rules)
    call = ToolCall(
        session=tx.session,
        run=tx.run,
        message_id=recipe.message_id,
        parent=recipe,
        label=step.label,
        position=step.position,
        call_id=call_id,
        name=step.name,
        tool_version=version,
        asked_arguments=verdict.arguments,
        arguments=verdict.arguments,
        why=f"{_title(recipe)}, {verdict.why}",
        rule=verdict.rule,
        shadow=list(verdict.shadow) or None,
        state=verdict.state,
        outcome=verdict.outcome or "",
        effect=verdict.effect,
        created_at=tx.now,
    )
    give_verdict(tx, call, verdict)
    return call


def _title(call: ToolCall) -> str:
    return (call.tool_version.data["title"] if call.tool_version else "") or call.name


def _past(step: ToolCall) -> PastStep:
    error = step.error or {}
    words = str(error.get("message") or error.get("code") or "")
    return PastStep(step.position, step.result, words, step.effect)
