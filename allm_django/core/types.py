"""The values that the loop is made of. All are frozen; none knows Django, a clock or I/O.

JSON-shaped fields hold only what ``json.loads`` can give, so that every value but a handler survives
a JSON round trip unchanged (T06).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from allm_django.core.limits import DEFAULT_MAX_TURNS as DEFAULT_MAX_TURNS
from allm_django.core.limits import Limits as Limits
from allm_django.core.usage import Usage as Usage
from allm_django.errors import ToolDefinitionError

JSON: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
JSONObject: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Mode: TypeAlias = Literal["auto", "manual"]
Handler: TypeAlias = Callable[..., Any]

NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
RESERVED_NAMES = frozenset({"auto", "none", "required", "tool_help"})
DEFAULT_TIMEOUT = 30.0


def check_tool_name(name: object, field_name: str = "name") -> str:
    """Return ``name`` if it is a legal tool name (T03), else raise ToolDefinitionError."""
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        raise ToolDefinitionError(
            f"{field_name}: {name!r} is not a tool name; 1 to 64 of A-Z a-z 0-9 _ - are allowed.", field=field_name
        )
    if name in RESERVED_NAMES:
        raise ToolDefinitionError(f"{field_name}: {name!r} is reserved; choose another name.", field=field_name)
    return name


def check_flag(value: object, field_name: str) -> bool:
    """Return ``value`` if it is a real boolean (T02), else raise ToolDefinitionError."""
    if not isinstance(value, bool):
        raise ToolDefinitionError(
            f"{field_name}: {value!r} is {type(value).__name__}; True or False is needed.", field=field_name
        )
    return value


def check_timeout(value: object, field_name: str = "timeout") -> float:
    """Return ``value`` in seconds if it is a positive, finite number, else raise ToolDefinitionError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ToolDefinitionError(
            f"{field_name}: {value!r} is not a timeout; a positive number of seconds is needed.", field=field_name
        )
    return float(value)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model asked for it.

    ``id`` is unique in its conversation (the provider's own where that is usable, else ours) and is what
    ``tool_result`` takes. ``arguments`` is the parsed object ({} for none) or None if it could not be
    parsed; ``raw`` is the text as the model wrote it. A recipe's step has its ``parent``'s id and a ``label``.
    """

    id: str
    name: str
    arguments: JSONObject | None = None
    raw: str = ""
    parent: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, in neutral form.

    An assistant message may have ``calls`` and, in ``dump``, the provider's own message kept whole
    (``{"provider": …, "model": …, "message": …}``). A tool message has ``tool_call_id`` and the
    model's copy of the result in ``content``. ``complete=False``: the stream broke; never sent again.
    """

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    dump: JSONObject | None = None
    complete: bool = True
    usage: Usage | None = None
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of a call: ``value`` whole, ``content`` the model's copy (encoded, capped).

    ``code`` is empty for a success, else the error's stable word (``invalid_arguments``, ``timeout``, …) with its
    ``message`` in words; ``detail`` is for staff and never reaches the model.
    """

    call_id: str
    value: JSON = None
    content: str = ""
    code: str = ""
    message: str = ""
    detail: str = ""

    @property
    def is_error(self) -> bool:
        """Whether this result tells the model of a failure."""
        return bool(self.code)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the loop knows it (T01). ``handler`` is any callable (stateless) or a registered key.

    Raises ToolDefinitionError, naming the field, for anything not allowed (T02, T03). The schema is linted
    where it is compiled (``core.schema``). ``timeout`` is in seconds. ``manual_fixed``: no allow rule frees a call of
    it while it is manual (H12).
    """

    name: str
    description: str
    schema: JSONObject
    handler: Handler | str | None = None
    manual: bool = False
    metadata: JSONObject = field(default_factory=dict)
    compact: bool = False
    summary: str = ""
    timeout: float = DEFAULT_TIMEOUT
    idempotent: bool = False
    sensitive: tuple[str, ...] = ()
    title: str = ""
    manual_fixed: bool = True

    def __post_init__(self) -> None:
        check_tool_name(self.name)
        for name in ("description", "summary", "title"):
            if not isinstance(getattr(self, name), str):
                kind = type(getattr(self, name)).__name__
                raise ToolDefinitionError(f"{name}: {kind} given; text is needed.", field=name)
        for name in ("schema", "metadata"):
            if not isinstance(getattr(self, name), dict):
                kind = type(getattr(self, name)).__name__
                raise ToolDefinitionError(f"{name}: {kind} given; a JSON object is needed.", field=name)
        for name in ("manual", "compact", "idempotent", "manual_fixed"):
            check_flag(getattr(self, name), name)
        check_timeout(self.timeout)
        if self.handler is not None and not isinstance(self.handler, str) and not callable(self.handler):
            raise ToolDefinitionError("handler: neither a callable, a registered key nor None.", field="handler")
        object.__setattr__(self, "sensitive", tuple(self.sensitive))


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """A named set-up of model, tools and rules for stateless use; the admin's ``Engine`` row is its twin.

    ``model`` is an id such as ``"openai:gpt-5-mini"`` or a model object; ``tools`` holds functions, ToolSpecs,
    names of registered tools and resolvers (or is one). ``on_tool_error`` is ``"continue"``, ``"halt"`` or a function
    ``(call, result) -> replacement | Halt`` (T19). ``max_turns`` None = the default (L06). ``limits`` as a mapping
    goes over the settings' defaults, as a Limits it stands for itself (L10).
    ``response_schema``: once the model has answered, it is asked for its answer in this form, too (L13). ``rules``:
    RuleSpecs, which deny, ask for or allow calls by their arguments (H12).
    """

    model: Any
    tools: Any = ()
    system: str = ""
    params: JSONObject = field(default_factory=dict)
    mode: Mode = "auto"
    max_turns: int | None = None
    on_tool_error: str | Callable[..., Any] = "continue"
    halt_when: Callable[..., Any] | None = None
    encoder: Callable[[Any], str] | None = None
    executor: Any = None
    tool_choice: str = "auto"
    context: Any = None
    limits: Limits | Mapping[str, Any] | None = None
    terminal_tool: str | None = None
    response_schema: JSONObject | None = None
    max_parallel: int = 8
    name: str = ""
    rules: Any = ()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What one model call is made of: a complete, valid history and the tools on offer.

    ``messages`` never holds an incomplete message; each call in it has its result right after its message,
    in the calls' order. ``params`` are provider-neutral settings (``temperature``, ``max_tokens``, ``top_p``,
    ``seed``, ``stop``, ``timeout`` in seconds, ``parallel_tool_calls``). ``response_schema``: the answer is to be a
    JSON object of that form; the messages say so too (L13).
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    system: str = ""
    tool_choice: str = "auto"
    params: JSONObject = field(default_factory=dict)
    request_id: str = ""
    response_schema: JSONObject | None = None
