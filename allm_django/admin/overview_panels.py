"""The overview's panels: each a picture where one helps, and its numbers as a table (M07)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from django.urls import reverse
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from allm_django.admin.charts import Series, columns, key, meter
from allm_django.admin.display import duration, shown
from allm_django.admin.overview_figures import AGE_WORDS, SAMPLE, Figures, Used
from allm_django.core.states import CallState
from allm_django.models.words import DECISION_VERBS

SHORT = 7  # days whose table stands open
VERB_TONES = {"approve": "tool", "edit": "model", "answer": "odd", "reject": "bad", "retry": "people"}
TOP_TOOLS = 20


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. ``facts`` are its few most important numbers; ``wide``: it takes the whole row."""

    name: str
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    empty: str
    facts: Sequence[tuple[str, str]] = ()
    picture: SafeString | str = ""
    key: SafeString | str = ""
    note: str = ""
    folded: bool = False
    wide: bool = False
    warnings: Sequence[str] = field(default=())


def waiting_panel(figures: Figures) -> Panel:
    """What waits now, by age; each group leads to the inbox."""
    states = (CallState.PENDING, CallState.UNKNOWN, CallState.ASKING)
    counts = [[figures.waiting.get((state.value, age), 0) for state in states] for age in range(len(AGE_WORDS))]
    most = max(map(sum, counts))
    inbox = reverse("admin:allm_django_pendingcall_changelist")
    rows = [
        [
            format_html('<a href="{}?age={}">{}</a>', inbox, age, AGE_WORDS[age]),
            *map(whole, numbers),
            meter(sum(numbers), most, "people"),
        ]
        for age, numbers in enumerate(counts)
    ]
    total = sum(map(sum, counts))
    return Panel(
        "waiting",
        _("Waiting now"),
        [_("Age"), _("For a decision"), _("Outcome unknown"), _("For an answer"), ""],
        rows if total else [],
        _("Nothing waits for anyone."),
        facts=[(whole(total), _("waiting"))],
    )


def decisions_panel(figures: Figures) -> Panel:
    """Decisions by day and verb."""
    by_day = figures.decided.by_day
    words = dict(DECISION_VERBS)
    verbs = [*words, *sorted({verb for found in by_day.values() for verb in found} - set(words))]
    verbs = [verb for verb in verbs if any(found.get(verb) for found in by_day.values())]
    series = [
        Series(str(words.get(verb) or shown(verb)), VERB_TONES.get(verb, "quiet"), _by_day(figures.days, by_day, verb))
        for verb in verbs
    ]
    total = sum(sum(found.values()) for found in by_day.values())
    return _daily("decisions", _("Decisions"), figures, series, whole(total), _("Nobody decided anything."))


def times_panel(figures: Figures) -> Panel:
    """How long decisions took, and who made them."""
    decided = figures.decided
    most = max((number for _who, number in decided.by_person), default=0)
    rows = []
    for who, number in decided.by_person:
        times = decided.times_by_person.get(who)
        told = (duration(times.median), duration(times.p90)) if times else ("–", "–")
        rows.append([shown(who) or _("trusted code"), whole(number), *told, meter(number, most, "tool")])
    note = _("Times are those of the latest %(n)s decisions.") % {"n": whole(SAMPLE)} if decided.sampled else ""
    facts = [(duration(decided.times.median), _("median time to decide")), (duration(decided.times.p90), _("9 of 10"))]
    return Panel(
        "people",
        _("Who decides, and how fast"),
        [_("Person"), _("Decisions"), _("Median"), _("9 of 10 within"), ""],
        rows,
        _("Nobody decided anything."),
        facts=facts if rows else (),
        note=note,
    )


def tools_panel(figures: Figures) -> Panel:
    """Failures by tool."""
    tools = figures.tools[:TOP_TOOLS]
    failed = sum(tool.failed for tool in figures.tools)
    calls = sum(tool.calls for tool in figures.tools)
    most = max((tool.failed + tool.unknown for tool in tools), default=0)
    inbox = reverse("admin:allm_django_toolcall_changelist")
    rows = [
        [
            format_html('<span title="{}">{}</span>', tool.name, shown(tool.title)),
            whole(tool.calls),
            whole(tool.failed),
            whole(tool.unknown),
            f"{percent(tool.failed, tool.calls)}",
            meter(tool.failed + tool.unknown, most, "bad"),
        ]
        for tool in tools
    ]
    return Panel(
        "tools",
        _("Tools"),
        [_("Tool"), _("Calls"), _("Failed"), _("Outcome unknown now"), _("Share failed"), ""],
        rows,
        _("No tool was called."),
        facts=[(whole(calls), _("calls")), (whole(failed), _("failed"))] if calls else (),
        note=format_html('<a href="{}?outcome=failed">{}</a>', inbox, _("The calls that failed")) if failed else "",
    )


