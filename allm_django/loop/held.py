"""The calls of the present turn in memory, with the steps of its recipes: what becomes of them, and telling of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from allm_django.core import events
from allm_django.core.decide import TERMINAL_EFFECT, CallView
from allm_django.core.encode import to_text
from allm_django.core.plans import Delegation, PastStep
from allm_django.core.policy import NOT_RUNNABLE, Verdict, judge_step
from allm_django.core.settle import OUT_OF_TIME, Settlement, settle_closed, settle_delegated
from allm_django.core.states import CallState, Outcome
from allm_django.core.streaks import CallFact, call_key
from allm_django.core.types import JSONObject, Message, ToolCall, ToolResult, ToolSpec
from allm_django.errors import HistoryError
from allm_django.loop.journal import RecipeProgress, StartedCall
from allm_django.loop.setup import Setup
from allm_django.loop.steps import OpenTurn, is_recipe, past_step, step_id, step_message, step_spec
from allm_django.tools.context import ToolContext
from allm_django.tools.registry import bind

GONE = "The tool is not there any more. The call was not run."


@dataclass(slots=True)
class Held:
    """A call. ``shape``: a recipe's plan's; ``position``: a step's."""

    call: ToolCall
    state: CallState
    spec: ToolSpec | None = None
    effect: str = ""
    result: ToolResult | None = None
    key: str = ""
    shape: str = ""
    position: int = 0


