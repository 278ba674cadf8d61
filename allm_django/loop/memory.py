"""The in-memory journal: a run kept as plain values, told as a stream of events (L02)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from allm_django.core import events
from allm_django.core.compact import shown
from allm_django.core.decide import TERMINAL_EFFECT, CallView, HaltRun, Snapshot
from allm_django.core.encode import to_text
from allm_django.core.history import NUDGE, decisions_in, in_request_order
from allm_django.core.ids import usable_ids
from allm_django.core.output import Output, formatting
from allm_django.core.plans import Delegation, PastStep
from allm_django.core.policy import NOT_RUNNABLE, Offer, Verdict, judge, judge_step
from allm_django.core.settle import OUT_OF_TIME, Settlement, settle_closed, settle_delegated
from allm_django.core.states import CallState, HaltedReason, Outcome
from allm_django.core.streaks import CallFact, Streaks, Used, call_key
from allm_django.core.types import JSON, JSONObject, Limits, Message, ModelRequest, ToolCall, ToolResult, ToolSpec
from allm_django.core.usage import Usage
from allm_django.errors import AllmError, HistoryError
from allm_django.loop.journal import RecipeProgress, StartedCall, Step
from allm_django.loop.steps import OpenTurn, is_recipe, open_turn, past_step, step_id, step_message, step_spec
from allm_django.providers.base import CallDelta, Delta, Finished, TextDelta, ThinkingDelta
from allm_django.tools.context import ToolContext
from allm_django.tools.registry import bind


@dataclass(slots=True)
class _Call:
    """A call of the present turn. ``shape``: a recipe's plan's; ``position``: a step's."""

    call: ToolCall
    state: CallState
    spec: ToolSpec | None = None
    effect: str = ""
    result: ToolResult | None = None
    key: str = ""
    shape: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True)
