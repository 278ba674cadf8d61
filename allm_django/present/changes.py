"""What changed of a call's tool since the call was asked, in the viewer's language (H04)."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from allm_django.core.changes import Absent, Change
from allm_django.core.encode import to_text, visible
from allm_django.core.types import JSON, JSONObject
from allm_django.models import Tool, ToolCall
from allm_django.store.drift import Lost, changes_since, lost

MOST = 30
LONG = 300  # characters of one value that are shown
PLUMBING = ("properties", "items")  # schema words that only lead to a place
LOST_WORDS = {
    Lost.DELETED: gettext_lazy("The tool was deleted since this call was asked for."),
    Lost.DISABLED: gettext_lazy("The tool was disabled since this call was asked for."),
    Lost.HANDLER: gettext_lazy("The tool’s handler is no longer part of the program."),
}


def changed_words(call: ToolCall) -> str:
    """One sentence, or ``""`` when nothing changed."""
    reason = lost(call)
    if reason is not None:
        return str(LOST_WORDS[reason])
    return _("The tool was changed since this call was asked for.") if changes_since(call) else ""


def change_shapes(call: ToolCall) -> list[JSONObject]:
    """Each change: ``field`` (a tool's), ``label`` (its name and the place in it), ``before`` and ``after`` as text.

    None stands for nothing there. At most :data:`MOST`.
    """
    return [_shape(change) for change in changes_since(call)[:MOST]]


def _shape(change: Change) -> JSONObject:
    field, *inside = change.path
    places = [visible(place) for place in inside if place not in PLUMBING]
    label = str(Tool._meta.get_field(field).verbose_name)  # type: ignore[union-attr]  # plain fields only
    return {
        "field": field,
        "label": ": ".join([label, *([" › ".join(places)] if places else [])]),
        "before": _value(change.before),
        "after": _value(change.after),
    }


def _value(value: JSON | Absent) -> str | None:
    if isinstance(value, Absent):
        return None
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if value in ("", [], {}) or value is None:
        return _("empty")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = visible(value if isinstance(value, str) else to_text(value))
    return text if len(text) <= LONG else text[: LONG - 1] + "…"
