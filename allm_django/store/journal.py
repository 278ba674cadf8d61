"""The database journal: the driver's view of a stored run. Each method is one transaction of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Protocol, TypeVar

from allm_django.core.decide import HaltRun, Snapshot
from allm_django.core.plans import Delegation
from allm_django.core.settle import Settlement
from allm_django.core.types import Message as Neutral
from allm_django.core.types import ModelRequest, ToolCall
from allm_django.errors import AllmError
from allm_django.loop.calling import late_record
from allm_django.loop.journal import StartedCall, Step
from allm_django.models import Message, Session
from allm_django.models import ToolCall as CallRow
from allm_django.providers.base import Delta, Finished, TextDelta
from allm_django.store import executing, formatting, recipes, turns
from allm_django.store.approvals import Counts
from allm_django.store.history import load_history
from allm_django.store.known import Known
from allm_django.store.offers import StoredOffer
from allm_django.store.writing import Lease, alias
from allm_django.tools.context import ToolContext

T = TypeVar("T")
RunInDatabase = Callable[..., Awaitable[Any]]


class Live(Protocol):
    """Where what is not a row goes: streaming text and progress, of one run."""

    def text(self, lease: Lease, message: Message, text: str) -> None:
        """A piece of a streaming message."""

    def forget(self, message: Message) -> bool:
        """The message is whole or broken; its text is on its row. Whether chunks of it may have been stored."""

    def progress(self, lease: Lease, call: CallRow, fraction: float | None, text: str) -> None:
        """How far a handler is; from any thread."""

    def late(self, work: Awaitable[None]) -> None:
        """Something to finish after the run has halted."""


class DatabaseJournal:
    """A stored run. ``run`` executes a transaction off the event loop; ``refuse`` says why an approved call may not
    run any more, or ``""``; ``may_decide`` whether a person may decide a call now, for what they allowed beforehand.
    """

    stored = True

    def __init__(
        self,
        lease: Lease,
        run: RunInDatabase,
        live: Live,
        *,
        asks_halt_when: bool,
        refuse: Callable[[CallRow], str],
        may_decide: Counts,
    ) -> None:
        self.lease = lease
        self.woken = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._run = run
        self._live = live
        self._refuse = refuse
        self._may_decide = may_decide
        self._known = Known(asks_halt_when)
        self._snapshot: Snapshot | None = None
        self._message: Message | None = None
        self._offer: StoredOffer | None = None
        self._rows: dict[str, CallRow] = {}
        self._session: Session | None = None

    async def load(self) -> Snapshot:
        """Where the run stands; read anew only if something outside may have changed it."""
        known, self._snapshot = self._snapshot, None
        if known is None or self.woken.is_set():
            self.woken.clear()
            known = self._take(await self._run(turns.load, self.lease, self._known))
            self._snapshot = None
        return known

    async def begin_step(self, nudge: bool) -> ModelRequest:
        """Count a turn and give what to send to the model."""
        begun: turns.Begun = await self._run(turns.begin_step, self.lease, self._known, nudge)
        self._message, self._offer, self._turns = begun.message, begun.offer, begun.turns
        if begun.cancel_requested:
            self.cancelled.set()
        return begun.request

    async def begin_output(self) -> ModelRequest:
        """What to send for the structured answer."""
        request, cancelled = await self._run(formatting.begin_output, self.lease, self._known)
        if cancelled:
            self.cancelled.set()
        asked: ModelRequest = request
        return asked

    async def take_output(self, finished: Finished | None, error: AllmError | None) -> None:
        """Record what came of it."""
        self._take(await self._run(formatting.take_output, self.lease, self._known, finished, error))

    def note_delta(self, delta: Delta) -> None:
        """Pass visible text on to those who watch."""
        if type(delta) is TextDelta and self._message is not None:
            self._live.text(self.lease, self._message, delta.text)

    async def complete_message(self, finished: Finished) -> None:
        """Record the whole answer and its calls."""
        assert self._message is not None
        answer = turns.Answer(self._message, finished, chunks=self._live.forget(self._message))
        told = (self.lease, self._known, answer, self._offer, self._may_decide)
        self._take(await self._run(turns.complete_message, *told))

    async def break_message(self, text: str, thinking: str, error: AllmError | None, *, failed: bool) -> None:
        """Record an answer that broke off."""
        assert self._message is not None
        self._live.forget(self._message)
        self._take(
            await self._run(turns.break_message, self.lease, self._known, self._message, text, thinking, error, failed)
        )

    async def last_step(self) -> Step:
        """The step that just ended."""
        history: tuple[Neutral, ...] = await self._run(load_history, self.lease.session_id)
        place = max(index for index, message in enumerate(history) if message.role == "assistant")
        return Step(self._turns, history[place], history[place + 1 :])

    def check_step(self, verdict: bool, error: str) -> None:
        """Take the engine's verdict on the last step."""
        self._known.verdict, self._known.error = verdict, error
        self._known.turn = self._turns
        self._snapshot = None

    async def start_call(self, call_id: str) -> StartedCall | None:
        """Commit that a ready call starts now, or None if it may not any more."""
        begun: executing.Started = await self._run(executing.start_call, self.lease, self._known, call_id, self._refuse)
        self._take(begun.snapshot)
        if begun.call is None:
            return None
        self._rows[call_id] = begun.call
        session = await self._owner_session()
        return self._started(begun, begun.call, session)

    async def drop_calls(self, ids: Collection[str]) -> None:
        """Out of time: close what has not started."""
        self._take(await self._run(executing.drop_calls, self.lease, self._known, ids))

    def run_out(self) -> None:
        """The time is up, by whatever clock."""
        if not self._known.is_over:
            self._known.is_over, self._snapshot = True, None

    async def add_steps(self, call_id: str, delegation: Delegation) -> None:
        """Record a recipe's next calls, each with its verdict."""
        told = (self.lease, self._known, call_id, delegation, self._may_decide)
        self._take(await self._run(recipes.add_steps, *told))

    async def finish_call(self, call_id: str, settlement: Settlement) -> None:
        """Record how a started call ended."""
        self._take(await self._run(executing.finish_call, self.lease, self._known, call_id, settlement))

    def watch_late(self, call_id: str, late: Awaitable[Any]) -> None:
        """Keep what still comes, on the call's row."""
        row = self._rows[call_id]

        async def keep() -> None:
            try:
                came = await late
                if isinstance(came, tuple) and came[1] is not None:  # given up on twice: by a cancel, by its timeout
                    came = await came[1]
            except asyncio.CancelledError:
                return  # an async handler that was cancelled: nothing can come any more
            await self._run(executing.record_late, row.id, row.session_id, late_record(came))

        self._live.late(keep())

    async def close_calls(self) -> None:
        """After a cancel: close what has not started."""
        self._take(await self._run(executing.close_calls, self.lease, self._known))

    async def halt(self, halt: HaltRun) -> bool:
        """Halt and give the lease back, unless something changed meanwhile."""
        done: bool = await self._run(turns.halt, self.lease, self._known, halt)
        self._snapshot = None
        return done

    def _take(self, snapshot: Snapshot) -> Snapshot:
        self._snapshot = snapshot
        self._turns = snapshot.turns
        if snapshot.cancel_requested:
            self.cancelled.set()
        return snapshot

    async def _owner_session(self) -> Session:
        if self._session is None:
            self._session = await self._run(_session_with_owner, self.lease)
        assert self._session is not None
        return self._session

    def _started(self, begun: executing.Started, row: CallRow, session: Session) -> StartedCall:
        assert row.tool_version is not None
        spec = row.tool_version.spec
        run = session.active_run
        assert run is not None
        recipe = begun.parent.call_id if begun.parent else ""
        call = ToolCall(row.call_id, row.name, row.arguments, row.raw_arguments, parent=recipe, label=row.label)
        context = ToolContext(
            context=session.context if session.context is not None else run.settings["context"],
            session_id=str(session.id),
            tool_call=call,
            engine=run.settings["name"],
            request_id=run.request_id,
            user=session.owner,
            idempotency_key=row.idempotency_key,
            report=lambda fraction, text: self._live.progress(self.lease, row, fraction, text),
        )
        step_of = begun.parent.name if begun.parent else ""
        return StartedCall(
            call, begun.handler, context, spec.timeout, spec.idempotent, spec.sensitive, begun.recipe, step_of
        )


def _session_with_owner(lease: Lease) -> Session:
    return Session.objects.using(alias()).select_related("owner", "active_run").get(pk=lease.session_id)
