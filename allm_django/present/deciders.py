"""Who decides a call, how many of them, and what is left to the viewer: the part of a card about people (H10, H11)."""

from __future__ import annotations

from django.utils.translation import gettext as _

from allm_django.access import DECIDABLE_STATES, Person
from allm_django.core.states import CallState
from allm_django.core.types import JSONObject
from allm_django.models import Tool, ToolCall
from allm_django.present.people import name_of
from allm_django.store.approvals import has_approved
from allm_django.store.drift import allowed_verbs


def terms(user: Person, call: ToolCall) -> JSONObject:
    """The groups that may decide ``call`` now, those called in later, and whether ``user`` has approved it.

    How many have to, who has, and the times are the same for all viewers: they are in the call's shape.
    """
    tool = _tool(call)
    now, later = (_groups(tool), _escalation(tool)) if tool and call.state in DECIDABLE_STATES else ([], [])
    if call.escalated and now:
        now, later = sorted({*now, *later}), []
    return {"groups": now, "escalation_groups": later, "approved": has_approved(user, call)}


def verbs_for(user: Person, call: ToolCall) -> list[str]:
    """The verbs for someone who may decide: nobody approves the same version twice."""
    verbs = allowed_verbs(call)
    return [verb for verb in verbs if verb not in ("approve", "retry")] if has_approved(user, call) else list(verbs)


def waiting_for(user: Person, call: ToolCall) -> str:
    """For someone who may not decide: who is waited for, in words; ``""`` when nobody is."""
    if call.state == CallState.ASKING:
        return _("Waiting for %(name)s to answer.") % {"name": name_of(call.session.owner)}
    if call.state not in DECIDABLE_STATES:
        return ""
    version = call.tool_version
    title = (version.data.get("title") if version else "") or call.name
    if groups := terms(user, call)["groups"]:
        return _("Waiting for someone of %(groups)s to decide “%(title)s”.") % {
            "groups": ", ".join(groups),
            "title": title,
        }
    return _("Waiting for someone who may decide “%(title)s”.") % {"title": title}


def _tool(call: ToolCall) -> Tool | None:
    return call.tool_version.tool if call.tool_version else None


def _groups(tool: Tool) -> list[str]:
    return sorted(group.name for group in tool.approver_groups.all())


def _escalation(tool: Tool) -> list[str]:
    return sorted(group.name for group in tool.escalation_groups.all())
