"""``@tool``: from a function to a tool's definition (T01–T03, T08)."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal, TypeAlias, TypeVar, overload

from allm_django.core.schema import lint
from allm_django.core.types import DEFAULT_TIMEOUT, JSONObject, ToolSpec, check_tool_name
from allm_django.errors import InvalidInputError, ToolDefinitionError
from allm_django.tools.binding import BoundHandler, bind_hinted, bind_plain
from allm_django.tools.docstrings import read_docstring
from allm_django.tools.options import plain, sensitive_names

F = TypeVar("F", bound=Callable[..., Any])
Manual: TypeAlias = bool | Literal["default"]


@dataclass(frozen=True, slots=True, eq=False)
class ToolDefinition:
    """A tool as code declares it. ``key`` is ``module.qualname``, which is all that the database ever names.

    ``manual_fixed``: the admin may not switch ``manual`` off. ``timeout`` in seconds. Compared by identity.
    """

    key: str
    name: str
    title: str
    description: str
    schema: JSONObject
    function: Callable[..., Any] = field(repr=False)
    bound: BoundHandler = field(repr=False)
    manual: bool = False
    manual_fixed: bool = False
    timeout: float = DEFAULT_TIMEOUT
    idempotent: bool = False
    sensitive: tuple[str, ...] = ()
    metadata: JSONObject = field(default_factory=dict)
    compact: bool = False
    summary: str = ""

    @property
    def is_async(self) -> bool:
        """Whether the function is async."""
        return self.bound.is_async

    def invoke(self, arguments: JSONObject, context: Any) -> Any:
        """Convert the arguments and call the function; raises InvalidArgumentsError if they don't convert."""
        return self.bound.call(arguments, context)

    def spec(self) -> ToolSpec:
        """The same as a plain value for stateless use."""
        names = ("name", "description", "schema", "manual", "metadata", "compact", "summary", "timeout", "idempotent")
        values = {name: getattr(self, name) for name in (*names, "sensitive", "title", "manual_fixed")}
        return ToolSpec(handler=self.function, **values)

    @property
    def fingerprint(self) -> str:
        """A hash of schema, flags and signature: it changes when what a person once looked at has changed."""
        parameters = [
            [name, parameter.kind.name, parameter.default is inspect.Parameter.empty]
            for name, parameter in inspect.signature(self.function).parameters.items()
        ]
        flags = [self.manual, self.manual_fixed, self.idempotent, sorted(self.sensitive), self.is_async]
        flags += [True] if self.bound.plans else []
        text = json.dumps([self.schema, flags, parameters], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    schema: JSONObject | None = None,
    manual: Manual = False,
    timeout: float = DEFAULT_TIMEOUT,
    idempotent: bool = False,
    sensitive: Iterable[str] = (),
    metadata: JSONObject | None = None,
    compact: bool = False,
    summary: str = "",
) -> Callable[[F], F]: ...


def tool(function: Any = None, /, **options: Any) -> Any:
    """Make a function a tool; it stays callable as it was. Raises ToolDefinitionError (SchemaError for a schema)
    naming the function, its file and line, and what is wrong.

    Without ``schema``: type hints and docstring give the schema, arguments come converted and by name, and a
    parameter annotated ToolContext (or named ``ctx``) gets the context. With ``schema``: the function is
    ``f(arguments)`` or ``f(arguments, ctx)``.

    ``manual``: a person decides each call; True can't be switched off in the admin, ``"default"`` can.
    ``timeout``: seconds. ``idempotent``: running it twice does no harm (reads are). ``sensitive``: arguments to mask,
    by name or dotted path. ``name`` defaults to the function's, ``title`` to the name in words, ``description`` to
    the docstring up to its sections, else to the title.
    """

    def decorate(target: F) -> F:
        target.__allm_tool__ = define(target, **options)  # type: ignore[attr-defined]
        return target

    return decorate if function is None else decorate(function)


def define(function: Any, **options: Any) -> ToolDefinition:
    """The definition that :func:`tool` attaches; see there."""
    try:
        return _define(function, **options)
    except InvalidInputError as error:
        raise type(error)(f"{_place(function)}: {error.message}", field=error.field) from error


def title_of(name: str) -> str:
    """A tool's name in words."""
    return name.replace("_", " ").replace("-", " ").strip().capitalize()


def _place(function: Any) -> str:
    """Where whoever has to correct it finds it: ``shop.tools.refund (/srv/shop/tools.py:12)``."""
    name = getattr(function, "__qualname__", None)
    if name is None:
        return "@tool"
    code = getattr(inspect.unwrap(function), "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{function.__module__}.{name}{where}"


def _define(
    function: Any,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    schema: JSONObject | None = None,
    manual: Manual = False,
    timeout: float = DEFAULT_TIMEOUT,
    idempotent: bool = False,
    sensitive: Iterable[str] = (),
    metadata: JSONObject | None = None,
    compact: bool = False,
    summary: str = "",
) -> ToolDefinition:
    if not isinstance(function, FunctionType):
        raise ToolDefinitionError(f"{type(function).__name__} given; @tool goes on a function.", field="function")
    if not isinstance(manual, bool) and manual != "default":
        raise ToolDefinitionError(f'manual: {manual!r}; True, False or "default" is needed.', field="manual")
    taken = read_docstring(function, ())
    if schema is None:
        from allm_django.tools.signature import read_signature  # brings pydantic, which only hints need

        signature, taken = read_signature(function, lambda names: read_docstring(function, names))
        schema, bound = signature.schema, bind_hinted(function, signature)
    else:
        bound = bind_plain(function)
    lint(schema)
    name = check_tool_name(function.__name__ if name is None else name)
    title = title_of(name) if title is None else title
    definition = ToolDefinition(
        key=f"{function.__module__}.{function.__qualname__}",
        name=name,
        title=title,
        description=(taken.description or title) if description is None else description,
        schema=plain(schema, "schema"),
        function=function,
        bound=bound,
        manual=bool(manual),
        manual_fixed=manual is True,
        timeout=timeout,
        idempotent=idempotent,
        sensitive=sensitive_names(sensitive, schema),
        metadata=plain({} if metadata is None else metadata, "metadata"),
        compact=compact,
        summary=summary,
    )
    definition.spec()  # checks every field (T02, T03)
    return definition
