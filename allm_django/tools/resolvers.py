"""Where tools come from: the protocol that a host project can write, and an ordered list of them (R01, R02, R08)."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from allm_django.core.plans import Plan
from allm_django.core.schema import lint
from allm_django.core.types import JSONObject, ToolSpec
from allm_django.errors import ToolDefinitionError
from allm_django.logs import get_logger
from allm_django.tools.binding import BoundHandler, bind, bind_plain
from allm_django.tools.context import ToolContext
from allm_django.tools.definition import ToolDefinition, title_of
from allm_django.tools.options import plain, sensitive_names
from allm_django.tools.registry import spec_of, unique

FRESH = 1.0  # seconds for which a resolver of the settings is not asked again what it offers

logger = get_logger("allm_django")


@runtime_checkable
class Resolver(Protocol):
    """Tools from anywhere: another service, a table, a file. In ``tools=`` of the stateless use, or in
    ``ALLM["RESOLVERS"]`` for stored sessions.
    """

    def available_tools(self) -> Sequence[ToolSpec]:
        """What can be offered now; a spec's own ``handler``, if it has one, goes before :meth:`resolve`."""

    @property
    def resolve(self) -> Callable[..., Any]:
        """``resolve(call)`` or ``resolve(call, ctx)`` runs a ToolCall and gives its result, as a handler does (plain
        value, AskUser, Halt; ToolError); may be async.
        """

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

    def __init__(self, name: str, resolver: Resolver, recipe: Callable[[JSONObject], Plan | None] | None) -> None:
        resolve: Any = bind_plain(resolver.resolve)

        def call(arguments: JSONObject, ctx: ToolContext) -> Any:
            return resolve.call(replace(ctx.tool_call, name=name, arguments=arguments), ctx)

        self.bound = run = BoundHandler(call, resolve.is_async)
        if recipe is not None:
            self.bound = BoundHandler(lambda arguments, ctx: recipe(arguments), is_async=False, plans=True, direct=run)

    def __call__(self, arguments: JSONObject, ctx: ToolContext) -> Any:
        """Run it."""
        return self.bound.call(arguments, ctx)


class ResolverSource:
    """A resolver in the registry: its tools are handlers with keys ``<path>:<name>``, for rows to name as any other.

    It is asked at most once a second. If it fails, its last answer stands, and ``problem`` says what went wrong.
    """

    def __init__(self, path: str, resolver: Resolver) -> None:
        self.path, self.problem = path, ""
        self._resolver = resolver
        self._known: dict[str, ToolDefinition] = {}
        self._until = 0.0

    def definitions(self) -> Mapping[str, ToolDefinition]:
        """What it offers now, by key."""
        if time.monotonic() >= self._until:
            self._ask()
            self._until = time.monotonic() + FRESH
        return self._known

    def _ask(self) -> None:
        try:
            tools = [_definition(self.path, spec) for spec in _offered(self._resolver)]
            self._known, self.problem = {tool.key: tool for tool in tools}, ""
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
            logger.warning("The tools of %s could not be had: %s", self.path, self.problem, exc_info=True)


def _definition(path: str, spec: ToolSpec) -> ToolDefinition:
    lint(spec.schema)
    return ToolDefinition(
        key=f"{path}:{spec.name}",
        name=spec.name,
        title=spec.title or title_of(spec.name),
        description=spec.description or spec.title or title_of(spec.name),
        schema=plain(spec.schema, "schema"),
        function=spec.handler,  # type: ignore[arg-type]
        bound=bind(spec.handler),
        manual=spec.manual,
        manual_fixed=spec.manual,
        timeout=spec.timeout,
        idempotent=spec.idempotent,
        sensitive=sensitive_names(spec.sensitive, spec.schema),
        metadata=plain(spec.metadata, "metadata"),
        compact=spec.compact,
        summary=spec.summary,
    )


def _offered(resolver: Resolver) -> Iterable[ToolSpec]:
    for spec in unique(resolver.available_tools()):
        if not isinstance(spec, ToolSpec):
            raise ToolDefinitionError(f"tools: a resolver offers {type(spec).__name__}; a ToolSpec is needed.")
        recipe = resolver.dispatch_recipe(spec.name)
        if recipe is not None and inspect.iscoroutinefunction(recipe):
            raise ToolDefinitionError(f"dispatch_recipe: the recipe of {spec.name!r} is async; it only plans.")
        if recipe is not None or spec.handler is None:
            spec = replace(spec, handler=ResolvedTool(spec.name, resolver, recipe))
        yield spec
