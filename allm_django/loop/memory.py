"""The in-memory journal: a run kept as plain values, told as a stream of events (L02)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Collection, Sequence
from typing import Any

from allm_django.core import events
from allm_django.core.compact import shown
from allm_django.core.decide import HaltRun, Snapshot
from allm_django.core.history import NUDGE, decisions_in, in_request_order
from allm_django.core.ids import usable_ids
from allm_django.core.output import formatting
from allm_django.core.plans import Delegation
from allm_django.core.policy import judge
from allm_django.core.settle import Settlement
from allm_django.core.states import HaltedReason
from allm_django.core.streaks import Streaks, Used
from allm_django.core.types import JSON, JSONObject, Message, ModelRequest, ToolCall
from allm_django.core.usage import Usage
from allm_django.errors import AllmError
from allm_django.loop.held import HeldCalls
from allm_django.loop.journal import StartedCall, Step
from allm_django.loop.setup import Setup
from allm_django.loop.steps import OpenTurn, open_turn
from allm_django.providers.base import CallDelta, Delta, Finished, TextDelta, ThinkingDelta


class MemoryJournal:
    """Keeps a run in memory; what happens is put on ``events``."""

    stored = False

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.events: asyncio.Queue[events.StreamEvent | None] = asyncio.Queue()
        self.woken = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._messages = list(setup.messages)
        self._calls = HeldCalls(setup, self._tell)
        self._last: Message | None = None
        used = setup.used
        self._turns = used.turns
        self._blanks = 0
        self._calls_used = used.calls
        self._usage = used.usage
        self._past = used.streaks.decided(decisions_in(setup.messages, used.pending))
        self._error: JSONObject | None = None
        self._step_open = False
        self._checked = True
        self._halt_when = False
        self._began = time.monotonic()
        self._is_over = False
        self._output = setup.output
        self._names: dict[int, str] = {}
        self._tell(events.RunStarted(setup.request_id))
        if (turn := open_turn(setup.messages)) is not None:
            self._go_on(turn)

    async def load(self) -> Snapshot:
        """Where the run stands."""
        self.woken.clear()
        last = self._last
        return Snapshot(
            limits=self.setup.limits,
            calls=self._calls.views(),
            turns=self._turns,
            blanks=self._blanks,
            answered=last is not None and bool(last.content.strip()) and not last.calls,
            cancel_requested=self.cancelled.is_set(),
            error=self._error["code"] if self._error else "",
            halt_when=self._halt_when,
            step_checked=self._checked,
            calls_used=self._calls_used,
            usage=self._usage,
            seconds=self._seconds(),
            streaks=self._streaks(),
            output=self._output,
        )

    async def begin_step(self, nudge: bool) -> ModelRequest:
        """Count a turn; the request is all that stands."""
        self._close_step()
        self._past = self._streaks()
        self._calls.clear()
        self._turns += 1
        self._names.clear()
        self._tell(events.StepStarted(self._turns))
        return self._request([*self._messages, Message("user", NUDGE)] if nudge else self._messages)

    async def begin_output(self) -> ModelRequest:
        """The request for the structured answer."""
        self._close_step()
        assert self._output is not None
        return formatting(self._request(self._messages), self._output)

    async def take_output(self, finished: Finished | None, error: AllmError | None) -> None:
        """Take what came of it."""
        if error is not None:
            self._error = {"code": error.code, "message": error.message}
        elif finished is not None and self._output is not None:
            self._output = self._output.after(finished.text)
            self._usage += finished.usage
            self._tell(events.AnswerFormatted(self._output.problem, finished.usage))

    def _request(self, messages: Sequence[Message]) -> ModelRequest:
        setup = self.setup
        return ModelRequest(
            in_request_order(messages),
            shown(setup.offer.tools.values(), setup.tool_choice),
            setup.system,
            setup.tool_choice,
            setup.params,
            setup.request_id,
        )

    def note_delta(self, delta: Delta) -> None:
        """Pass a delta on."""
        match delta:
            case TextDelta():
                self._tell(events.TextStreamed(delta.text))
            case ThinkingDelta():
                self._tell(events.ThinkingStreamed(delta.text))
            case CallDelta():
                name = self._names.setdefault(delta.index, delta.name)
                self._tell(events.ArgumentsStreamed(delta.index, name, delta.arguments))
            case _:
                pass

    async def complete_message(self, finished: Finished) -> None:
        """Take the answer and judge its calls."""
        taken = {call.id for message in self._messages for call in message.calls}
        ids = usable_ids((raw.id for raw in finished.calls), taken, lambda: f"call_{uuid.uuid4().hex[:24]}")
        verdicts = [
            judge(id_, raw.name, raw.arguments, self.setup.offer) for id_, raw in zip(ids, finished.calls, strict=True)
        ]
        calls = tuple(
            ToolCall(id_, raw.name, verdict.arguments, raw.arguments)
            for id_, raw, verdict in zip(ids, finished.calls, verdicts, strict=True)
        )
        message = Message(
            "assistant",
            finished.text,
            calls,
            dump=finished.dump,
            usage=finished.usage,
            thinking=finished.thinking,
        )
        self._last = message
        self._step_open, self._checked = True, not self.setup.asks_halt_when
        self._messages.append(message)
        self._usage += finished.usage
        self._calls_used += len(calls)
        self._blanks = 0 if finished.text.strip() or calls else self._blanks + 1
        self._tell(events.MessageCompleted(message))
        self._calls.clear()
        for call, verdict in zip(calls, verdicts, strict=True):
            self._calls.take(call, verdict, self.setup.offer.tools.get(call.name))

    async def break_message(self, text: str, thinking: str, error: AllmError | None, *, failed: bool) -> None:
        """Keep what came, marked; with ``failed`` the run ends in error."""
        message = Message("assistant", text, complete=False, thinking=thinking)
        if text:
            self._messages.append(message)
        if text or thinking:
            self._usage += Usage()  # what it cost is unknown
        self._last = None
        self._calls.clear()
        if failed and error is not None:
            self._error = {"code": error.code, "message": error.message}
        self._tell(events.MessageBroken(message))

    async def last_step(self) -> Step:
        """The step that just ended."""
        assert self._last is not None
        return Step(self._turns, self._last, self._calls.results())

    def check_step(self, verdict: bool, error: str) -> None:
        """Take the verdict on the last step."""
        self._checked, self._halt_when = True, verdict
        if error:
            self._error = {"code": "halt_when", "message": error}

    async def start_call(self, call_id: str) -> StartedCall | None:
        """Start a ready call."""
        return self._calls.start(call_id)

    async def drop_calls(self, ids: Collection[str]) -> None:
        """Out of time: close what has not started."""
        self._calls.drop(ids)

    def run_out(self) -> None:
        """The time is up."""
        self._is_over = True

    async def add_steps(self, call_id: str, delegation: Delegation) -> None:
        """Take a recipe's next calls and judge them."""
        if not self.cancelled.is_set():
            self._calls_used += self._calls.add_steps(call_id, delegation)

    async def finish_call(self, call_id: str, settlement: Settlement) -> None:
        """Take how a call ended; one that was closed meanwhile stays as it is."""
        self._calls.finish(call_id, settlement)

    def watch_late(self, call_id: str, late: Awaitable[Any]) -> None:
        """Nobody could look at it any more."""

    async def close_calls(self) -> None:
        """Cancelled: close what has not started."""
        self._calls.close()

    async def halt(self, halt: HaltRun) -> bool:
        """Stop; nothing else can have changed."""
        self._close_step()
        error = self._error
        if halt.reason == HaltedReason.ERROR and error is None:
            error = self._last_error(halt)
        metadata = {key: value for key, value in halt.metadata.items() if key != "manual_tool_calls"}
        self._tell(events.RunHalted(halt.reason, halt.waiting, metadata, error, self._used(), self._result(halt)))
        return True

    def _result(self, halt: HaltRun) -> JSON:
        if halt.reason == HaltedReason.TERMINAL_TOOL:
            return self._calls.terminal_arguments()
        return self._output.value if self._output is not None else None

    def _last_error(self, halt: HaltRun) -> JSONObject:
        if halt.metadata.get("error") == "invalid_output" and self._output is not None:
            return {name: text for name, text in self._output.error().items() if name != "detail"}
        return {"code": "blank_answers", "message": "The model gave empty answers only."}

    def _seconds(self) -> float:
        seconds = self.setup.used.seconds + time.monotonic() - self._began
        return max(seconds, self.setup.limits.max_seconds or 0.0) if self._is_over else seconds

    def _streaks(self) -> Streaks:
        return self._past.after(self._calls.facts())

    def _used(self) -> Used:
        return Used(
            self._turns, self._calls_used, self._seconds(), self._usage, self._streaks(), self._calls.open_ids()
        )

    def _close_step(self) -> None:
        """Tell of the step once all its calls have what they will have for now."""
        if self._step_open and self._last is not None:
            results = (*self._calls.results(), *self._calls.steps())
            self._messages += results
            self._step_open = False
            self._tell(events.StepCompleted(self._turns, self._last, results))

    def _go_on(self, turn: OpenTurn) -> None:
        """Take up the last turn, whose recipes have results of steps."""
        self._messages, self._last, self._step_open = list(self.setup.messages[: turn.index + 1]), turn.message, True
        self._checked = not self.setup.asks_halt_when
        self._calls.go_on(turn)

    def _tell(self, event: events.StreamEvent) -> None:
        self.events.put_nowait(event)
