"""Small pictures, drawn on the server as SVG: columns by day, sparklines, meters, lanes of time (M01, M05, M07).

No script and no inline style: tones are classes of ``charts.css``, places are attributes in percent, so that a picture
is as wide as its column and its text never shrinks. Each needs its numbers in a table beside it. ``None`` is unknown,
which is not 0: it is drawn as a mark on the ground line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

TONES = ("model", "tool", "people", "bad", "odd", "quiet")
TOP, PLOT, FOOT = 20, 110, 20  # pixels of a column chart: room for the highest number, the columns, the labels
SPARK = (84, 20)
LANE, GAP = 14, 4


@dataclass(frozen=True, slots=True)
class Series:
    """One figure by day (or whatever the columns are): its name, its tone (one of TONES), its values."""

    label: str
    tone: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in a lane: what it is (shown when pointed at), its tone, from and to in seconds."""

    title: str
    tone: str
    start: float
    end: float


Lanes: TypeAlias = tuple[str, Sequence[Sequence[Span]]]


def columns(
    labels: Sequence[str], series: Sequence[Series], *, title: str, most: str, hints: Sequence[str] = ()
) -> SafeString:
    """Stacked columns, one a label. ``most`` is the highest stack in words; ``hints`` are shown when pointed at."""
    height = TOP + PLOT + FOOT
    return format_html(
        '<svg class="allm-chart" role="img" aria-label="{}" width="100%" height="{}">{}{}{}{}</svg>',
        title,
        height,
        format_html('<text class="allm-axis" x="0" y="{}">{}</text>', TOP - 6, most),
        _lines([TOP, TOP + PLOT / 2, TOP + PLOT]),
        _stacks(series, PLOT, TOP, hints),
        _feet(labels, height - 5),
    )


def sparkline(series: Sequence[Series], title: str) -> SafeString:
    """Stacked columns as small as a word, for a cell of a list; ``title`` says the numbers."""
    width, height = SPARK
    return format_html(
        '<svg class="allm-spark" role="img" aria-label="{}" width="{}" height="{}"><title>{}</title>{}{}</svg>',
        title,
        width,
        height,
        title,
        _lines([height - 0.5]),
        _stacks(series, height - 1, 0, ()),
    )


def meter(value: float, most: float, tone: str = "model") -> SafeString:
    """A bar as long as ``value`` is to ``most``, for a row of a table that says the number itself."""
    return format_html(
        '<svg class="allm-meter" aria-hidden="true" width="100%" height="12">{}</svg>',
        _box(0, _share(value, most) * 100, 1, 10, tone),
    )


def lanes(groups: Sequence[Lanes], total: float, *, title: str, ticks: Sequence[tuple[float, str]]) -> SafeString:
    """Rows of spans on one scale from 0 to ``total`` seconds, each group under its words; none is too short to see."""
    y, drawn = float(TOP), []
    for words, rows in groups:
        drawn.append(format_html('<text class="allm-axis" x="0" y="{}">{}</text>', y + 14, words))
        y += 18
        for spans in rows:
            drawn += [_span(span, total, y) for span in spans]
            y += LANE + GAP
    return format_html(
        '<svg class="allm-lanes" role="img" aria-label="{}" width="100%" height="{}">{}{}</svg>',
        title,
        y + GAP,
        _ticks(ticks, total, y),
        _join(drawn),
    )


def key(series: Iterable[tuple[str, str]]) -> SafeString:
    """What the tones of a picture mean: pairs of tone and words."""
    row = (
        '<li><svg class="allm-dot" width="10" height="10" aria-hidden="true">'
        '<rect class="allm-tone-{}" width="10" height="10" rx="2"/></svg>{}</li>'
    )
    return format_html('<ul class="allm-key">{}</ul>', format_html_join("", row, series))


