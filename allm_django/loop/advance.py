"""The one driver: decide, act, record; again. Used for stateless lists and stored sessions alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from allm_django import logs
from allm_django.core.decide import (
    Action,
    AwaitCalls,
    CallModel,
    CheckStep,
    CloseCalls,
    DropCalls,
    ExecuteCalls,
    FormatAnswer,
    HaltRun,
    next_action,
)
from allm_django.core.plans import Delegation
from allm_django.core.settle import STOPPED_AT_WORK, Settlement, after_crash, settle_closed, settle_too_late
from allm_django.core.states import CallState, Outcome
from allm_django.core.types import ModelRequest
from allm_django.errors import AllmError, LeaseLostError
from allm_django.loop.calling import run_function, run_handler
from allm_django.loop.deadline import Deadline
from allm_django.loop.journal import Journal, StartedCall
from allm_django.loop.options import LoopOptions
from allm_django.loop.points import at
from allm_django.loop.reading import Reading
from allm_django.loop.telemetry import spans_of
from allm_django.providers.assembly import Assembly
from allm_django.providers.base import Delta, Model


class Driver:
    """Drives one run until it halts. One instance a drive; all of it on one event loop."""

    def __init__(self, journal: Journal, model: Model, options: LoopOptions) -> None:
        self.journal = journal
        self.model = model
        self.options = options
        self.spans = spans_of(options.about, model.id)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._handlers: dict[str, tuple[StartedCall, asyncio.Future[Any]]] = {}
        self._slots = asyncio.Semaphore(options.max_parallel)
        self._stopping = asyncio.Event()
        self._deadline = Deadline()

    def stop(self) -> None:
        """Ask for a clean stop: what runs gets ``stop_grace`` seconds, the run stays to be taken up elsewhere."""
        self._stopping.set()
        self.journal.woken.set()

    async def run(self) -> HaltRun | None:
        """Drive to the next halt; None after a clean stop. Raises LeaseLostError when another worker took over."""
        about = self.options.about
        with logs.working_on(about.request_id, about.session_id), self.spans.drive() as done:
            halt = await self._drive()
            done(halt)
            return halt

    async def _drive(self) -> HaltRun | None:
        try:
            while not self._stopping.is_set():
                self._mind_the_time()
                snapshot = await at("load", self.journal.load())
                self._deadline.look(snapshot)
                action = next_action(snapshot)
                if halt := await self._act(action):
                    return halt
            await self._settle_started(self.options.stop_grace, lambda _call: after_crash(idempotent=True))
            return None
        finally:
            await self._drop_tasks()

    def _mind_the_time(self) -> None:
        if self._deadline.is_over:
            self.journal.run_out()

    async def _act(self, action: Action) -> HaltRun | None:
        match action:
            case CallModel():
                await self._call_model(action)
            case ExecuteCalls():
                self._start_calls(action.ids)
                await self._await_change()
            case DropCalls():
                await at("drop_calls", self.journal.drop_calls(action.ids))
            case AwaitCalls():
                await self._await_change()
            case CheckStep():
                await self._check_step()
            case FormatAnswer():
                await self._format_answer()
            case CloseCalls():
                await at("close_calls", self.journal.close_calls())
                await self._close_started()
            case HaltRun():
                if await at("halt", self.journal.halt(action)):
                    return action
        return None

    # -- the model ---------------------------------------------------------------------------------------------

    async def _call_model(self, action: CallModel) -> None:
        self.spans.begin_step()
        request = await at("begin_step", self.journal.begin_step(action.nudge))
        assembly, error = await self._ask(request, self.journal.note_delta)
        if assembly.finished is not None and error is None:
            await at("complete_message", self.journal.complete_message(assembly.finished))
            return
        self._mind_the_time()
        text, thinking = assembly.text, assembly.thinking
        await at("break_message", self.journal.break_message(text, thinking, error, failed=error is not None))

    async def _format_answer(self) -> None:
        request = await at("begin_output", self.journal.begin_output())
        assembly, error = await self._ask(request, lambda _delta: None)
        await at("take_output", self.journal.take_output(assembly.finished, error))

    async def _ask(self, request: ModelRequest, note: Callable[[Delta], None]) -> tuple[Assembly, AllmError | None]:
        """What the model answered until it ended or was interrupted, and the error it ended with, if any."""
        reading = Reading(self.model, request, self.options, note)
        with self.spans.model_call(request) as done:
            error = await self._unless_interrupted(reading.read())
            done(reading.assembly.finished, error)
        return reading.assembly, error

    async def _unless_interrupted(self, work: Coroutine[Any, Any, None]) -> AllmError | None:
        """Do ``work`` until it ends, or a cancel, a stop or the end of the run's time comes first; the error it ended
        with, if any.
        """
        task = asyncio.ensure_future(work)
        interrupts = [asyncio.ensure_future(event.wait()) for event in (self.journal.cancelled, self._stopping)]
        try:
            first, left = asyncio.FIRST_COMPLETED, self._deadline.left
            await at("provider", asyncio.wait([task, *interrupts], timeout=left, return_when=first))
        finally:
            for waiter in interrupts:
                waiter.cancel()
            task.cancel()
            await asyncio.wait([task])
        if task.cancelled():
            return None
        error = task.exception()
        if error is not None and not isinstance(error, AllmError):
            raise error
        return error

    async def _check_step(self) -> None:
        """Ask ``halt_when``; what it raises halts the run with ``error`` and is on record (L07)."""
        assert self.options.halt_when is not None
        step = await at("last_step", self.journal.last_step())
        try:
            self.journal.check_step(bool(await run_function(self.options.threads, self.options.halt_when, step)), "")
        except Exception as error:
            self.journal.check_step(False, f"halt_when raised {type(error).__name__}: {error}")

    # -- the calls ---------------------------------------------------------------------------------------------

    def _start_calls(self, ids: tuple[str, ...]) -> None:
        for call_id in ids:
            if call_id not in self._tasks:
                self._tasks[call_id] = asyncio.create_task(self._run_call(call_id))

    async def _run_call(self, call_id: str) -> None:
        async with self._slots:
            if self._stopping.is_set() or self._deadline.keeps(call_id):
                return
            started = await at("start_call", self.journal.start_call(call_id))
            if started is None:
                return
            ended, late = await self._handle(call_id, started)
            if started.handler is not None and ended.state is CallState.EXECUTING:  # a recipe without a plan (R06)
                _, late = await self._handle(call_id, replace(started, recipe=None, handler=started.handler.direct))
        if late is not None:
            self.journal.watch_late(call_id, late)

    async def _handle(self, call_id: str, started: StartedCall) -> tuple[Settlement, Awaitable[Any] | None]:
        """Run a started call's handler and record what comes of it; a recipe's next steps, too."""
        started = self._deadline.cut(call_id, started)
        with self.spans.tool_call(started) as done:
            came, late = await self._came_of(call_id, started)
            ended = Settlement(CallState.DELEGATED) if isinstance(came, Delegation) else came
            done(ended)
        if isinstance(came, Delegation):
            await at("add_steps", self.journal.add_steps(call_id, came))
        else:
            await at("finish_call", self.journal.finish_call(call_id, came))
        self._handlers.pop(call_id, None)
        return ended, late

    async def _came_of(
        self, call_id: str, started: StartedCall
    ) -> tuple[Settlement | Delegation, Awaitable[Any] | None]:
        if self._deadline.keeps(call_id):
            return settle_too_late(started.call.id), None
        handler = asyncio.ensure_future(run_handler(started, self.options, self.journal.stored))
        self._handlers[call_id] = (started, handler)
        return await at("handler", asyncio.shield(handler))

    async def _await_change(self) -> None:
        """Until a call ends, a person acts or a cancel comes; a call task's own failure is raised here."""
        waiters = [
            asyncio.ensure_future(self.journal.woken.wait()),
            asyncio.ensure_future(self.journal.cancelled.wait()),
        ]
        try:
            await at("calls", asyncio.wait([*self._tasks.values(), *waiters], return_when=asyncio.FIRST_COMPLETED))
        finally:
            for waiter in waiters:
                waiter.cancel()
        self._reap()

    def _reap(self) -> None:
        for call_id, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[call_id]
                task.result()

    async def _close_started(self) -> None:
        """After a cancel: idempotent calls are closed, the others end by themselves in time or are unknown (L15)."""
        await self._settle_started(
            self.options.cancel_grace, lambda call: settle_closed(call.call.id, Outcome.CANCELLED, STOPPED_AT_WORK)
        )

    async def _settle_started(self, grace: float, idempotent: Callable[[StartedCall], Settlement]) -> None:
        """Let started calls that are not idempotent end for ``grace`` seconds; settle what is left."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        while self._tasks:
            over = loop.time() >= deadline
            for call_id, (started, handler) in list(self._handlers.items()):
                if (started.repeatable or over) and call_id in self._handlers and not handler.done():
                    await self._abandon(call_id, started, handler, idempotent)
            if self._tasks:
                wait = max(deadline - loop.time(), 0.01)
                await at("grace", asyncio.wait(self._tasks.values(), timeout=wait, return_when=asyncio.FIRST_COMPLETED))
                self._reap()

    async def _abandon(
        self,
        call_id: str,
        started: StartedCall,
        handler: asyncio.Future[Any],
        idempotent: Callable[[StartedCall], Settlement],
    ) -> None:
        """Wait no longer for a handler. One that may have effects runs on; what it gives is kept as late."""
        task = self._tasks.pop(call_id)
        del self._handlers[call_id]
        task.cancel()
        await asyncio.wait([task])
        if started.repeatable:
            handler.cancel()
            settlement = idempotent(started)
        else:
            settlement = after_crash(idempotent=False)
        try:
            await at("finish_call", self.journal.finish_call(call_id, settlement))
        finally:
            if not started.repeatable:
                self.journal.watch_late(call_id, handler)

    async def _drop_tasks(self) -> None:
        """The drive is over. What a handler with effects still gives is kept, though another worker has taken over."""
        for task in self._tasks.values():
            task.cancel()
        for call_id, (started, handler) in self._handlers.items():
            if self.journal.stored and not started.repeatable:
                self.journal.watch_late(call_id, handler)
            else:
                handler.cancel()
        results = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, LeaseLostError):
                raise result


async def advance(journal: Journal, model: Model, options: LoopOptions) -> HaltRun | None:
    """Drive the journal's run to its next halt."""
    return await Driver(journal, model, options).run()
