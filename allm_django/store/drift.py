"""What became of a call's tool since the call was asked, and what may still be done with the call (H03, H04)."""

from __future__ import annotations

from enum import StrEnum

from allm_django.core.changes import Change, changes
from allm_django.core.states import CallState
from allm_django.models import ToolCall
from allm_django.store.tools import content
from allm_django.tools.registry import registry

VERBS_BY_STATE = {
    CallState.PENDING: ("approve", "edit", "answer", "reject", "reask"),
    CallState.UNKNOWN: ("answer", "retry", "reject"),
    CallState.ASKING: ("answer",),
}


class Lost(StrEnum):
    """Why the tool of a call can't be had any more."""

    DELETED = "deleted"
    DISABLED = "disabled"
    HANDLER = "handler"


LOST_WORDS = {
    Lost.DELETED: "The tool was deleted.",
    Lost.DISABLED: "The tool was disabled.",
    Lost.HANDLER: "The tool's handler is no longer part of the program.",
}


def lost(call: ToolCall) -> Lost | None:
    """Why the tool of this call can't be had any more, if so."""
    version = call.tool_version
    if version is None or version.tool is None:
        return Lost.DELETED
    if not version.tool.enabled:
        return Lost.DISABLED
    if version.tool.handler and registry.get(version.tool.handler) is None:
        return Lost.HANDLER
    return None


def gone(call: ToolCall) -> str:
    """Why the tool of this call can't be had any more, in words, or ``""``."""
    reason = lost(call)
    return LOST_WORDS[reason] if reason is not None else ""


def changes_since(call: ToolCall) -> list[Change]:
    """What of the tool differs from the version that this call was asked by, place by place; empty if it is gone."""
    version = call.tool_version
    if version is None or version.tool is None:
        return []
    now = content(version.tool)
    return list(changes({name: version.data[name] for name in now if name in version.data}, now))


def drift(call: ToolCall) -> str:
    """What changed of the tool since this call was asked, in words, or ``""`` (H04)."""
    if words := gone(call):
        return words
    changed = dict.fromkeys(change.path[0] for change in changes_since(call))
    return f"The tool was changed ({', '.join(changed)})." if changed else ""


def allowed_verbs(call: ToolCall) -> tuple[str, ...]:
    """The verbs that this call's state and tool allow now, whoever decides (H03)."""
    verbs = VERBS_BY_STATE.get(CallState(call.state), ())
    if call.state != CallState.PENDING:
        return verbs
    version = call.tool_version
    changed = bool(drift(call))
    offered = list(version.data.get("verbs", [])) if version else ["answer", "reject"]
    if version is not None and not version.data.get("handler"):
        offered = [verb for verb in offered if verb not in ("approve", "edit")]  # T07: nothing could run
    if changed:
        offered = [verb for verb in offered if verb not in ("approve", "edit")]
        offered += [] if gone(call) else ["reask"]
    return tuple(verb for verb in verbs if verb in offered)
