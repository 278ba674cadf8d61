"""A run's timeline as a picture on one scale, and the same as numbers (M05)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from allm_django.admin.charts import Lanes, Span, key, lanes, stacked
from allm_django.admin.display import duration, link_to_key, shown
from allm_django.admin.timeline import MODEL, PEOPLE, RECIPE, TOOL, Stretch, Timeline, merged
from allm_django.models.words import CALL_STATES

KINDS = (MODEL, TOOL, PEOPLE, RECIPE)
TONES = {MODEL: "model", TOOL: "tool", PEOPLE: "people", RECIPE: "quiet"}
MOST_ROWS = 200
SHORTENED = 0.15  # of the time at work: how much room a long wait is given when waits are shortened


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    title: SafeString | str
    kind: str
    start: str
    took: str


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """All that the page shows. ``may_shorten``: there are waits that leave the work no room."""

    picture: SafeString
    key: SafeString
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]
    cut: bool
    short: bool
    may_shorten: bool

    @classmethod
    def of(cls, timeline: Timeline, *, short: bool) -> TimelinePage:
        """``short``: long waits for people are drawn shorter, and said to be."""
        words, waits = kind_words(), long_waits(timeline)
        scale = Scale(waits if short else [], timeline)
        groups = [_group(timeline, kind, words[kind], scale) for kind in KINDS if any(timeline.spans(kind))]
        title = _("What went on when; the table has the same in numbers.")
        used = [(TONES[kind], words[kind]) for kind in KINDS if any(timeline.spans(kind))]
        return cls(
            lanes(groups, scale.total, title=title, ticks=scale.ticks()),
            key(used),
            tuple(_rows(timeline.stretches[:MOST_ROWS], words)),
            tuple(_facts(timeline, words)),
            timeline.cut or len(timeline.stretches) > MOST_ROWS,
            short,
            bool(waits),
        )


class Scale:
    """From seconds of the run to seconds of the picture, in which the ``waits`` given are shorter."""

    def __init__(self, waits: Sequence[tuple[float, float]], timeline: Timeline) -> None:
        room = SHORTENED * (timeline.total - sum(end - start for start, end in waits))
        self._points, drawn, last = [(0.0, 0.0)], 0.0, 0.0
        for start, end in waits:
            drawn += start - last
            self._points.append((start, drawn))
            drawn += room
            self._points.append((end, drawn))
            last = end
        self.total = drawn + timeline.total - last
        self._points.append((timeline.total, self.total))
        self._waits, self._real = waits, timeline.total

    def at(self, second: float) -> float:
        """Where a second of the run is drawn."""
        for (a, x), (b, y) in pairwise(self._points):
            if second <= b:
                return x + (y - x) * (second - a) / (b - a) if b > a else x
        return self.total

    def ticks(self) -> list[tuple[float, str]]:
        """Start, middle and end; with shortened waits start, how long each wait was, and end."""
        longest = sorted(sorted(self._waits, key=lambda wait: wait[0] - wait[1])[:2])
        inner = [((self.at(start) + self.at(end)) / 2, f"⋯ {duration(end - start)} ⋯") for start, end in longest]
        if not inner:
            inner = [(self.total / 2, duration(self._real / 2))]
        end = [(self.total, duration(self._real))] if inner[-1][0] < 0.7 * self.total else []
        return [(0.0, "0"), *inner, *end]


def long_waits(timeline: Timeline) -> list[tuple[float, float]]:
    """When nothing but waiting for people went on, for longer than all the work together."""
    work = merged(timeline.spans(MODEL, TOOL))
    busy = sum(end - start for start, end in work)
    ends = [0.0, *(end for _start, end in work)]
    starts = [*(start for start, _end in work), timeline.total]
    waits = merged(timeline.spans(PEOPLE))
    gaps = [(a, b) for a, b in zip(ends, starts, strict=True) if b > a]
    both = ((max(a, start), min(b, end)) for a, b in gaps for start, end in waits)
    return [(start, end) for start, end in both if end - start > max(busy, 1.0)]


def kind_words() -> dict[str, str]:
    """The kinds in words."""
    return {
        MODEL: _("Model answers"),
        TOOL: _("Tools run"),
        PEOPLE: _("People are waited for"),
        RECIPE: _("Recipes go on"),
    }


def _group(timeline: Timeline, kind: str, words: str, scale: Scale) -> Lanes:
    spans = [
        Span(
            f"{shown(one.title)}: {duration(one.end - one.start)}", TONES[kind], scale.at(one.start), scale.at(one.end)
        )
        for one in timeline.stretches
        if one.kind == kind
    ]
    return f"{words} · {duration(timeline.spent(kind))}", stacked(spans)


def _rows(stretches: Sequence[Stretch], words: dict[str, str]) -> Iterator[Row]:
    states = dict(CALL_STATES)
    for one in stretches:
        title = link_to_key("toolcall", one.key, one.title) if one.key else shown(one.title)
        kind = str(states[one.state]) if one.kind in (PEOPLE, RECIPE) else words[one.kind]
        took = duration(one.end - one.start)
        yield Row(title, kind, duration(one.start), _("%(time)s so far") % {"time": took} if one.going else took)


def _facts(timeline: Timeline, words: dict[str, str]) -> Iterator[tuple[str, str]]:
    for kind in (MODEL, TOOL, PEOPLE):
        yield duration(timeline.spent(kind)), words[kind]
    yield duration(max(timeline.total - timeline.spent(MODEL, TOOL, PEOPLE), 0.0)), _("neither")
    yield duration(timeline.total), _("in all")
