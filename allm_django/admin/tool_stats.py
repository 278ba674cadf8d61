"""What a tool did in the last days: three queries for any number of tools (M01)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.db.models import Count

from allm_django.core.states import CallState, Outcome
from allm_django.models import ToolCall
from allm_django.models.call import OPEN_CALLS
from allm_django.store import clock

DAYS = 7
SAMPLE = 5_000  # the latest calls that the median time is taken from


@dataclass(frozen=True, slots=True)
class ToolStats:
    """Calls and failures (failed, or outcome unknown) of the last days; median run time in seconds, None if unknown."""

    calls: int = 0
    failures: int = 0
    median: float | None = None


def stats_of(names: Iterable[str]) -> Mapping[str, ToolStats]:
    """The figures by tool name; tools that were not called are left out."""
    recent = ToolCall.objects.filter(
        name__in=list(names), created_at__gte=clock.now() - timedelta(days=DAYS)
    ).order_by()
    calls: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for name, outcome, number in recent.values_list("name", "outcome").annotate(number=Count("*")):
        calls[name] += number  # an index has all that this reads
        failures[name] += number if outcome == Outcome.FAILED else 0
    unknown = recent.filter(OPEN_CALLS, state=CallState.UNKNOWN)
    failures.update(dict(unknown.values_list("name").annotate(number=Count("*"))))
    times: dict[str, list[float]] = defaultdict(list)
    timed = recent.filter(started_at__isnull=False, finished_at__isnull=False).order_by("-created_at")
    for name, start, end in timed.values_list("name", "started_at", "finished_at")[:SAMPLE]:
        if start and end:
            times[name].append((end - start).total_seconds())
    return {
        name: ToolStats(number, failures[name], median(times[name]) if times[name] else None)
        for name, number in calls.items()
    }
