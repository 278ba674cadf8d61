"""Which run a drive is of: what its log lines and spans are named by (L19)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """The names of a run. ``session_id`` is ``""`` in stateless use.

    ``traceparent`` is the trace that a stored run's drives all belong to (W3C trace context), ``""`` if it has none;
    None: that of the caller.
    """

    request_id: str = ""
    session_id: str = ""
    engine: str = ""
    traceparent: str | None = None
