"""Trying a tool by hand, from the admin (M03): no session and no model, but the handler runs for real."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from asgiref.sync import async_to_sync

from allm_django import access
from allm_django.conf import conf
from allm_django.core.arguments import parse_arguments
from allm_django.core.encode import to_text
from allm_django.core.plans import Delegation
from allm_django.core.schema import compile_schema
from allm_django.core.settle import Settlement, halting_word
from allm_django.core.states import CallState
from allm_django.core.types import JSONObject, ToolCall
from allm_django.errors import ConflictError, NotAllowedError
from allm_django.loop.calling import run_handler
from allm_django.loop.environment import threads
from allm_django.loop.journal import RecipeProgress, StartedCall
from allm_django.loop.options import LoopOptions
from allm_django.models import Tool
from allm_django.store import keys
from allm_django.store.tool_floor import definition_of, missing_text
from allm_django.tools.context import ToolContext
from allm_django.tools.registry import ToolDefinition


@dataclass(frozen=True, slots=True)
class Tried:
    """How a try ended: ``kind`` is ok, error, ask, halt or plan; ``content`` what a model would be given of it.

    ``detail`` is for staff only (a traceback); ``word`` the reason of a halt; ``options`` those of a question.
    """

    kind: str
    content: str
    seconds: float
    detail: str = ""
    word: str = ""
    options: tuple[str, ...] = ()


def read_arguments(tool: Tool, text: str) -> tuple[JSONObject | None, list[str]]:
    """The arguments in ``text`` and what is wrong with them, as a model would be told."""
    arguments, problem = parse_arguments(text)
    if arguments is None:
        return None, [problem]
    return arguments, [each.message for each in compile_schema(tool.schema).errors(arguments)]


def takes_care(tool: Tool) -> bool:
    """Whether whoever tries it has to confirm that it runs for real: it is manual, or not safe to repeat."""
    definition = definition_of(tool)
    return (
        definition is None or tool.manual or definition.manual_fixed or not (tool.idempotent and definition.idempotent)
    )


def try_tool(tool: Tool, arguments: JSONObject, *, by: Any, key: UUID, started: Callable[[], None]) -> Tried:
    """Run the handler once with ``arguments``, which fit; ``started`` puts that on record before it does.

    Raises NotAllowedError for who may not, or for a tool that no single person may run; ConflictError when this very
    try (``key``) was made before; InvalidInputError for arguments or a handler that can't be.
    """
    access.check_try(by, tool)
    definition = definition_of(tool)
    if definition is None:
        raise NotAllowedError(missing_text(tool))
    try:
        keys.take(by, f"try-{key}", keys.fingerprint("try", tool.pk, tool.version, arguments), uuid4())
    except (keys.DuplicateRequestError, ConflictError):
        raise ConflictError(
            "This form was sent before, and is not run twice. Open the page anew to try again."
        ) from None
    started()
    begun = time.monotonic()
    ended = async_to_sync(_run)(tool, definition, arguments, by, f"try-{key}")
    return _tried(ended, time.monotonic() - begun)


async def _run(tool: Tool, definition: ToolDefinition, arguments: JSONObject, user: Any, id: str) -> Any:
    call = ToolCall(id, tool.name, arguments)
    started = StartedCall(
        call,
        definition.bound,
        ToolContext(None, None, call, user=user, idempotency_key=id),
        tool.timeout,
        tool.idempotent,
        recipe=RecipeProgress() if definition.bound.plans else None,
    )
    options = LoopOptions(threads(), result_cap=conf().RESULT_CAP)
    ended, _late = await run_handler(started, options, stored=False)
    if isinstance(ended, Settlement) and ended.state is CallState.EXECUTING:  # a recipe without a plan for this (R06)
        direct = replace(started, recipe=None, handler=definition.bound.direct)
        ended, _late = await run_handler(direct, options, stored=False)
    return ended


def _tried(ended: Settlement | Delegation, seconds: float) -> Tried:
    if isinstance(ended, Delegation):
        return Tried("plan", to_text([{"tool": s.name, "arguments": s.arguments} for s in ended.steps]), seconds)
    if ended.state is CallState.ASKING and ended.question is not None:
        return Tried("ask", ended.question["text"], seconds, options=tuple(ended.question["options"]))
    assert ended.result is not None
    kind = "error" if ended.result.is_error else "ok"
    word = halting_word(ended.effect)
    return Tried("halt" if word else kind, ended.result.content, seconds, ended.result.detail, word)
