"""Running one started call: its handler, and the engine's word on an error (T12–T19, T25)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from allm_django.core.decide import TOOL_ERROR_EFFECT, WORD_EFFECT
from allm_django.core.encode import to_json, to_text
from allm_django.core.plans import Delegation
from allm_django.core.results import Halt
from allm_django.core.settle import CUT_SHORT, Ending, Settlement, settle_ending
from allm_django.core.states import CallState, Outcome
from allm_django.core.types import JSONObject
from allm_django.loop.journal import StartedCall
from allm_django.loop.options import LoopOptions
from allm_django.tools.binding import check_kind
from allm_django.tools.context import ToolContext
from allm_django.tools.execution import Execution, execute
from allm_django.tools.recipes import Planning
from allm_django.tools.registry import BoundHandler
from allm_django.tools.threads import SyncExecutor


async def run_handler(
    started: StartedCall, options: LoopOptions, stored: bool
) -> tuple[Settlement | Delegation, Awaitable[Execution] | None]:
    """Run it to its end or timeout. Gives the settlement and, after a timeout, what may still come; of a recipe that
    goes on its next steps, and the state ``executing`` of one whose direct handler is to do the work.
    """
    planning = _planning(started)
    execution = await execute(
        planning.bound if planning else _bound(started, options),
        started.call.arguments or {},
        started.context,
        timeout=started.timeout,
        executor=options.threads,
        encoder=options.encoder,
        cap=options.result_cap,
    )
    if planning and planning.next and execution.kind == "ok":
        going_on = planning.next
        return going_on if isinstance(going_on, Delegation) else Settlement(CallState.EXECUTING), None
    ending = Ending(
        execution.kind,
        execution.value,
        execution.content,
        execution.code,
        CUT_SHORT if started.is_cut_short and execution.kind == "timeout" else execution.message,
        execution.detail,
        execution.question,
        tuple(execution.options),
        execution.word,
    )
    settlement = settle_ending(
        started.call.id,
        ending,
        idempotent=started.repeatable,
        stored=stored,
        halt_on_error=options.on_tool_error == "halt" and not started.step_of,
    )
    if settlement.outcome is Outcome.FAILED and callable(options.on_tool_error) and not started.step_of:
        settlement = await _ask_policy(started, settlement, options.on_tool_error, options.threads)
    return settlement, execution.late


async def run_function(threads: SyncExecutor, function: Callable[..., Any], *args: Any) -> Any:
    """Call a host's function, async or not, off the loop; what it raises passes through."""
    if check_kind(function):
        return await function(*args)
    answer = await threads.run(function, *args)
    return await answer if inspect.isawaitable(answer) else answer


def _planning(started: StartedCall) -> Planning | None:
    if started.recipe is None or started.handler is None:
        return None
    return Planning(started.handler, started.recipe.shape, started.recipe.past)


def _bound(started: StartedCall, options: LoopOptions) -> BoundHandler | None:
    """The handler, wrapped in the engine's own executor if it has one (T25)."""
    if started.handler is None or options.executor is None:
        return started.handler
    executor, handler = options.executor, started.handler
    if not (handler.is_async or check_kind(executor)):
        return BoundHandler(lambda arguments, context: executor(handler.call, arguments, context), is_async=False)

    async def call(arguments: JSONObject, context: ToolContext) -> Any:
        result = executor(handler.call, arguments, context)
        return await result if inspect.isawaitable(result) else result

    return BoundHandler(call, is_async=True)


async def _ask_policy(
    started: StartedCall, settlement: Settlement, policy: Callable[..., Any], threads: SyncExecutor
) -> Settlement:
    """The engine's function on an error: a replacement result or Halt; its own failure halts (T19).

    The very result it was given, returned, stays as it is.
    """
    assert settlement.result is not None
    try:
        answer = await run_function(threads, policy, started.call, settlement.result)
        if answer is settlement.result:
            return settlement
        if isinstance(answer, Halt):
            value = to_json(answer.value)
            content = settlement.result.content if value is None else to_text(value)
            result = replace(settlement.result, value=value, content=content)
            return replace(settlement, effect=WORD_EFFECT + answer.reason, result=result)
        return replace(settlement, result=replace(settlement.result, value=to_json(answer), content=to_text(answer)))
    except Exception as error:
        detail = f"{settlement.result.detail}\non_tool_error raised {type(error).__name__}: {error}".strip()
        return replace(settlement, effect=TOOL_ERROR_EFFECT, result=replace(settlement.result, detail=detail))


def late_record(came: Any) -> JSONObject:
    """What came after all, as JSON for the staff's record: from an Execution, or a settlement and what follows it."""
    if isinstance(came, Execution):
        return {"kind": came.kind, "value": came.value, "message": came.message or came.question}
    settlement: Settlement = came[0]
    if settlement.result is None:
        return {"kind": str(settlement.state), "value": settlement.question, "message": ""}
    kind = "error" if settlement.result.is_error else "ok"
    return {"kind": kind, "value": settlement.result.value, "message": settlement.result.content}
