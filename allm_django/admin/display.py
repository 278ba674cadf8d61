"""Pieces of admin pages: JSON that folds, links, ages. All text is escaped, hidden characters written out (row 20)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from difflib import unified_diff
from typing import Any
from uuid import UUID

from django.db.models import Model
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from allm_django.core.encode import visible

LONG = 400  # characters of JSON text that are shown unfolded
SHORT = 120


def plain(value: object) -> str:
    """``value`` as text: JSON unless it is text already; hidden characters written out."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return visible(text)


def one_line(value: object, length: int = SHORT) -> str:
    """``value`` in one line of at most ``length`` characters."""
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(visible(value).split())
    return text if len(text) <= length else text[: length - 1] + "…"


def json_block(value: object) -> SafeString | str:
    """A value as preformatted text; folded when it is long; a dash for none."""
    if value is None or value == "":
        return "–"
    text = plain(value)
    if len(text) <= LONG:
        return format_html('<pre class="allm-json">{}</pre>', text)
    return format_html(
        '<details class="allm-fold"><summary>{} <span class="quiet">({})</span></summary>'
        '<pre class="allm-json">{}</pre></details>',
        one_line(value),
        _("%(count)d characters") % {"count": len(text)},
        text,
    )


def diff_block(before: object, after: object) -> SafeString | str:
    """What two long values differ in, line by line with a little around; "" for short ones, best seen side by side."""
    texts = [plain(value) if value not in (None, "") else "" for value in (before, after)]
    if max(map(len, texts)) <= LONG:
        return ""
    old, new = (text.splitlines() for text in texts)
    lines = list(unified_diff(old, new, lineterm="", n=2))[2:]
    rows = [(_DIFF_CLASSES.get(line[:1], "allm-line"), line) for line in lines]
    return format_html(
        '<pre class="allm-json allm-lines">{}</pre>', format_html_join("", '<span class="{}">{}\n</span>', rows)
    )


_DIFF_CLASSES = {"+": "allm-line allm-line-new", "-": "allm-line allm-line-old", "@": "allm-line allm-line-gap"}


def link_to(row: Any) -> SafeString | str:
    """A link to the admin page of ``row``, a dash for none. Our rows write hidden characters out by themselves."""
    if row is None:
        return "–"
    return _link(row._meta.model_name, row.pk, str(row))


def link_to_key(model: str, key: object, text: object) -> SafeString:
    """A link to the admin page of one of our rows."""
    return _link(model, key, shown(text))


def _link(model: str, key: object, text: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', reverse(f"admin:allm_django_{model}_change", args=[key]), text)


def session_url(session_id: UUID) -> str:
    """Where the session is on the chat page; empty if the project does not mount it."""
    try:
        return reverse("allm_django:session", args=[session_id])
    except NoReverseMatch:
        return ""


def card_url(session_id: UUID, call_id: UUID) -> str:
    """Where the call's card is on the chat page; empty if the project does not mount it."""
    page = session_url(session_id)
    return f"{page}?card={call_id}" if page else ""


def shown(text: object) -> str:
    """Text of a model or a person for one cell: hidden characters written out."""
    return visible(str(text))


def text_column(model: type[Model], field: str) -> Callable[[Any, Any], str]:
    """A column of an admin for a text field that models, tools or people write: hidden characters written out."""

    def show(admin: Any, row: Any) -> str:
        return plain(getattr(row, field)) or "–"

    show.short_description = model._meta.get_field(field).verbose_name  # type: ignore[attr-defined, union-attr]
    return show


def age(moment: datetime) -> str:
    """How long ago, in words."""
    return timesince(moment, depth=1)


def seconds(start: datetime | None, end: datetime | None) -> str:
    """The time between, such as ``1.2 s``; a dash if one is open."""
    if start is None or end is None:
        return "–"
    return duration((end - start).total_seconds())


def duration(value: float | None) -> str:
    """Seconds in words: ``340 ms``, ``1.2 s``, ``2 min 5 s``, ``3 h 20 min``, ``2 d 4 h``; a dash for unknown."""
    if value is None:
        return "–"
    if value < 1:
        return _("%(n)d ms") % {"n": round(value * 1000)}
    if value < 60:
        return _("%(n).1f s") % {"n": value}
    minutes, left = divmod(round(value), 60)
    if minutes < 60:
        return _("%(m)d min %(s)d s") % {"m": minutes, "s": left}
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return _("%(h)d h %(m)d min") % {"h": hours, "m": minutes}
    days, hours = divmod(hours, 24)
    return _("%(d)d d %(h)d h") % {"d": days, "h": hours}
