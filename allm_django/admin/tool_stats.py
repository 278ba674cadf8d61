"""What a tool did in the last days: two queries for any number of tools (M01)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.db.models import Count, Q

from allm_django.core.states import CallState, Outcome
from allm_django.models import ToolCall
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
    failed = Count("pk", filter=Q(outcome=Outcome.FAILED) | Q(state=CallState.UNKNOWN))
    counted = recent.values_list("name").annotate(calls=Count("pk"), failures=failed)
    counts = {name: (calls, bad) for name, calls, bad in counted}
    times: dict[str, list[float]] = defaultdict(list)
    timed = recent.filter(started_at__isnull=False, finished_at__isnull=False).order_by("-created_at")
    for name, start, end in timed.values_list("name", "started_at", "finished_at")[:SAMPLE]:
        if start and end:
            times[name].append((end - start).total_seconds())
    return {
        name: ToolStats(calls, bad, median(times[name]) if times[name] else None)
        for name, (calls, bad) in counts.items()
    }
