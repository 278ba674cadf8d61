"""What is told: the content of a webhook, and an e-mail's words. Sensitive fields are masked for everyone (T26)."""

from __future__ import annotations

import json
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from allm_django.conf import conf
from allm_django.core.encode import visible
from allm_django.core.types import JSONObject
from allm_django.models import Delivery, ToolCall
from allm_django.store.shapes import call_shape, moment

SHOWN = 4_000  # characters of arguments in an e-mail
CALL = ("id", "session", "call_id", "name", "title", "arguments", "state", "outcome", "version", "why", "expires_at")


def payload(row: Delivery, call: ToolCall) -> JSONObject:
    """What a webhook is sent, but for the delivery's own id."""
    shape = call_shape(call)
    told: JSONObject = {
        "event": row.event,
        "created_at": moment(row.created_at),
        "call": {name: shape[name] for name in CALL},
        "url": card_url(call),
    }
    if row.payload.get("verb"):
        told["decision"] = {"verb": row.payload["verb"], "by": call.decided_name}
    return told


def card_url(call: ToolCall) -> str:
    """Where the call's card is, as a whole address; empty without ``ALLM["SITE_URL"]`` or the page."""
    if not (site := conf().SITE_URL.rstrip("/")):
        return ""
    try:
        return f"{site}{reverse('allm_django:session', args=[call.session_id])}?card={call.pk}"
    except NoReverseMatch:
        return ""


def subject(event: str, call: ToolCall) -> str:
    """One line, without characters that could end it or hide others."""
    title = _title(call)
    texts = {
        "call.pending": _("Waits for your decision: %(title)s"),
        "call.escalated": _("Still waits for a decision: %(title)s"),
        "call.asked": _("A question for you: %(title)s"),
        "call.expired": _("Nobody decided in time: %(title)s"),
    }
    return texts[event] % {"title": title}


def text(event: str, call: ToolCall) -> str:
    """The body, plain."""
    shape = call_shape(call)
    lines = [subject(event, call) + ".", ""]
    if event != "call.asked":
        lines += [_("Tool: %(name)s") % {"name": visible(call.name)}, *_arguments(shape), ""]
    if call.expires_at and event != "call.expired":
        lines += [_("Until: %(time)s") % {"time": moment(call.expires_at)}, ""]
    if url := card_url(call):
        lines += [_("Look at it and decide here, after logging in:"), url, ""]
    lines.append(_("Nothing can be decided by answering this e-mail."))
    return "\n".join(lines)


def _title(call: ToolCall) -> str:
    shape: Any = call_shape(call)["title"]
    line = " ".join(visible(str(shape)).split())
    return line if len(line) <= 120 else line[:119] + "…"


def _arguments(shape: JSONObject) -> list[str]:
    given = shape["arguments"] if shape["arguments"] is not None else shape["raw_arguments"]
    written = visible(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2))
    if len(written) > SHOWN:
        written = written[:SHOWN] + "\n" + _("… cut here; the card shows all of it.")
    return [_("Arguments:"), written]
