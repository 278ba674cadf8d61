"""What code has registered. A handler is found here by key, by equality, or not at all: a text that came from the
database, an admin form or a model is never imported (security rows 1–5).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from allm_django.core.types import ToolSpec
from allm_django.errors import ConfigurationError, ToolDefinitionError
from allm_django.tools.binding import BoundHandler, bind
from allm_django.tools.definition import ToolDefinition, define, tool
from allm_django.tools.sources import Source, Sources

__all__ = [
    "BoundHandler",
    "Registry",
    "ToolDefinition",
    "bind",
    "define",
    "register",
    "registry",
    "spec_of",
    "tool",
    "unique",
]

F = TypeVar("F", bound=Callable[..., Any])
FunctionKind: TypeAlias = Literal["halt_when", "on_tool_error", "encoder", "executor"]


def key_of(function: Callable[..., Any]) -> str:
    """The key under which ``function`` is registered: ``module.qualname``."""
    return f"{function.__module__}.{function.__qualname__}"


def register(kind: FunctionKind) -> Callable[[F], F]:
    """Offer a function to the admin's engines, as ``halt_when``, ``on_tool_error``, ``encoder`` or ``executor``."""
    if kind not in get_args(FunctionKind):
        raise ToolDefinitionError(f"kind: {kind!r} is not one of {', '.join(get_args(FunctionKind))}.", field="kind")

    def decorate(function: F) -> F:
        if not isinstance(function, FunctionType):
            raise ToolDefinitionError(f"@register: {type(function).__name__} given; it goes on a function.")
        function.__allm_kinds__ = (*getattr(function, "__allm_kinds__", ()), kind)  # type: ignore[attr-defined]
        return function

    return decorate


class Registry:
    """Tools and named functions by key. Filled at start-up, then frozen; safe to read from any thread.

    ``sources`` are asked each time: what a host's resolver offers may change.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, ToolDefinition] = {}  # replaced, never changed, so that readers need no lock
        self._functions: dict[tuple[str, str], Callable[..., Any]] = {}
        self.sources = Sources()
        self.frozen = False

    def register_module(self, module: ModuleType) -> None:
        """Take the decorated module-level functions that ``module`` itself defines; what it only imports is ignored.

        Raises ToolDefinitionError for a decorated lambda or nested function and for two tools of one name,
        ConfigurationError when frozen.
        """
        with self._lock:
            if self.frozen:
                raise ConfigurationError(f"{module.__name__}: the registry is frozen once Django has started.")
            for value in [*vars(module).values()]:
                definition, kinds = getattr(value, "__allm_tool__", None), getattr(value, "__allm_kinds__", ())
                if not (isinstance(value, FunctionType) and value.__module__ == module.__name__):
                    continue
                if definition is not None or kinds:
                    _check_home(value, module)
                if isinstance(definition, ToolDefinition):
                    self._add(definition)
                self._functions |= {(kind, key_of(value)): value for kind in kinds}

    def add_source(self, source: Source) -> None:
        """Take the tools of a resolver, after all that is there. Raises ConfigurationError when frozen."""
        if self.frozen:
            raise ConfigurationError(f"{source.path}: the registry is frozen once Django has started.")
        self.sources.add(source)

    def freeze(self) -> None:
        """Take nothing more."""
        self.frozen = True

    def get(self, key: str) -> ToolDefinition | None:
        """The tool registered under exactly this key."""
        found = self._tools.get(key)
        return self._resolved().get(key) if found is None and ":" in key else found

    def by_name(self, name: str) -> ToolDefinition | None:
        """The function of this name: resolvers are not asked, it may be an event loop that wants to know."""
        return next((definition for definition in self._tools.values() if definition.name == name), None)

    def all(self) -> list[ToolDefinition]:
        """All tools, by key."""
        return [definition for _, definition in sorted({**self._resolved(), **self._tools}.items())]

    def functions(self) -> list[ToolDefinition]:
        """The tools that are functions, by key: those that never change."""
        return [definition for _, definition in sorted(self._tools.items())]

    def _resolved(self) -> dict[str, ToolDefinition]:
        return self.sources.tools(self._tools.values())

    def find_key(self, function: Any) -> str | None:
        """The key of a registered function (or definition)."""
        definition = getattr(function, "__allm_tool__", function)
        return next((key for key, known in self._tools.items() if known is definition), None)

    def function(self, kind: str, key: str) -> Callable[..., Any] | None:
        """The function registered for ``kind`` under exactly this key."""
        return self._functions.get((kind, key))

    def function_keys(self, kind: str) -> list[str]:
        """The keys registered for ``kind``, sorted: the admin's choices."""
        return sorted(key for known, key in self._functions if known == kind)

    @contextmanager
    def registered(self, function: Any) -> Iterator[ToolDefinition]:
        """For tests: hold ``function`` (decorated or with full hints) in the registry for a while, frozen or not."""
        definition = _definition(function)
        with self._lock:
            self._add(definition)
        try:
            yield definition
        finally:
            with self._lock:
                self._tools = {key: known for key, known in self._tools.items() if known is not definition}

    def _add(self, definition: ToolDefinition) -> None:
        known = self._tools.get(definition.key)
        if known is definition:
            return
        if known is not None:
            raise ToolDefinitionError(f"{definition.key} is registered already.", field="key")
        if (same := self.by_name(definition.name)) is not None:
            message = f"name: {definition.key} and {same.key} are both called {definition.name!r}; rename one."
            raise ToolDefinitionError(message, field="name")
        self._tools = {**self._tools, definition.key: definition}


def _check_home(function: FunctionType, module: ModuleType) -> None:
    """Only what can be found again under its own name: no lambdas, no nested functions, no methods."""
    if vars(module).get(function.__qualname__) is not function:
        raise ToolDefinitionError(
            f"{key_of(function)}: only module-level functions can be registered, under their own name; "
            "move it to the module's top and define it with def.",
            field="function",
        )


registry = Registry()


def _definition(thing: Any) -> ToolDefinition:
    definition = getattr(thing, "__allm_tool__", thing)
    return definition if isinstance(definition, ToolDefinition) else define(thing)


def spec_of(thing: Any, registry: Registry | None = None) -> ToolSpec:
    """A tool of ``EngineSpec.tools`` as ToolSpec: a ToolSpec, a function (decorated or with full hints), or a name.

    Raises ToolDefinitionError for a name that nobody registered, and for anything else.
    """
    if isinstance(thing, ToolSpec):
        return thing
    if not isinstance(thing, str):
        return _definition(thing).spec()
    known = _default if registry is None else registry
    definition = known.by_name(thing) or known.get(thing)
    if definition is None:
        raise ToolDefinitionError(f"tools: no tool is registered as {thing[:100]!r}.", field="tools")
    return definition.spec()


_default = registry


def unique(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """``specs`` as they are; raises ToolDefinitionError if two have one name (T04)."""
    listed = tuple(specs)
    seen: set[str] = set()
    for spec in listed:
        if spec.name in seen:
            raise ToolDefinitionError(f"tools: two tools are called {spec.name!r}; rename or leave one.", field="tools")
        seen.add(spec.name)
    return listed
