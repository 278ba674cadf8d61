"""The default: the runner of the process that wrote."""

from __future__ import annotations

from uuid import UUID

from allm_django.runtime.runner import runner


class InProcess:
    """Wakes this process's own runner."""

    def wake(self, session_id: UUID) -> None:
        """Drive the session here."""
        runner.wake(session_id)
