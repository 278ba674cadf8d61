"""The cell of the list that tells a tool's last days (M01)."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from allm_django.admin.charts import Series, sparkline
from allm_django.admin.display import duration
from allm_django.admin.tool_stats import ToolStats


def week_cell(stats: ToolStats) -> SafeString | str:
    """Calls a day as bars; calls, failures, and the median time of its latest runs in words; a dash for none."""
    if not stats.calls:
        return "–"
    words = [ngettext("%(n)d call", "%(n)d calls", stats.calls) % {"n": stats.calls}]
    if stats.failures:
        words.append(_("%(n)d failed") % {"n": stats.failures})
    if stats.median is not None:
        words.append(_("median %(time)s") % {"time": duration(stats.median).replace(" ", "\u00a0")})
    by_day = _("Calls a day, the last is today: %(numbers)s.") % {"numbers": ", ".join(map(str, stats.by_day))}
    if stats.failures:
        by_day += " " + _("Failed: %(numbers)s.") % {"numbers": ", ".join(map(str, stats.failed_by_day))}
    went = tuple(called - failed for called, failed in zip(stats.by_day, stats.failed_by_day, strict=True))
    bars = sparkline([Series(_("failed"), "bad", stats.failed_by_day), Series(_("other"), "model", went)], by_day)
    return format_html('<span class="allm-week">{}<span>{}</span></span>', bars, ", ".join(words))
