"""How a handler is called: ``f(arguments)`` or ``f(arguments, ctx)``, sync or async, decided once (T08)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from allm_django.core.types import JSONObject
from allm_django.errors import ToolDefinitionError
from allm_django.tools.context import ToolContext

if TYPE_CHECKING:
    from allm_django.tools.signature import Signature

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_RULE = "a handler takes (arguments) or (arguments, ctx)"


@dataclass(frozen=True, slots=True)
class BoundHandler:
    """A handler ready to be called: ``call(arguments, ctx)`` gives its result; if ``is_async``, an awaitable of it.

    ``plans``: a recipe, whose result is a Plan; ``direct`` does the work where it gives none (R06).
    """

    call: Callable[[JSONObject, ToolContext], Any]
    is_async: bool
    plans: bool = False
    direct: BoundHandler | None = None


def bind(handler: Any) -> BoundHandler:
    """Bind a decorated function, a ToolDefinition or any callable. Raises ToolDefinitionError for a wrong signature."""
    definition = getattr(handler, "__allm_tool__", handler)
    bound = getattr(definition, "bound", None)
    if isinstance(bound, BoundHandler):
        return bound
    return _bind_function(handler) if isinstance(handler, FunctionType) else bind_plain(handler)


def bind_plain(handler: Any) -> BoundHandler:
    """Bind a callable of the seed's form. Raises ToolDefinitionError for any other signature."""
    if not callable(handler) or inspect.isclass(handler):
        raise ToolDefinitionError(f"handler: {type(handler).__name__} is no function; {_RULE}.", field="handler")
    is_async = check_kind(handler)
    if _count(handler) == 2:
        return BoundHandler(handler, is_async)
    return BoundHandler(lambda arguments, ctx: handler(arguments), is_async)


_bind_function = lru_cache(maxsize=1_024)(bind_plain)  # by identity: functions are equal only to themselves


def bind_hinted(function: Callable[..., Any], signature: Signature) -> BoundHandler:
    """Bind a function whose arguments come converted and by name."""
    return BoundHandler(
        lambda arguments, context: function(**signature.keywords(arguments, context)), check_kind(function)
    )


def check_kind(handler: Any) -> bool:
    """Whether ``handler`` is async. Raises ToolDefinitionError for generators, whose call runs nothing."""
    call = handler if inspect.isroutine(handler) else getattr(type(handler), "__call__", handler)  # noqa: B004
    for kind in (handler, call):
        if inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind):
            raise ToolDefinitionError("handler: a generator function; return the whole value instead.", field="handler")
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _count(handler: Callable[..., Any]) -> int:
    """How many positional arguments a handler takes: 1 or 2."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        raise ToolDefinitionError(f"handler: its signature can't be read; {_RULE}.", field="handler") from None
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    others = [parameter for parameter in parameters if parameter.kind not in _POSITIONAL]
    fitting = len(positional) in (1, 2) and all(
        parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is not inspect.Parameter.empty
        for parameter in others
    )
    if not fitting:
        given = ", ".join(str(parameter) for parameter in parameters)[:200]
        raise ToolDefinitionError(f"handler: takes ({given}); {_RULE}.", field="handler")
    return len(positional)
