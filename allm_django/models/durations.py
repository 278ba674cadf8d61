"""Lengths of time in rows: checked, and as JSON."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _

from allm_django.errors import InvalidInputError


def as_json(value: Any) -> Any:
    """A length of time as seconds; all else as it is."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def check_lasts(value: timedelta | None, field: str) -> None:
    """Raise InvalidInputError unless ``value`` is longer than nothing, or None."""
    if value is not None and value <= timedelta():
        words = _("It must be longer than nothing; leave it empty for none.")
        raise InvalidInputError(f"{field}: {words}", field=field)


def check_escalation(after: timedelta | None, expiry: timedelta | None) -> None:
    """Raise InvalidInputError unless there is time left after an escalation."""
    check_lasts(after, "escalate_after")
    if after is not None and expiry is not None and after >= expiry:
        words = _("It must be shorter than the expiry; else the call ends before.")
        raise InvalidInputError(f"escalate_after: {words}", field="escalate_after")
