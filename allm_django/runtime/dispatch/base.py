"""How a session with something to run finds a worker. Only a wake-up: losing or doubling it changes nothing."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID


class Dispatch(Protocol):
    """What ``ALLM["DISPATCH"]`` names: a class without arguments."""

    def wake(self, session_id: UUID) -> None:
        """Called after commit; must not raise for a queue that is down for a moment."""