def tokens_panel(figures: Figures) -> Panel:
    """Tokens by day."""
    series = [
        Series(_("in"), "model", _used(figures, "input_tokens")),
        Series(_("out"), "tool", _used(figures, "output_tokens")),
    ]
    total = [_sum(figures, name) for name in ("input_tokens", "output_tokens")]
    known = [value for value in total if value is not None]
    least = _at_least(figures, "input_tokens") or _at_least(figures, "output_tokens")
    fact = told(sum(known), whole, least) if known else _("unknown")
    return _daily(
        "tokens", _("Tokens"), figures, series, fact, _("No model was asked."), used=("input_tokens", "output_tokens")
    )


def cost_panel(figures: Figures) -> Panel:
    """Cost by day, in US dollars."""
    series = [Series(_("US dollars"), "people", _used(figures, "cost"))]
    total = _sum(figures, "cost")
    fact = told(total, money, _at_least(figures, "cost"))
    return _daily("cost", _("Cost"), figures, series, fact, _("No model was asked."), used=("cost",))


def whole(number: float) -> str:
    """A whole number with the language's grouping."""
    return str(number_format(round(number), force_grouping=True))


def money(number: float) -> str:
    """US dollars; small sums with more digits."""
    digits = 2 if number >= 1 or not number else 4
    return "$" + str(number_format(round(number, digits), digits, force_grouping=True))


def percent(part: int, total: int) -> str:
    """A share in percent; a dash of nothing."""
    return f"{number_format(round(100 * part / total, 1), 1)} %" if total else "–"


def told(value: float | None, words: Any, at_least: bool) -> str:
    """A figure in words: unknown is not 0, and a sum with gaps is "at least" (L09)."""
    if value is None:
        return _("unknown")
    return f"≥ {words(value)}" if at_least else str(words(value))


def _daily(
    name: str,
    title: str,
    figures: Figures,
    series: Sequence[Series],
    fact: str,
    empty: str,
    used: Sequence[str] = (),
) -> Panel:
    """A panel with a column a day; ``used`` names the figures of the series that may be unknown."""
    words = money if used == ("cost",) else whole
    sums = [sum(one.values[place] or 0 for one in series) for place in range(len(figures.days))]
    rows = []
    for place, day in enumerate(figures.days):
        cells = [one.values[place] for one in series]
        marks = [figure in _day(figures, day).partial for figure in used] or [False] * len(cells)
        rows.append(
            [date_format(day, "DATE_FORMAT"), *(told(v, words, mark) for v, mark in zip(cells, marks, strict=True))]
        )
    something = bool(figures.used) if used else any(sums)
    hints = [
        f"{row[0]}: " + ", ".join(f"{one.label} {cell}" for one, cell in zip(series, row[1:], strict=True))
        for row in rows
    ]
    labels = [date_format(day, "MONTH_DAY_FORMAT") for day in figures.days]
    words_of_picture = _("%(title)s by day; the numbers are in the table.") % {"title": title}
    tones = [(one.tone, one.label) for one in series]
    if any(None in one.values for one in series):
        tones.append(("unknown", _("unknown")))
    return Panel(
        name,
        title,
        [_("Day"), *(one.label for one in series)],
        rows[::-1] if something else [],
        empty,
        facts=[(fact, _("in %(n)d days") % {"n": len(figures.days)})] if something else (),
        picture=columns(labels, series, title=words_of_picture, most=words(max(sums)), hints=hints)
        if something
        else "",
        key=key(tones) if something and (len(tones) > 1) else "",
        folded=len(figures.days) > SHORT,
    )


def _by_day(days: Sequence[date], found: Mapping[date, Mapping[str, int]], verb: str) -> list[float | None]:
    return [found.get(day, {}).get(verb, 0) for day in days]


def _day(figures: Figures, day: date) -> Used:
    return figures.used.get(day, Used())


def _used(figures: Figures, name: str) -> list[float | None]:
    return [_day(figures, day)[name] for day in figures.days]


def _sum(figures: Figures, name: str) -> float | None:
    known = [value for used in figures.used.values() if (value := used[name]) is not None]
    return sum(known) if known or not figures.used else None


def _at_least(figures: Figures, name: str) -> bool:
    return any(name in used.partial or used[name] is None for used in figures.used.values())
