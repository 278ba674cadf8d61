"""Dispatches for ``ALLM["DISPATCH"]``."""

from __future__ import annotations

from uuid import UUID


class Lost:
    """A queue that loses every wake-up."""

    def wake(self, session_id: UUID) -> None:
        """Do nothing."""
