"""Counting approvals: with a quorum, a call runs once that many people have approved the same version (H10)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from allm_django.core.states import CallState
from allm_django.core.types import JSONObject
from allm_django.errors import AlreadyApprovedError, NotAllowedError
from allm_django.models import Approval, ToolCall

Counts = Callable[[Any, ToolCall], bool]  # whether a person may still decide a call


def quorum_of(call: ToolCall) -> int:
    """How many people have to approve ``call``, as its tool was when it was asked."""
    return int(call.tool_version.data.get("quorum", 1)) if call.tool_version else 1


def approvals_of(call: ToolCall) -> list[Approval]:
    """Who has approved the version that waits, else the one that was let run; in order. Uses what was prefetched."""
    waits = call.state in (CallState.PENDING, CallState.UNKNOWN)
    version = call.version if waits else call.approved_version
    return [approval for approval in call.approvals.all() if approval.call_version == version]


def approvals_shape(call: ToolCall) -> list[JSONObject]:
    """Who has approved, where several have to; without a quorum ``decided`` says it all, and nothing is asked."""
    if quorum_of(call) == 1:
        return []
    return [{"by": row.who, "at": row.created_at.isoformat().replace("+00:00", "Z")} for row in approvals_of(call)]


def has_approved(user: Any, call: ToolCall) -> bool:
    """Whether ``user`` is one of those who approved the version that waits."""
    key = getattr(user, "pk", None)
    return quorum_of(call) > 1 and key is not None and any(row.user_id == key for row in approvals_of(call))


def approve_version(call: ToolCall, version: int, by: Any, who: str, now: datetime, counts: Counts) -> bool:
    """Note the approval of ``by`` under the session's lock; whether that is enough. Then ``approved_version`` is set.

    Code that acts in nobody's name can let a call run only where one approval is enough. Approvals of people who
    may no longer decide the call are dropped. Raises AlreadyApprovedError, NotAllowedError.
    """
    quorum = quorum_of(call)
    if by is None:
        if quorum > 1:
            raise NotAllowedError(f"{quorum} people have to approve this call: say who does (by=).")
        call.approved_version = None
        return True
    given = _given(call, version, by, counts) if quorum > 1 else []
    call.approvals.create(call_version=version, user=by, who=who, created_at=now)
    enough = len(given) + 1 >= quorum
    if enough:
        call.approved_version = version
    return enough


def still_stands(call: ToolCall, counts: Counts) -> bool:
    """Whether enough of those who let ``call`` run may still decide it (security row 19). Code's word always stands."""
    if call.approved_version is None:
        return True
    rows = call.approvals.filter(call_version=call.approved_version).select_related("user")
    return sum(counts(row.user, call) for row in rows) >= quorum_of(call)


def _given(call: ToolCall, version: int, by: Any, counts: Counts) -> list[Approval]:
    """The approvals of others that count."""
    given = []
    for row in call.approvals.filter(call_version=version).select_related("user"):
        if row.user_id == by.pk:
            raise AlreadyApprovedError(call=call, state=call.state)
        if counts(row.user, call):
            given.append(row)
        else:
            row.delete()
    return given
