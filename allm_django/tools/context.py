"""What a handler is told about its call (T09)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from allm_django.core.types import ToolCall
from allm_django.errors import InvalidInputError

MAX_TEXT = 500


def _nobody_listens(fraction: float | None, text: str) -> None:
    """Take a report that nobody wants."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The circumstances of one call.

    ``context``: what the host passed to this call, session or engine, unchanged (T10). ``session_id`` and ``user`` (the
    session's owner, never the worker or the approver) are None in stateless use. ``engine`` is the engine's name.
    ``idempotency_key`` stays the same when this very call is run again: give it to outside services.
    ``report`` is where :meth:`progress` goes; it may be called from any thread.
    """

    context: Any
    session_id: str | None
    tool_call: ToolCall
    engine: str = ""
    request_id: str = ""
    user: Any = None
    idempotency_key: str = ""
    report: Callable[[float | None, str], None] = field(default=_nobody_listens, repr=False)

    def progress(self, fraction: float | None, text: str = "") -> None:
        """Report how far the work is: 0 to 1 (clamped), or None if unknown, and a short text. From any thread.

        Raises InvalidInputError for what is no finite number or no text; never because nobody can hear it any more.
        """
        if fraction is not None:
            if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not isfinite(fraction):
                kind = type(fraction).__name__
                raise InvalidInputError(f"fraction: {kind} given; a number from 0 to 1 or None.", field="fraction")
            fraction = min(max(float(fraction), 0.0), 1.0)
        if not isinstance(text, str):
            raise InvalidInputError(f"text: {type(text).__name__} given; text is needed.", field="text")
        with suppress(Exception):  # a closed event loop, a full queue: no reason to fail the work itself
            self.report(fraction, text[:MAX_TEXT])
