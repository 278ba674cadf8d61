"""Until when a call waits, held on its row; :mod:`allm_django.store.expiry` acts on it (H11)."""

from __future__ import annotations

from datetime import datetime, timedelta

from allm_django.models import ToolCall


def set_deadlines(call: ToolCall, now: datetime, *, question: bool = False) -> None:
    """Let a call that waits from ``now`` on expire and escalate as its tool's version says; a question only expires."""
    call.expires_at = _later(call, now, "expiry")
    call.escalates_at = None if question else _later(call, now, "escalate_after")
    times = [moment for moment in (call.expires_at, call.escalates_at) if moment is not None]
    call.wake_at = min(times, default=None)


def _later(call: ToolCall, now: datetime, field: str) -> datetime | None:
    seconds = call.tool_version.data.get(field) if call.tool_version else None
    return None if seconds is None else now + timedelta(seconds=seconds)
