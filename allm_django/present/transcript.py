"""A session's export as a Markdown document, to read and to pass on.

What models, tools and people wrote stands in quotes and fences, so that no text in it can pass for a part of the
document or, shown as HTML, be more than text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from django.utils.translation import gettext as _

from allm_django.core.encode import visible
from allm_django.core.types import JSONObject
from allm_django.models.words import CALL_STATES, OUTCOMES

STATES = {**dict(CALL_STATES), **dict(OUTCOMES)}
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*|(?<=~).*)")
SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")


def transcript(export: JSONObject) -> str:
    """What :func:`allm_django.sessions.export` gave, as Markdown; masked as that is."""
    return "\n".join(_document(export)) + "\n"


def _document(export: JSONObject) -> Iterator[str]:
    session = export["session"]
    yield f"# {_plain(session['title'] or _('Untitled'))}"
    yield ""
    yield f"{_('Assistant')}: {_plain(session['engine'])} · {_time(session['created_at'])}"
    roles = {"user": _("Person"), "assistant": _("Assistant"), "system": _("Note")}
    for message in export["messages"]:
        yield f"\n## {roles[message['role']]} · {_time(message['created_at'])}"
        if message["text"].strip():
            yield ""
            yield from _quoted(message["text"])
        if message["broken"]:
            yield f"\n*{_plain(message['broken'])}*"
        for call in message["calls"]:
            yield from _call(call)


def _call(call: JSONObject, level: int = 3) -> Iterator[str]:
    title = (call["tool"] or {}).get("title") or call["name"]
    name = f"{call['label']} · {title}" if call["label"] else title
    yield f"\n{'#' * level} {_plain(name)} – {STATES[call['outcome'] or call['state']]}"
    if call["decided"]:
        yield f"\n{_decided(call['decided'])}"
    arguments = call["raw_arguments"] if call["arguments"] is None else call["arguments"]
    if arguments not in ("", {}):
        yield from _part(_("Arguments"), arguments)
    if call["error"]:
        yield from _part(_("Error"), call["error"]["message"])
    elif call["state"] == "settled":
        yield from _part(_("Result"), call["result"])
    if call["late_result"] is not None:
        yield from _part(_("Result that came late"), call["late_result"])
    for step in call["steps"]:
        yield from _call(step, level + 1)


def _decided(decided: JSONObject) -> str:
    words = f"{_('Decision')}: {_plain(decided['verb'])} · {_plain(decided['by'])} · {_time(decided['at'])}"
    return f"{words} · “{_plain(decided['reason'])}”" if decided["reason"] else words


def _part(name: str, value: object) -> Iterator[str]:
    """A value in a fence that nothing in it can close."""
    text = visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"\n{name}:\n\n{fence}{'' if isinstance(value, str) else 'json'}\n{text}\n{fence}"


def _quoted(text: str) -> Iterator[str]:
    """Markdown that stays in its quote; HTML in it stays text, also where fences keep code as it is."""
    fence = ""
    for line in visible(text).split("\n"):
        found = FENCE.fullmatch(line)
        if fence and found and found[1].startswith(fence) and not found[2].strip():
            fence = ""
        elif not fence and found:
            fence = found[1]
        elif not fence:
            line = line.replace("<", "&lt;").replace("![", "!\\[")  # a picture would be fetched from anywhere
        yield f"> {line}".rstrip()


def _plain(text: str) -> str:
    """A text on one line in which no character is markup."""
    return SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))


def _time(moment: str | None) -> str:
    return (moment or "").replace("T", " ")[:16]
