"""A week of calls as a few bars, drawn on the server; every number is in its text, too (M01)."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

BAR, GAP, HEIGHT = 6, 2, 20


def sparkline(calls: Sequence[int], failures: Sequence[int], label: str) -> SafeString:
    """One bar a day, oldest first; its part that failed stands at the foot. ``label`` says it in words."""
    most = max([*calls, 1])
    bars = []
    for day, (called, failed) in enumerate(zip(calls, failures, strict=True)):
        x = day * (BAR + GAP)
        bars.append(("allm-bar-none", x, HEIGHT - 1, 1))
        heights = (("allm-bar", _height(called, most)), ("allm-bar-failed", _height(failed, most)))
        bars += [(kind, x, HEIGHT - height, height) for kind, height in heights if height]
    return format_html(
        '<svg class="allm-spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>',
        len(calls) * (BAR + GAP) - GAP,
        HEIGHT,
        label,
        label,
        format_html_join("", '<rect class="{}" x="{}" y="{}" width="6" height="{}"/>', bars),
    )


def _height(number: int, most: int) -> int:
    return max(2, round(number / most * HEIGHT)) if number else 0
