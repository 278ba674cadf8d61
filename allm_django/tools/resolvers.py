"""Where tools come from: the protocol that a host project can write, and an ordered list of them (R01, R02, R08)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from allm_django.core.plans import Plan
from allm_django.core.types import JSONObject, ToolCall, ToolSpec
from allm_django.errors import ToolDefinitionError
from allm_django.tools.binding import BoundHandler, check_kind
from allm_django.tools.context import ToolContext
from allm_django.tools.registry import spec_of, unique


@runtime_checkable
class Resolver(Protocol):
    """Tools from anywhere: another service, a table, a file. Used in ``tools=`` of the stateless use."""

    def available_tools(self) -> Sequence[ToolSpec]:
        """What can be offered now; a spec's own ``handler``, if it has one, goes before :meth:`resolve`."""

    def resolve(self, call: ToolCall) -> Any:
        """Run a call and give its result, as a handler does (plain value, AskUser, Halt; ToolError); may be async."""

    def dispatch_recipe(self, name: str) -> Callable[[JSONObject], Plan | None] | None:
        """The pure function that plans calls of the tool ``name``, or None: :meth:`resolve` runs them."""


def specs_from(tools: Any) -> tuple[ToolSpec, ...]:
    """The tools of a resolver, or of a list of tools and resolvers: the first of a name wins (R08).

    Tools that are listed themselves must have different names (T04). Raises ToolDefinitionError.
    """
    given = [tools] if isinstance(tools, Resolver) else tools or ()
    listed = [tool if isinstance(tool, Resolver) else spec_of(tool) for tool in given]
    unique(tool for tool in listed if isinstance(tool, ToolSpec))
    found: dict[str, ToolSpec] = {}
    for tool in listed:
        for spec in (tool,) if isinstance(tool, ToolSpec) else _offered(tool):
            found.setdefault(spec.name, spec)
    return tuple(found.values())


class ResolvedTool:
    """A resolver's tool as a handler."""

    def __init__(self, resolver: Resolver, recipe: Callable[[JSONObject], Plan | None] | None) -> None:
        run = BoundHandler(lambda arguments, ctx: resolver.resolve(_call(arguments, ctx)), check_kind(resolver.resolve))
        self.bound = run
        if recipe is not None:
            self.bound = BoundHandler(lambda arguments, ctx: recipe(arguments), is_async=False, plans=True, direct=run)

    def __call__(self, arguments: JSONObject, ctx: ToolContext) -> Any:
        """Run it."""
        return self.bound.call(arguments, ctx)


def _call(arguments: JSONObject, ctx: ToolContext) -> ToolCall:
    return replace(ctx.tool_call, arguments=arguments)


def _offered(resolver: Resolver) -> Iterable[ToolSpec]:
    for spec in unique(resolver.available_tools()):
        if not isinstance(spec, ToolSpec):
            raise ToolDefinitionError(f"tools: a resolver offers {type(spec).__name__}; a ToolSpec is needed.")
        recipe = resolver.dispatch_recipe(spec.name)
        if recipe is not None and inspect.iscoroutinefunction(recipe):
            raise ToolDefinitionError(f"dispatch_recipe: the recipe of {spec.name!r} is async; it only plans.")
        if recipe is not None or spec.handler is None:
            spec = replace(spec, handler=ResolvedTool(resolver, recipe))
        yield spec
