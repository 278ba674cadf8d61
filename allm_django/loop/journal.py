"""What the driver needs of the place where a run is kept: memory, or rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from allm_django.core.decide import HaltRun, Snapshot
from allm_django.core.plans import Delegation, PastStep
from allm_django.core.settle import Settlement
from allm_django.core.types import Message, ModelRequest, ToolCall
from allm_django.errors import AllmError
from allm_django.providers.base import Delta, Finished
from allm_django.tools.context import ToolContext
from allm_django.tools.registry import BoundHandler


@dataclass(frozen=True, slots=True)
class RecipeProgress:
    """How far a recipe is: the shape of its plan (``""``: not planned yet) and the steps that have their result."""

    shape: str = ""
    past: tuple[PastStep, ...] = ()


@dataclass(frozen=True, slots=True)
class StartedCall:
    """A call whose start is on record: what to run, with what, for how long (seconds), which arguments to mask.

    ``recipe``: how far it is, if it is one; ``step_of``: the name of the recipe whose step it is, or ``""``.
    ``is_cut_short``: ``timeout`` is what the run has left of its time, less than the tool's own.
    """

    call: ToolCall
    handler: BoundHandler | None
    context: ToolContext
    timeout: float
    idempotent: bool
    sensitive: tuple[str, ...] = ()
    recipe: RecipeProgress | None = None
    step_of: str = ""
    is_cut_short: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether running it again does no harm; a recipe itself only plans."""
        return self.idempotent or self.recipe is not None


@dataclass(frozen=True, slots=True)
class Step:
    """One trip round the loop: the assistant's message and the results there are, in the calls' order."""

    turn: int
    message: Message
    results: tuple[Message, ...] = ()


class Journal(Protocol):
    """Where a run is recorded. Every async method is one transaction; after it returns, the fact stands.

    ``woken`` is set when something outside changed (a person decided), ``cancelled`` when a cancel is known.
    Raises LeaseLostError from any write once another worker owns the run.
    """

    woken: asyncio.Event
    cancelled: asyncio.Event
    stored: bool

    async def load(self) -> Snapshot:
        """Where the run stands now; clears ``woken``."""

    async def begin_step(self, nudge: bool) -> ModelRequest:
        """Count a turn and give what to send to the model."""

    async def begin_output(self) -> ModelRequest:
        """What to send for the structured answer (L13)."""

    async def take_output(self, finished: Finished | None, error: AllmError | None) -> None:
        """Record what came of it: an answer, an error, or neither after a cancel."""

    def note_delta(self, delta: Delta) -> None:
        """Hear a delta as it comes; never blocks."""

    async def complete_message(self, finished: Finished) -> None:
        """Record the whole answer and its calls, each with its verdict."""

    async def break_message(self, text: str, thinking: str, error: AllmError | None, *, failed: bool) -> None:
        """Record an answer that broke off; ``failed``: the run ends with ``error``."""

    async def last_step(self) -> Step:
        """The step that just ended."""

    def check_step(self, verdict: bool, error: str) -> None:
        """Take the engine's ``halt_when`` verdict on the last step, or what went wrong in asking."""

    async def start_call(self, call_id: str) -> StartedCall | None:
        """Record that a ready call starts now, or give how far a recipe is; None if it may not (any more)."""

    async def drop_calls(self, ids: Collection[str]) -> None:
        """The run's time is up: give these calls, which have not started, their synthetic result."""

    def run_out(self) -> None:
        """Hear that the run's time is up, whatever the clock says that its seconds are counted by."""

    async def add_steps(self, call_id: str, delegation: Delegation) -> None:
        """Record a recipe's next calls, each with its verdict."""

    async def finish_call(self, call_id: str, settlement: Settlement) -> None:
        """Record how a started call ended."""

    def watch_late(self, call_id: str, late: Awaitable[Any]) -> None:
        """Keep what still comes after a timeout or cancel; it never reaches the model (T17)."""

    async def close_calls(self) -> None:
        """After a cancel: give every call that has not started its synthetic result."""

    async def halt(self, halt: HaltRun) -> bool:
        """Record the halt; False when something changed meanwhile, so look again."""
