"""The end of a run's time (``max_seconds``, L10), on the event loop's clock.

What is under way then is ended as if its own timeout had come: a model request breaks off, a handler times out (T17).
What a person has let through has the whole timeout of its tool.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from allm_django.core.decide import Snapshot
from allm_django.core.states import CallState
from allm_django.loop.journal import StartedCall

RESOLUTION = 0.001  # seconds; timers may end that much early


class Deadline:
    """When a drive's time is up; nothing is, before :meth:`look`."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._let_through: frozenset[str] = frozenset()
        self._begun: frozenset[str] = frozenset()  # recipes, which are to be finished: what is too late is their steps

    def look(self, snapshot: Snapshot) -> None:
        """Take from a snapshot how much is left. It only ever gets less."""
        self._let_through = frozenset(call.id for call in snapshot.calls if call.let_through)
        self._begun = frozenset(call.id for call in snapshot.calls if call.state is CallState.DELEGATED)
        if (bound := snapshot.limits.max_seconds) is not None:
            ends = asyncio.get_running_loop().time() + bound - snapshot.seconds
            self._at = ends if self._at is None else min(self._at, ends)

    @property
    def left(self) -> float | None:
        """Seconds that are left, never negative; None: no end."""
        return None if self._at is None else max(self._at - asyncio.get_running_loop().time(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.left is not None and self.left < RESOLUTION

    def keeps(self, call_id: str) -> bool:
        """Whether it is too late to start this call."""
        return self.is_over and call_id not in self._let_through | self._begun

    def cut(self, call_id: str, started: StartedCall) -> StartedCall:
        """``started`` with no more time than is left; a recipe's planning and what a person let through keep theirs."""
        left = self.left
        spared = call_id in self._let_through | self._begun or started.recipe is not None
        if left is None or left >= started.timeout or spared:
            return started
        return replace(started, timeout=left, is_cut_short=True)
