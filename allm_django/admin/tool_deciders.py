"""What to say of a tool's rules about people that can't work out as they stand (H10, H11)."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from allm_django import access
from allm_django.models import Tool


def warnings_of(tool: Tool) -> Iterator[str]:
    """Each thing that whoever set up ``tool`` will not have wanted, in words; it is saved all the same."""
    yield from _too_few(tool)
    groups = tool.escalation_groups.exists()
    if groups and tool.escalate_after is None:
        yield _("The escalation groups do nothing: say after how long they may decide, too.")
    if groups and not tool.approver_groups.exists():
        yield _("Without approver groups all who may decide may do so from the start, the escalation groups included.")


def _too_few(tool: Tool) -> Iterator[str]:
    able = access.deciders(tool)
    if able is None or tool.quorum == 1:
        return
    there = able[: tool.quorum].count()
    if there < tool.quorum:
        yield ngettext(
            "%(quorum)d people have to approve, but only %(there)d may decide calls of this tool.",
            "%(quorum)d people have to approve, but only %(there)d may decide calls of this tool.",
            there,
        ) % {"quorum": tool.quorum, "there": there}
