"""The figures of the overview: eight queries whatever there is, each bounded by days or by a sample (M07)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from statistics import median
from typing import Any, TypeVar

from django.db.models import Case, Count, FloatField, Model, Q, QuerySet, Sum, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, TruncDate
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.core.states import CallState, Outcome
from allm_django.models import Decision, Run, Tool, ToolCall, Worker
from allm_django.models.call import OPEN_CALLS
from allm_django.store import clock

M = TypeVar("M", bound=Model)

SAMPLE = 5_000  # the latest decisions that times to decide are taken from
MOST_PEOPLE = 20
MOST_WORKERS = 50
AGES = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))  # limits between the groups of what waits
AGE_WORDS = (_("under an hour"), _("an hour to a day"), _("a day to a week"), _("over a week"))
USAGE = ("input_tokens", "output_tokens", "cost")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from a call's wish to its decision; None if there was none."""

    median: float | None = None
    p90: float | None = None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        """Of these."""
        if not seconds:
            return cls()
        return cls(median(seconds), sorted(seconds)[math.ceil(0.9 * len(seconds)) - 1])


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions by day and verb, by person, and how long they took. ``sampled``: the times are of SAMPLE decisions."""

    by_day: Mapping[date, Mapping[str, int]]
    by_person: Sequence[tuple[str, int]]
    times: Times
    times_by_person: Mapping[str, Times]
    sampled: bool


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """One tool's calls; how many failed, and how many have an unknown outcome now."""

    name: str
    title: str
    calls: int
    failed: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Used:
    """What one day's runs used. None: no provider said; ``partial`` names figures that are "at least"."""

    runs: int = 0
    figures: Mapping[str, float | None] | None = None
    partial: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> float | None:
        return 0 if self.figures is None else self.figures[name]


@dataclass(frozen=True, slots=True)
class Figures:
    """All of the page. ``waiting`` is by (state, group of age)."""

    days: tuple[date, ...]
    waiting: Mapping[tuple[str, int], int]
    decided: Decided
    tools: tuple[ToolFigures, ...]
    used: Mapping[date, Used]
    workers: tuple[Worker, ...]

    @classmethod
    def of(cls, viewer: access.Person, days: int) -> Figures:
        """For the sessions that ``viewer`` may see, of the last ``days`` days with today."""
        today = timezone.localdate(clock.now())
        dates = tuple(today - timedelta(days=days - 1 - place) for place in range(days))
        since = timezone.make_aware(datetime.combine(dates[0], time.min))
        waiting = waiting_now(viewer)
        return cls(
            dates,
            waiting,
            decisions_since(viewer, since),
            tools_since(viewer, since),
            used_since(viewer, since),
            tuple(Worker.objects.order_by("-seen_at")[:MOST_WORKERS]),
        )


def seen(viewer: access.Person, rows: QuerySet[M]) -> QuerySet[M]:
    """``rows`` of the sessions that ``viewer`` may see; asked only where access leaves any out."""
    sessions = access.visible_sessions(viewer)
    return rows if access.leaves_nothing_out(sessions) else rows.filter(session__in=sessions)


def waiting_now(viewer: access.Person) -> Mapping[tuple[str, int], int]:
    """How many calls wait, by state and by group of age (an index into AGES; the oldest are the last)."""
    now = clock.now()
    groups = [When(created_at__gt=now - limit, then=Value(place)) for place, limit in enumerate(AGES)]
    rows = seen(viewer, ToolCall.objects.filter(OPEN_CALLS)).order_by()
    counted = rows.annotate(age=Case(*groups, default=Value(len(AGES)))).values_list("state", "age")
    return {(state, age): number for state, age, number in counted.annotate(number=Count("*"))}


def decisions_since(viewer: access.Person, since: datetime) -> Decided:
    """Three queries: by day and verb, by person, and a sample of times."""
    rows = seen(viewer, Decision.objects.filter(created_at__gte=since)).order_by()
    by_day: dict[date, Counter[str]] = defaultdict(Counter)
    grouped = rows.annotate(day=TruncDate("created_at")).values_list("day", "verb")
    for day, verb, number in grouped.annotate(number=Count("*")):
        by_day[day][verb] += number
    people = rows.values_list("who").annotate(number=Count("*")).order_by("-number", "who")[:MOST_PEOPLE]
    waits: dict[str, list[float]] = defaultdict(list)
    latest = rows.order_by("-created_at").values_list("who", "created_at", "call__created_at")[:SAMPLE]
    for who, decided, asked in latest:
        waits[who].append((decided - asked).total_seconds())
    every = [seconds for found in waits.values() for seconds in found]
    by_person = {who: Times.of(found) for who, found in waits.items()}
    return Decided(by_day, list(people), Times.of(every), by_person, len(every) >= SAMPLE)


def tools_since(viewer: access.Person, since: datetime) -> tuple[ToolFigures, ...]:
    """The tools that were called, those that failed most first; two queries, and one for those of unknown outcome."""
    titles = dict(Tool.objects.order_by().values_list("name", "title"))
    recent = seen(viewer, ToolCall.objects.filter(name__in=list(titles), created_at__gte=since)).order_by()
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for name, outcome, number in recent.values_list("name", "outcome").annotate(number=Count("*")):
        calls[name] += number  # an index has all that this reads
        failed[name] += number if outcome == Outcome.FAILED else 0
    open_ones = seen(viewer, ToolCall.objects.filter(OPEN_CALLS, state=CallState.UNKNOWN)).order_by()
    unknown = Counter(dict(open_ones.values_list("name").annotate(number=Count("*"))))
    found = [ToolFigures(name, titles[name] or name, calls[name], failed[name], unknown[name]) for name in calls]
    return tuple(sorted(found, key=lambda tool: (-tool.failed - tool.unknown, -tool.calls, tool.name)))


def used_since(viewer: access.Person, since: datetime) -> Mapping[date, Used]:
    """Tokens and cost by the day on which a run began; runs that never asked a model used nothing (L09)."""
    text = {f"{name}_text": KeyTextTransform(name, "usage") for name in USAGE}
    gaps = Cast(KeyTextTransform("partial", "usage"), TextField())
    rows = seen(viewer, Run.objects.filter(created_at__gte=since, turns__gt=0)).order_by()
    rows = rows.annotate(day=TruncDate("created_at"), gaps=gaps, **text)
    sums: dict[str, Any] = {"runs": Count("*")}
    for name in USAGE:
        sums[name] = Sum(Cast(f"{name}_text", FloatField()))
        sums[f"{name}_gaps"] = Count("pk", filter=Q(**{f"{name}_text__isnull": True}) | Q(gaps__contains=f'"{name}"'))
    return {row["day"]: _used(row) for row in rows.values("day").annotate(**sums)}


def _used(row: Mapping[str, Any]) -> Used:
    partial = frozenset(name for name in USAGE if row[f"{name}_gaps"] and row[name] is not None)
    return Used(row["runs"], {name: row[name] for name in USAGE}, partial)