class Setup:
    """What one stateless run is made of, checked and resolved."""

    messages: tuple[Message, ...]
    offer: Offer
    limits: Limits
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
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
            calls=tuple(CallView(key, call.state, call.effect, call.call.parent) for key, call in self._calls.items()),
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
        self._blanks = 0 if finished.text.strip() or calls else self._blanks + 1
        self._tell(events.MessageCompleted(message))
        self._calls = {}
        for call, verdict in zip(calls, verdicts, strict=True):
            self._take_call(_Call(call, verdict.state, self.setup.offer.tools.get(call.name)), verdict)

    async def break_message(self, text: str, thinking: str, error: AllmError | None, *, failed: bool) -> None:
        """Keep what came, marked; with ``failed`` the run ends in error."""
        message = Message("assistant", text, complete=False, thinking=thinking)
        if text:
            self._messages.append(message)
        if text or thinking:
            self._usage += Usage()  # what it cost is unknown
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
        if entry is None or entry.spec is None or entry.state not in (CallState.READY, CallState.DELEGATED):
            return None
        spec, setup = entry.spec, self.setup
        handler = bind(spec.handler) if spec.handler is not None else None
        plans = handler is not None and handler.plans
        if entry.state is CallState.READY:
            entry.state = CallState.DELEGATED if plans else CallState.EXECUTING
            self._tell(events.CallStarted(entry.call))
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
        recipe = RecipeProgress(entry.shape, self._past_steps(call_id)) if plans else None
        step = bool(entry.call.parent)
        return StartedCall(entry.call, handler, context, spec.timeout, spec.idempotent, spec.sensitive, recipe, step)

    async def drop_calls(self, ids: Collection[str]) -> None:
        """Out of time: close what has not started."""
        for call_id in ids:
            self._settle(call_id, settle_closed(call_id, Outcome.UNAVAILABLE, OUT_OF_TIME))

    def run_out(self) -> None:
        """The time is up."""
        self._is_over = True

    async def add_steps(self, call_id: str, delegation: Delegation) -> None:
        """Take a recipe's next calls and judge them."""
        recipe = self._calls[call_id]
        if recipe.state is not CallState.DELEGATED or self.cancelled.is_set():
            return
        recipe.shape = delegation.shape
        for step in delegation.steps:
            id_, spec = step_id(call_id, step.position), step_spec(step, self.setup.tools)
            verdict = judge_step(id_, step, spec, self.setup.offer.mode, recipe=is_recipe(spec))
            call = ToolCall(id_, step.name, verdict.arguments, parent=call_id, label=step.label)
            self._calls_used += 1
            self._take_call(_Call(call, verdict.state, spec, position=step.position), verdict)

    async def finish_call(self, call_id: str, settlement: Settlement) -> None:
        """Take how a call ended; one that was closed meanwhile stays as it is."""
        if self._calls[call_id].state in (CallState.EXECUTING, CallState.DELEGATED):
            self._settle(call_id, settlement)

    def _settle(self, call_id: str, settlement: Settlement) -> None:
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
                self._settle(call_id, settle_closed(call_id, Outcome.CANCELLED))
            elif entry.state is CallState.DELEGATED:
                self._settle(call_id, settle_delegated(call_id, Outcome.CANCELLED))

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
        seconds = self.setup.used.seconds + time.monotonic() - self._began
        return max(seconds, self.setup.limits.max_seconds or 0.0) if self._is_over else seconds

    def _streaks(self) -> Streaks:
        """Those before this turn, and its calls; recipes' steps and a turn that is gone on with leave them alone."""
        return self._past.after([_fact(entry) for entry in self._calls.values() if entry.key])

    def _used(self) -> Used:
        pending = tuple(key for key, entry in self._calls.items() if entry.result is None)
        return Used(self._turns, self._calls_used, self._seconds(), self._usage, self._streaks(), pending)

    def _take_call(self, entry: _Call, verdict: Verdict) -> None:
        call = entry.call
        entry.effect, entry.result = verdict.effect, verdict.result
        entry.key = "" if call.parent else call_key(call.name, call.arguments, call.raw)
        self._calls[call.id] = entry
        if verdict.state is CallState.PENDING:
            self._tell(events.CallPending(call, verdict.why))
        elif verdict.result is not None:
            self._tell(events.CallSettled(call, str(verdict.outcome), verdict.result))

    def _close_step(self) -> None:
        """Tell of the step once all its calls have what they will have for now."""
        if self._step_open and self._last is not None:
            results = (*self._result_messages(), *self._step_messages())
            self._messages += results
            self._step_open = False
            self._tell(events.StepCompleted(self._turns, self._last, results))

    def _result_messages(self) -> tuple[Message, ...]:
        found = [
            (key, entry.result)
            for key, entry in self._calls.items()
            if entry.result is not None and not entry.call.parent
        ]
        return tuple(
            Message("tool", result.content, tool_call_id=key, is_error=result.is_error) for key, result in found
        )

    def _step_messages(self) -> Iterator[Message]:
        """The results of the steps of recipes that go on another time."""
        for entry in self._calls.values():
            recipe = self._calls.get(entry.call.parent)
            if recipe is not None and recipe.state is not CallState.SETTLED and entry.result is not None:
                past = past_step(entry.position, entry.result, entry.effect)
                yield step_message(past, recipe.call.id, entry.result, recipe.shape)

    def _past_steps(self, call_id: str) -> tuple[PastStep, ...]:
        steps = [entry for entry in self._calls.values() if entry.call.parent == call_id]
        return tuple(
            past_step(entry.position, entry.result, entry.effect) for entry in steps if entry.result is not None
        )

    def _go_on(self, turn: OpenTurn) -> None:
        """Take up the last turn, whose recipes have results of steps."""
        self._messages, self._last, self._step_open = list(self.setup.messages[: turn.index + 1]), turn.message, True
        self._checked = not self.setup.asks_halt_when
        for call in turn.message.calls:
            spec, given = self.setup.tools.get(call.name), turn.results.get(call.id)
            self._calls[call.id] = entry = _Call(call, CallState.DELEGATED, spec)
            if given is not None:
                entry.state = CallState.SETTLED
                entry.result = ToolResult(call.id, given.content, given.content, "error" if given.is_error else "")
                continue
            if not is_recipe(spec):
                raise HistoryError(f"messages: {call.id!r} has results of steps, but it is no recipe's call.")
            entry.shape = turn.shape(call.id)
            for past in turn.past(call.id):
                id_ = step_id(call.id, past.position)
                step = ToolCall(id_, "", parent=call.id)
                code = "error" if past.error else ""
                result = ToolResult(id_, past.value, to_text(past.value), code, past.error)
                self._calls[id_] = _Call(step, CallState.SETTLED, None, past.effect, result, position=past.position)

    def _tell(self, event: events.StreamEvent) -> None:
        self.events.put_nowait(event)


def _fact(entry: _Call) -> CallFact:
    return CallFact(entry.key, entry.result is not None and entry.result.code in NOT_RUNNABLE)
