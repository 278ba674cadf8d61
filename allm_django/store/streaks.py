"""What a run's calls amount to in a row, from rows (L10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from allm_django.core.policy import NOT_RUNNABLE
from allm_django.core.states import Outcome
from allm_django.core.streaks import CallFact, Streaks, call_key
from allm_django.models import Run, ToolCall
from allm_django.store.writing import alias

LOOKED_AT = ("message_id", "name", "asked_arguments", "raw_arguments", "outcome", "error", "decided_verb")


def streaks_before(run: Run, turn: Sequence[ToolCall]) -> Streaks:
    """Those of the run's calls before ``turn``, its last one. Nothing is read if there are none."""
    if run.calls_used <= len(turn):
        return Streaks()
    rows = ToolCall.objects.using(alias()).filter(run=run, parent=None).exclude(pk__in=[call.pk for call in turn])
    found = Streaks()
    ordered = rows.only(*LOOKED_AT).order_by("message__position", "position")
    for _, calls in groupby(ordered, key=lambda call: call.message_id):
        found = found.after(facts_of(calls))
    return found


def facts_of(calls: Iterable[ToolCall]) -> list[CallFact]:
    """The calls of one turn, as streaks look at them."""
    return [_fact(call) for call in calls]


def stop_clock(run: Run, now: datetime) -> None:
    """Add what a worker has been at work to ``seconds``."""
    if run.working_since is not None:
        run.seconds, run.working_since = seconds_at(run, now), None


def seconds_at(run: Run, now: datetime) -> float:
    """How long the run has been at work until ``now``, waiting for people left out."""
    if run.working_since is None:
        return run.seconds
    return run.seconds + max((now - run.working_since).total_seconds(), 0.0)


def _fact(call: ToolCall) -> CallFact:
    error: Any = call.error or {}
    rejected = call.outcome == Outcome.REJECTED if call.decided_verb and call.outcome else None
    key = call_key(call.name, call.asked_arguments, call.raw_arguments)
    return CallFact(key, error.get("code") in NOT_RUNNABLE, rejected)
