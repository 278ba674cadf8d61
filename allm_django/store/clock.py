"""The time by which expiry and escalation are judged; tests set it. Leases use the database's own clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.utils import timezone

_stopped: datetime | None = None


def now() -> datetime:
    """The time, aware."""
    return _stopped or timezone.now()


@contextmanager
def stopped_at(moment: datetime) -> Iterator[None]:
    """Hold the clock at ``moment`` inside the block."""
    global _stopped
    before, _stopped = _stopped, moment
    try:
        yield
    finally:
        _stopped = before
