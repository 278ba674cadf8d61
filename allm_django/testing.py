"""For tests of host projects and our own: a scripted model, the loop on the caller's own connection, assertions.

The scripted model needs no Django; what drives stored sessions is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from allm_django.providers.scripted import ScriptedModel, call, cut, fail, raw_call, say
from allm_django.tools.definition import ToolDefinition
from allm_django.tools.registry import registry
from allm_django.tools.resolvers import Resolver, ResolverSource

if TYPE_CHECKING:
    from allm_django.runtime.inline import assert_called, assert_halted, drive, open_calls, sweep

__all__ = [
    "ScriptedModel",
    "assert_called",
    "assert_halted",
    "call",
    "cut",
    "drive",
    "fail",
    "open_calls",
    "raw_call",
    "registered",
    "resolving",
    "say",
    "sweep",
]

STORED = ("assert_called", "assert_halted", "drive", "open_calls", "sweep")


def registered(function: Callable[..., Any]) -> AbstractContextManager[ToolDefinition]:
    """Hold a tool in the frozen registry inside the block; its definition has the ``key`` that a Tool row names."""
    return registry.registered(function)


@contextmanager
def resolving(resolver: Resolver) -> Iterator[str]:
    """Hold a resolver in the frozen registry inside the block, after all others; gives the path that its handlers'
    keys begin with: ``f"{path}:{name}"`` for a Tool row.
    """
    path = f"{type(resolver).__module__}.{type(resolver).__qualname__}"
    with registry.sources.held(ResolverSource(path, resolver)):
        yield path


def __getattr__(name: str) -> Any:
    """What needs the database, imported once it is asked for."""
    if name not in STORED:
        raise AttributeError(f"module 'allm_django.testing' has no attribute {name!r}")
    value = getattr(import_module("allm_django.runtime.inline"), name)
    globals()[name] = value
    return value