def stacked(spans: Iterable[Span]) -> list[list[Span]]:
    """The spans in as few rows as they fit into without overlap, earliest first."""
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda one: (one.start, one.end)):
        free = next((row for row in rows if row[-1].end <= span.start), None)
        if free is None:
            rows.append([span])
        else:
            free.append(span)
    return rows


def _stacks(series: Sequence[Series], height: float, top: float, hints: Sequence[str]) -> SafeString:
    count = max((len(one.values) for one in series), default=0)
    stacks = [[(one.tone, one.values[place]) for one in series] for place in range(count)]
    highest = max((sum(value or 0 for _, value in stack) for stack in stacks), default=0)
    return _join(
        _stack(stack, place * 100 / count, 100 / count, (highest, height, top), hints[place] if hints else "")
        for place, stack in enumerate(stacks)
    )


def _stack(
    stack: Sequence[tuple[str, float | None]], left: float, width: float, room: tuple[float, float, float], hint: str
) -> SafeString:
    highest, height, top = room
    bottom = top + height
    inner, start = width * 0.72, left + width * 0.14
    boxes: list[SafeString] = []
    if stack and all(value is None for _, value in stack):
        boxes.append(_box(start, inner, bottom - 3, 3, "unknown"))
    for tone, value in stack:
        tall = _share(value or 0, highest) * height
        if tall:
            bottom -= tall
            boxes.append(_box(start, inner, bottom, tall, tone))
    if not hint:
        return _join(boxes)
    reach = format_html(
        '<rect class="allm-reach" x="{}" y="{}" width="{}" height="{}"/>', _pc(left), top, _pc(width), height
    )
    return format_html("<g><title>{}</title>{}{}</g>", hint, reach, _join(boxes))


def _span(span: Span, total: float, y: float) -> SafeString:
    start, end = _share(span.start, total) * 100, _share(span.end, total) * 100
    return format_html(
        "<g><title>{}</title>{}</g>", span.title, _box(start, max(end - start, 0), y, LANE, f"{span.tone} allm-span")
    )


def _box(x: float, width: float, y: float, height: float, tone: str) -> SafeString:
    return format_html(
        '<rect class="allm-tone-{}" x="{}" y="{}" width="{}" height="{}"/>',
        tone,
        _pc(x),
        f"{y:.1f}",
        _pc(width),
        f"{height:.1f}",
    )


def _lines(heights: Sequence[float]) -> SafeString:
    return format_html_join("", '<line class="allm-grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>', ((y,) for y in heights))


def _feet(labels: Sequence[str], y: float) -> SafeString:
    """The first, the middle and the last label: as many as fit at any width."""
    if len(labels) < 3:
        marks = [("start", 0.0, labels[0])] if labels else []
    else:
        middle = len(labels) // 2
        marks = [("start", 0.0, labels[0]), ("middle", (middle + 0.5) * 100 / len(labels), labels[middle])]
        marks.append(("end", 100.0, labels[-1]))
    rows = ((anchor, _pc(x), y, text) for anchor, x, text in marks)
    return format_html_join("", '<text class="allm-axis" text-anchor="{}" x="{}" y="{}">{}</text>', rows)


def _ticks(ticks: Sequence[tuple[float, str]], total: float, height: float) -> SafeString:
    rows = (
        (_pc(_share(at, total) * 100), TOP, height, "start" if not at else "end" if at >= total else "middle", text)
        for at, text in ticks
    )
    return format_html_join(
        "",
        '<line class="allm-grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
        '<text class="allm-axis" text-anchor="{3}" x="{0}" y="12">{4}</text>',
        rows,
    )


def _join(parts: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", _ones(parts))


def _ones(parts: Iterable[SafeString]) -> Iterator[tuple[SafeString]]:
    return ((part,) for part in parts)


def _share(value: float, most: float) -> float:
    return min(max(value / most, 0.0), 1.0) if most > 0 else 0.0


def _pc(value: float) -> str:
    return f"{value:.3f}%"
