"""The in-memory journal: a run kept as plain values, told as a stream of events (L02)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from allm_django.core import events
from allm_django.core.compact import shown
from allm_django.core.decide import TERMINAL_EFFECT, CallView, HaltRun, Snapshot
from allm_django.core.history import NUDGE, in_request_order, is_rejection
from allm_django.core.ids import usable_ids
from allm_django.core.output import Output, formatting
from allm_django.core.policy import NOT_RUNNABLE, Offer, Verdict, judge
from allm_django.core.settle import Settlement, settle_closed
from allm_django.core.states import CallState, HaltedReason, Outcome
from allm_django.core.streaks import CallFact, Streaks, Used, call_key
from allm_django.core.types import JSON, JSONObject, Limits, Message, ModelRequest, ToolCall, ToolResult, ToolSpec
from allm_django.errors import AllmError
from allm_django.loop.journal import StartedCall, Step
from allm_django.providers.base import CallDelta, Delta, Finished, TextDelta, ThinkingDelta
from allm_django.tools.context import ToolContext
from allm_django.tools.registry import bind


@dataclass(slots=True)
class _Call:
    """A call of the present turn."""

    call: ToolCall
    state: CallState
    spec: ToolSpec | None = None
    effect: str = ""
    result: ToolResult | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Setup:
    """What one stateless run is made of, checked and resolved."""

    messages: tuple[Message, ...]
    offer: Offer
    limits: Limits
    system: str = ""
    tool_choice: str = "auto"
    params: JSONObject = field(default_factory=dict)
    context: Any = None
    engine: str = ""
    asks_halt_when: bool = False
    used: Used = field(default_factory=Used)
    output: Output | None = None
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)


class MemoryJournal:
    """Keeps a run in memory; what happens is put on ``events``."""

    stored = False

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.events: asyncio.Queue[events.StreamEvent | None] = asyncio.Queue()
        self.woken = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._messages = list(setup.messages)
        self._calls: dict[str, _Call] = {}
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
        self._output = setup.output
        self._names: dict[int, str] = {}
        self._tell(events.RunStarted(setup.request_id))

    async def load(self) -> Snapshot:
        """Where the run stands."""
        self.woken.clear()
        last = self._last
        return Snapshot(
            limits=self.setup.limits,
            calls=tuple(CallView(key, call.state, call.effect) for key, call in self._calls.items()),
            turns=self._turns,
            blanks=self._blanks,
            answered=last is not None and bool(last.content) and not last.calls,
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
        self._past, self._calls = self._streaks(), {}
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
        self._blanks = 0 if finished.text or calls else self._blanks + 1
        self._tell(events.MessageCompleted(message))
        self._calls = {}
        for call, verdict in zip(calls, verdicts, strict=True):
            self._take_call(call, verdict)

    async def break_message(self, text: str, thinking: str, error: AllmError | None, *, failed: bool) -> None:
        """Keep what came, marked; with ``failed`` the run ends in error."""
        message = Message("assistant", text, complete=False, thinking=thinking)
        if text:
            self._messages.append(message)
        self._last, self._calls = None, {}
        if failed and error is not None:
            self._error = {"code": error.code, "message": error.message}
        self._tell(events.MessageBroken(message))

    async def last_step(self) -> Step:
        """The step that just ended."""
        assert self._last is not None
        return Step(self._turns, self._last, self._result_messages())

    def check_step(self, verdict: bool, error: str) -> None:
        """Take the verdict on the last step."""
        self._checked, self._halt_when = True, verdict
        if error:
            self._error = {"code": "halt_when", "message": error}

    async def start_call(self, call_id: str) -> StartedCall | None:
        """Start a ready call."""
        entry = self._calls.get(call_id)
        if entry is None or entry.state is not CallState.READY or entry.spec is None:
            return None
        entry.state = CallState.EXECUTING
        self._tell(events.CallStarted(entry.call))
        spec, setup = entry.spec, self.setup
        loop = asyncio.get_running_loop()

        def progress(fraction: float | None, text: str = "") -> None:
            loop.call_soon_threadsafe(self._tell, events.CallProgressed(call_id, fraction, text))

        context = ToolContext(
            context=setup.context,
            session_id=None,
            tool_call=entry.call,
            engine=setup.engine,
            request_id=setup.request_id,
            user=None,
            idempotency_key=f"{setup.request_id}-{call_id}",
            report=progress,
        )
        handler = bind(spec.handler) if spec.handler is not None else None
        return StartedCall(entry.call, handler, context, spec.timeout, spec.idempotent, spec.sensitive)

    async def finish_call(self, call_id: str, settlement: Settlement) -> None:
        """Take how a call ended."""
        entry = self._calls[call_id]
        entry.state, entry.effect, entry.result = settlement.state, settlement.effect, settlement.result
        if settlement.question is not None:
            question, options = settlement.question["text"], tuple(settlement.question["options"])
            self._tell(events.CallAsked(entry.call, question, options))
        elif settlement.result is not None:
            self._tell(events.CallSettled(entry.call, str(settlement.outcome), settlement.result))

    def watch_late(self, call_id: str, late: Awaitable[Any]) -> None:
        """Nobody could look at it any more."""

    async def close_calls(self) -> None:
        """Cancelled: close what has not started."""
        for call_id, entry in self._calls.items():
            if entry.state in (CallState.READY, CallState.PENDING, CallState.ASKING):
                await self.finish_call(call_id, settle_closed(call_id, Outcome.CANCELLED))

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
            entry = next(entry for entry in self._calls.values() if entry.effect == TERMINAL_EFFECT)
            return entry.call.arguments
        return self._output.value if self._output is not None else None

    def _last_error(self, halt: HaltRun) -> JSONObject:
        if halt.metadata.get("error") == "invalid_output" and self._output is not None:
            return {name: text for name, text in self._output.error().items() if name != "detail"}
        return {"code": "blank_answers", "message": "The model gave empty answers only."}

    def _seconds(self) -> float:
        return self.setup.used.seconds + time.monotonic() - self._began

    def _streaks(self) -> Streaks:
        """Those before this turn, and its calls."""
        return self._past.after([_fact(entry) for entry in self._calls.values()]) if self._calls else self._past

    def _used(self) -> Used:
        pending = tuple(key for key, entry in self._calls.items() if entry.result is None)
        return Used(self._turns, self._calls_used, self._seconds(), self._usage, self._streaks(), pending)

    def _take_call(self, call: ToolCall, verdict: Verdict) -> None:
        spec = self.setup.offer.tools.get(call.name)
        key = call_key(call.name, call.arguments, call.raw)
        self._calls[call.id] = _Call(call, verdict.state, spec, verdict.effect, verdict.result, key)
        if verdict.state is CallState.PENDING:
            self._tell(events.CallPending(call, verdict.why))
        elif verdict.result is not None:
            self._tell(events.CallSettled(call, str(verdict.outcome), verdict.result))

    def _close_step(self) -> None:
        """Tell of the step once all its calls have what they will have for now."""
        if self._step_open and self._last is not None:
            results = self._result_messages()
            self._messages += results
            self._step_open = False
            self._tell(events.StepCompleted(self._turns, self._last, results))

    def _result_messages(self) -> tuple[Message, ...]:
        found = [(key, entry.result) for key, entry in self._calls.items() if entry.result is not None]
        return tuple(
            Message("tool", result.content, tool_call_id=key, is_error=result.is_error) for key, result in found
        )

    def _tell(self, event: events.StreamEvent) -> None:
        self.events.put_nowait(event)


def decisions_in(messages: Sequence[Message], pending: Sequence[str]) -> Iterator[bool]:
    """Of the calls that waited, in order: whether a person rejected each, as its result tells."""
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    yield from (is_rejection(results[call_id]) for call_id in pending if call_id in results)


def _fact(entry: _Call) -> CallFact:
    return CallFact(entry.key, entry.result is not None and entry.result.code in NOT_RUNNABLE)


def replace_tools(tools: Sequence[ToolSpec], extra: Sequence[ToolSpec]) -> list[ToolSpec]:
    """``extra`` over ``tools``: the same name replaces in place, others are appended (L16)."""
    by_name = {spec.name: spec for spec in extra}
    kept = [by_name.pop(spec.name, spec) for spec in tools]
    return [*kept, *(replace(spec) for spec in extra if spec.name in by_name)]
