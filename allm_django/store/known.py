"""What a drive knows between its transactions, so that it reads again only what others may have changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from allm_django.core.streaks import Streaks
from allm_django.core.types import Message as Neutral
from allm_django.errors import LeaseLostError
from allm_django.models import Message, Run, ToolCall, ToolVersion
from allm_django.store.history import load_history
from allm_django.store.writing import Lease, Writing, alias, writing


@dataclass(slots=True)
class Known:
    """What a drive knows of its run.

    ``asks``, ``turn``, ``verdict`` and ``error`` are what the engine's ``halt_when`` said of the turn ``turn``; it is
    pure, so asking again after a crash is harmless. ``seen`` are an event's number and the last turn's calls as of it:
    whoever changes a call tells an event under the session's lock, so as long as the number stands, the calls do.
    ``answer`` is the last answer that this drive has recorded, ``past`` what came in a row before the present turn,
    ``is_over``: the run's time is up; ``versions`` are those of the tools it has offered, by the tool's key.
    """

    asks: bool
    turn: int = 0
    verdict: bool = False
    error: str = ""
    seen: tuple[int, list[ToolCall]] | None = None
    answer: Message | None = None
    past: Streaks | None = None
    is_over: bool = False
    versions: dict[int | None, ToolVersion] = field(default_factory=dict)


class Working:
    """A transaction of the worker that drives ``run``."""

    def __init__(self, tx: Writing, run: Run, calls: list[ToolCall] | None) -> None:
        self.tx, self.run = tx, run
        self.known_calls = calls

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the thread's last complete message, in order, and then the steps of its recipes."""
        if self.known_calls is None:
            self.known_calls = read_turn_calls(self.tx.session.id)
        return self.known_calls

    def history(self, answer: Message | None) -> tuple[Neutral, ...]:
        """What a provider may see; nothing is read if ``answer`` is the thread's last message, its calls known."""
        session = self.tx.session
        if answer is None or self.known_calls is None or answer.position != session.message_count:
            return load_history(session.id)
        return load_history(session.id, answer, self.known_calls)


@contextmanager
def working(lease: Lease, known: Known) -> Iterator[Working]:
    """The session under its lock, for its worker. Raises LeaseLostError unless the lease holds."""
    with writing(lease.session_id, lease) as tx:
        if tx.run is None:
            raise LeaseLostError
        seen, known.seen = known.seen, None  # a transaction that fails leaves nothing known
        work = Working(tx, tx.run, seen[1] if seen and seen[0] == tx.session.event_count else None)
        yield work
    if work.known_calls is not None:
        known.seen = (tx.session.event_count, work.known_calls)


def read_turn_calls(session_id: UUID) -> list[ToolCall]:
    """The calls of the thread's last complete message, in order, and then the steps of its recipes; from the rows."""
    using = alias()
    last = Message.objects.using(using).filter(session=session_id, complete=True).order_by("-position").values("pk")[:1]
    rows = ToolCall.objects.using(using).select_related("tool_version")
    return sorted(rows.filter(message__in=last).order_by("position"), key=lambda call: call.parent_id is not None)
