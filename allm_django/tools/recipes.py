"""``@recipe``: a tool whose function gives a plan of other tools' calls instead of doing the work itself (R02–R07)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, overload

from allm_django.core.plans import Delegation, PastStep, Plan, compose, next_steps
from allm_django.core.results import Halt
from allm_django.core.settle import halting_word
from allm_django.core.types import JSONObject
from allm_django.errors import ToolDefinitionError, ToolError
from allm_django.tools.binding import BoundHandler, bind
from allm_django.tools.context import ToolContext
from allm_django.tools.definition import define

F = TypeVar("F", bound=Callable[..., Any])


@overload
def recipe(function: F, /) -> F: ...


@overload
def recipe(*, direct: Callable[..., Any] | None = None, **options: Any) -> Callable[[F], F]: ...


def recipe(function: Any = None, /, *, direct: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a function a recipe: a tool that gives a :class:`Plan`, or None where there is nothing to plan.

    The function is pure: it is called again, with the same arguments, whenever the recipe goes on; a plan of another
    shape than before is an error result. ``direct``: a handler that does the work when the recipe gives None (R06).
    ``timeout`` bounds each such call and ``compose``, never the steps or the waiting. Other options as ``@tool``'s.
    Raises ToolDefinitionError, also for an async function.
    """

    def decorate(target: F) -> F:
        definition = define(target, **options)
        if definition.is_async:
            raise ToolDefinitionError(f"{definition.key}: async; a recipe only plans, so it is a plain def.")
        bound = replace(definition.bound, plans=True, direct=None if direct is None else _direct(direct))
        target.__allm_tool__ = replace(definition, bound=bound)  # type: ignore[attr-defined]
        return target

    return decorate if function is None else decorate(function)


def _direct(handler: Callable[..., Any]) -> BoundHandler:
    bound = bind(handler)
    if bound.plans:
        raise ToolDefinitionError("direct: a recipe; give a handler that does the work.", field="direct")
    return bound


class Planning:
    """One look at a recipe: asks for its plan, then for the next steps or the result. ``next`` is what comes of it."""

    def __init__(self, handler: BoundHandler, shape: str, past: tuple[PastStep, ...]) -> None:
        self.bound = BoundHandler(self._call, is_async=False)
        self.next: Delegation | BoundHandler | None = None
        self._handler, self._shape, self._past = handler, shape, past

    def _call(self, arguments: JSONObject, context: ToolContext) -> Any:
        for step in self._past:
            if word := halting_word(step.effect):
                return Halt(word, step.value)
        plan = self._handler.call(arguments, context)
        if plan is None and not self._shape:
            return self._run_directly()
        if not isinstance(plan, Plan) and plan is not None:
            raise ToolDefinitionError(f"The recipe gave {type(plan).__name__}; a Plan or None is needed.")
        shape = "" if plan is None else plan.shape
        if self._shape not in ("", shape):
            raise ToolError("The recipe gave another plan than before; its remaining steps were not run.")
        assert plan is not None
        steps = next_steps(plan, self._past)
        if not steps:
            return compose(plan, self._past)
        self.next = Delegation(shape, steps)
        return None

    def _run_directly(self) -> None:
        if self._handler.direct is None:
            raise ToolError("The recipe has no plan for this, and there is no other way to do it.")
        self.next = self._handler.direct
