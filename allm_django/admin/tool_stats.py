"""What a tool did in the last days: two queries for any number of tools (M01)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median

from django.db.models import Count, QuerySet
from django.db.models.functions import TruncDate
from django.utils import timezone

from allm_django.core.states import CallState, Outcome
from allm_django.models import ToolCall
from allm_django.store import clock

DAYS = 7
SAMPLE = 2_000  # the latest calls, of all tools shown, that median times are taken from


@dataclass(frozen=True, slots=True)
class ToolStats:
    """Calls and failures (failed, or outcome unknown) of the last days; median run time in seconds, None if unknown.

    ``by_day`` and ``failed_by_day``: the same a day, oldest first, today last.
    """

    calls: int = 0
    failures: int = 0
    median: float | None = None
    by_day: tuple[int, ...] = (0,) * DAYS
    failed_by_day: tuple[int, ...] = (0,) * DAYS


def stats_of(names: Iterable[str]) -> Mapping[str, ToolStats]:
    """The figures by tool name, of today and the days before; tools that were not called are left out."""
    days = _days(clock.now())
    start = timezone.make_aware(datetime.combine(days[0], datetime.min.time()))
    recent = ToolCall.objects.filter(name__in=list(names), created_at__gte=start).order_by()
    calls: Counter[tuple[str, date]] = Counter()
    failures: Counter[tuple[str, date]] = Counter()
    daily = recent.annotate(day=TruncDate("created_at"))
    by_end = daily.values_list("name", "day", "outcome", "state")  # an index has all that this reads
    for name, day, outcome, state, number in by_end.annotate(number=Count("*")):
        calls[name, day] += number
        failures[name, day] += number if outcome == Outcome.FAILED or state == CallState.UNKNOWN else 0
    medians = _medians(recent.filter(started_at__isnull=False, finished_at__isnull=False))
    return {name: _stats(name, days, calls, failures, medians.get(name)) for name in {name for name, _ in calls}}


def _days(now: datetime) -> list[date]:
    today = timezone.localtime(now).date()
    return [today - timedelta(days=before) for before in range(DAYS - 1, -1, -1)]


def _stats(
    name: str,
    days: list[date],
    calls: Counter[tuple[str, date]],
    failures: Counter[tuple[str, date]],
    middle: float | None,
) -> ToolStats:
    by_day = tuple(calls[name, day] for day in days)
    failed = tuple(failures[name, day] for day in days)
    return ToolStats(sum(by_day), sum(failed), middle, by_day, failed)


def _medians(timed: QuerySet[ToolCall]) -> dict[str, float]:
    """Seconds by name, from the latest :data:`SAMPLE` calls: bounded, however many there were."""
    latest = timed.order_by("-created_at")[:SAMPLE]
    times: dict[str, list[float]] = defaultdict(list)
    for name, start, end in latest.values_list("name", "started_at", "finished_at"):
        if start and end:
            times[name].append((end - start).total_seconds())
    return {name: median(values) for name, values in times.items()}
