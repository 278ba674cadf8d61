"""From rows to the snapshot that the brain decides by."""

from __future__ import annotations

from allm_django.conf import default_limits
from allm_django.core.decide import CallView, Snapshot
from allm_django.core.output import Output, output_of
from allm_django.core.states import CallState, HaltedReason
from allm_django.core.types import Limits, Usage
from allm_django.models import Message, Run, Session, ToolCall
from allm_django.store import clock
from allm_django.store.known import Known, Working
from allm_django.store.streaks import facts_of, seconds_at, streaks_before
from allm_django.store.writing import alias

LETTING_THROUGH = ("approve", "edit", "retry")


def snapshot_now(work: Working, known: Known) -> Snapshot:
    """Where the run stands inside this transaction."""
    return snapshot_of(work.run, work.tx.session.cancel_requested, work.calls, known)


def snapshot_of(run: Run, cancel_requested: bool, calls: list[ToolCall], known: Known) -> Snapshot:
    """The snapshot that a run and the calls of its last message amount to."""
    ids = {call.pk: call.call_id for call in calls}
    answered, blanks = (False, 0) if calls else _ending(run)
    limits, seconds = _limits(run), seconds_at(run, clock.now())
    mine = [call for call in calls if call.run_id == run.id]
    if known.past is None:
        known.past = streaks_before(run, mine)
    return Snapshot(
        limits=limits,
        calls=tuple(
            CallView(
                call.call_id,
                CallState(call.state),
                call.effect if call.run_id == run.id else "",
                ids.get(call.parent_id, "") if call.parent_id else "",
                call.decided_verb in LETTING_THROUGH,
            )
            for call in calls
        ),
        turns=run.turns,
        blanks=blanks,
        answered=answered,
        cancel_requested=cancel_requested,
        error=run.error["code"] if run.error else known.error and "halt_when",
        halt_when=known.verdict and known.turn == run.turns,
        step_checked=not known.asks or known.turn == run.turns or not mine,
        calls_used=run.calls_used,
        usage=Usage.from_json(run.usage),
        seconds=max(seconds, limits.max_seconds or 0.0) if known.is_over else seconds,
        output=output_so_far(run),
        streaks=known.past.after(facts_of(call for call in mine if not call.parent_id)),
    )


def output_so_far(run: Run) -> Output | None:
    """The run's structured answer as far as it has come, or None if it is to have none (L13)."""
    return output_of(run.settings.get("response_schema"), run.output)


def _ending(run: Run) -> tuple[bool, int]:
    """Whether the thread ends with this run's answer, and how many empty answers it ends with."""
    rows = Message.objects.using(alias()).filter(session=run.session_id, complete=True).order_by("-position")
    blanks = 0
    for role, text, run_id in rows.values_list("role", "text", "run_id")[:4]:
        said = bool(text.strip())
        if role != Message.Role.ASSISTANT or (run_id != run.id and not (said and formats_only(run))):
            return False, blanks
        if said:
            return not blanks, blanks
        blanks += 1
    return False, blanks


def may_format_again(session: Session) -> bool:
    """Whether the last run got its answer in words but not in the form asked for: it can be asked for again (S05)."""
    run = session.runs.order_by("-created_at").first()
    wanted = session.engine.response_schema and run is not None and run.settings.get("response_schema")
    return bool(wanted and run and (run.error or run.halted_reason == HaltedReason.LIMIT))


def formats_only(run: Run) -> bool:
    """Whether the run goes on from an answer that was not put into its form (L13): it has asked for nothing else."""
    return bool(run.settings.get("response_schema")) and not run.turns


def _limits(run: Run) -> Limits:
    settings = run.settings
    layers = [default_limits(), settings["limits"]]
    if turns := 1 if run.kind == Run.Kind.STEP else settings["max_turns"]:
        layers.append({"max_turns": turns})
    return Limits.of(*layers)
