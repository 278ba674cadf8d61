"""What became of a call's tool since the call was asked, and what may still be done with the call (H03, H04)."""

from __future__ import annotations

from allm_django.core.states import CallState
from allm_django.models import ToolCall
from allm_django.store.tools import content
from allm_django.tools.registry import registry

VERBS_BY_STATE = {
    CallState.PENDING: ("approve", "edit", "answer", "reject", "reask"),
    CallState.UNKNOWN: ("answer", "retry", "reject"),
    CallState.ASKING: ("answer",),
}


def gone(call: ToolCall) -> str:
    """Why the tool of this call can't be had any more, in words, or ``""``."""
    version = call.tool_version
    if version is None or version.tool is None:
        return "The tool was deleted."
    if not version.tool.enabled:
        return "The tool was disabled."
    if version.tool.handler and registry.get(version.tool.handler) is None:
        return "The tool's handler is no longer part of the program."
    return ""


def drift(call: ToolCall) -> str:
    """What changed of the tool since this call was asked, in words, or ``""`` (H04)."""
    version = call.tool_version
    if lost := gone(call):
        return lost
    assert version is not None
    assert version.tool is not None
    now = content(version.tool)
    if now == version.data:
        return ""
    changed = [name for name in now if now[name] != version.data.get(name)]
    return f"The tool was changed ({', '.join(changed)})."


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