class HeldCalls:
    """The calls by id, in order; ``tell`` hears what becomes of them."""

    def __init__(self, setup: Setup, tell: Callable[[events.StreamEvent], None]) -> None:
        self._setup, self._tell = setup, tell
        self._held: dict[str, Held] = {}

    def clear(self) -> None:
        """Another turn begins."""
        self._held = {}

    def take(self, call: ToolCall, verdict: Verdict, spec: ToolSpec | None, position: int = 0) -> None:
        """A new call with its verdict."""
        key = "" if call.parent else call_key(call.name, call.arguments, call.raw)
        self._held[call.id] = Held(
            call, verdict.state, spec, verdict.effect, verdict.result, key=key, position=position
        )
        if verdict.state is CallState.PENDING:
            self._tell(events.CallPending(call, verdict.why))
        elif verdict.result is not None:
            self._tell(events.CallSettled(call, str(verdict.outcome), verdict.result))

    # -- what becomes of them ------------------------------------------------------------------------------------

    def start(self, call_id: str) -> StartedCall | None:
        """Start a ready call, or look how far a recipe is; None for any other. One without a tool is closed."""
        held = self._held.get(call_id)
        if held is None or held.state not in (CallState.READY, CallState.DELEGATED):
            return None
        spec, call = held.spec, held.call
        if spec is None:
            self._settle(call_id, settle_closed(call_id, Outcome.UNAVAILABLE, GONE))
            return None
        handler = bind(spec.handler) if spec.handler is not None else None
        plans = handler is not None and handler.plans
        if held.state is CallState.READY:
            held.state = CallState.DELEGATED if plans else CallState.EXECUTING
            self._tell(events.CallStarted(call))
        recipe = RecipeProgress(held.shape, self._past_steps(call_id)) if plans else None
        step_of = self._held[call.parent].call.name if call.parent else ""
        context = self._context(call)
        return StartedCall(call, handler, context, spec.timeout, spec.idempotent, spec.sensitive, recipe, step_of)

    def _context(self, call: ToolCall) -> ToolContext:
        setup, loop = self._setup, asyncio.get_running_loop()

        def progress(fraction: float | None, text: str = "") -> None:
            loop.call_soon_threadsafe(self._tell, events.CallProgressed(call.id, fraction, text))

        return ToolContext(
            context=setup.context,
            session_id=None,
            tool_call=call,
            engine=setup.engine,
            request_id=setup.request_id,
            user=None,
            idempotency_key=f"{setup.request_id}-{call.id}",
            report=progress,
        )

    def add_steps(self, call_id: str, delegation: Delegation) -> int:
        """Take a recipe's next calls and judge them; how many there are. None of one that was closed meanwhile."""
        recipe = self._held[call_id]
        if recipe.state is not CallState.DELEGATED:
            return 0
        recipe.shape = delegation.shape
        for step in delegation.steps:
            id_, spec = step_id(call_id, step.position), step_spec(step, self._setup.tools)
            offer = self._setup.offer
            verdict = judge_step(id_, step, spec, offer.mode, recipe=is_recipe(spec), rules=offer.rules)
            call = ToolCall(id_, step.name, verdict.arguments, parent=call_id, label=step.label)
            self.take(call, verdict, spec, step.position)
        return len(delegation.steps)

    def finish(self, call_id: str, settlement: Settlement) -> None:
        """A call has ended; one that was closed meanwhile stays as it is."""
        if self._held[call_id].state in (CallState.EXECUTING, CallState.DELEGATED):
            self._settle(call_id, settlement)

    def drop(self, ids: Collection[str]) -> None:
        """Out of time: close what has not started."""
        for call_id in ids:
            self._settle(call_id, settle_closed(call_id, Outcome.UNAVAILABLE, OUT_OF_TIME))

    def close(self) -> None:
        """Cancelled: close what has not started."""
        for call_id, held in self._held.items():
            if held.state in (CallState.READY, CallState.PENDING, CallState.ASKING):
                self._settle(call_id, settle_closed(call_id, Outcome.CANCELLED))
            elif held.state is CallState.DELEGATED:
                self._settle(call_id, settle_delegated(call_id, Outcome.CANCELLED))

    def _settle(self, call_id: str, settlement: Settlement) -> None:
        held = self._held[call_id]
        held.state, held.effect, held.result = settlement.state, settlement.effect, settlement.result
        if settlement.question is not None:
            question, options = settlement.question["text"], tuple(settlement.question["options"])
            self._tell(events.CallAsked(held.call, question, options))
        elif settlement.result is not None:
            self._tell(events.CallSettled(held.call, str(settlement.outcome), settlement.result))

    def go_on(self, turn: OpenTurn) -> None:
        """Take up a turn whose recipes have results of steps. Raises HistoryError for steps of what is no recipe."""
        for call in turn.message.calls:
            spec, given = self._setup.tools.get(call.name), turn.results.get(call.id)
            self._held[call.id] = held = Held(call, CallState.DELEGATED, spec)
            if given is not None:
                held.state = CallState.SETTLED
                held.result = ToolResult(call.id, given.content, given.content, "error" if given.is_error else "")
                continue
            if not is_recipe(spec):
                raise HistoryError(f"messages: {call.id!r} has results of steps, but it is no recipe's call.")
            held.shape = turn.shape(call.id)
            for past in turn.past(call.id):
                id_ = step_id(call.id, past.position)
                result = ToolResult(id_, past.value, to_text(past.value), "error" if past.error else "", past.error)
                step = ToolCall(id_, "", parent=call.id)
                self._held[id_] = Held(step, CallState.SETTLED, None, past.effect, result, position=past.position)

    # -- looking ---------------------------------------------------------------------------------------------------

    def views(self) -> tuple[CallView, ...]:
        """As the brain sees them."""
        return tuple(CallView(key, held.state, held.effect, held.call.parent) for key, held in self._held.items())

    def facts(self) -> list[CallFact]:
        """As streaks look at them; recipes' steps and a turn that is gone on with leave those alone."""
        return [
            CallFact(held.key, held.result is not None and held.result.code in NOT_RUNNABLE)
            for held in self._held.values()
            if held.key
        ]

    def open_ids(self) -> tuple[str, ...]:
        """Those that have no result."""
        return tuple(key for key, held in self._held.items() if held.result is None)

    def terminal_arguments(self) -> JSONObject | None:
        """The arguments of the call that ended the loop."""
        return next(held for held in self._held.values() if held.effect == TERMINAL_EFFECT).call.arguments

    def results(self) -> tuple[Message, ...]:
        """The results of the model's own calls, as messages."""
        return tuple(
            Message("tool", held.result.content, tool_call_id=key, is_error=held.result.is_error)
            for key, held in self._held.items()
            if held.result is not None and not held.call.parent
        )

    def steps(self) -> Iterator[Message]:
        """The results of the steps of recipes that go on another time."""
        for held in self._held.values():
            recipe = self._held.get(held.call.parent)
            if recipe is not None and recipe.state is not CallState.SETTLED and held.result is not None:
                past = past_step(held.position, held.result, held.effect)
                yield step_message(past, recipe.call.id, held.result, recipe.shape)

    def _past_steps(self, call_id: str) -> tuple[PastStep, ...]:
        steps = [held for held in self._held.values() if held.call.parent == call_id]
        return tuple(past_step(held.position, held.result, held.effect) for held in steps if held.result is not None)
