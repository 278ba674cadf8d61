"""Everything that happens, as typed values in the past tense (S08).

A stateless stream yields the values below; a stored session numbers the same kinds as rows, but for the deltas
(``TextStreamed``, ``ThinkingStreamed``, ``ArgumentsStreamed``, ``CallProgressed``), which it never stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from allm_django.core.streaks import Used
from allm_django.core.types import JSON, JSONObject, Message, ToolCall, ToolResult, Usage


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The loop set out; ``request_id`` names it in logs and handlers."""

    kind: ClassVar[str] = "RunStarted"
    request_id: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A model round trip began; turns count from 1."""

    kind: ClassVar[str] = "StepStarted"
    turn: int


@dataclass(frozen=True, slots=True)
class TextStreamed:
    """A piece of visible text."""

    kind: ClassVar[str] = "TextStreamed"
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingStreamed:
    """A piece of the model's reasoning."""

    kind: ClassVar[str] = "ThinkingStreamed"
    text: str


@dataclass(frozen=True, slots=True)
class ArgumentsStreamed:
    """A piece of a call that is still being written; ``index`` tells calls of one answer apart."""

    kind: ClassVar[str] = "ArgumentsStreamed"
    index: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class MessageCompleted:
    """The model's answer is whole."""

    kind: ClassVar[str] = "MessageCompleted"
    message: Message


@dataclass(frozen=True, slots=True)
class MessageBroken:
    """The answer broke off; what came is in ``message`` and will never be sent again (L14)."""

    kind: ClassVar[str] = "MessageBroken"
    message: Message


@dataclass(frozen=True, slots=True)
class AnswerFormatted:
    """The model gave its answer in the form asked for; ``problem``: what is wrong with that, or ``""`` (L13)."""

    kind: ClassVar[str] = "AnswerFormatted"
    problem: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class CallPending:
    """A call waits for a person."""

    kind: ClassVar[str] = "CallPending"
    call: ToolCall
    why: str = ""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A handler was started."""

    kind: ClassVar[str] = "CallStarted"
    call: ToolCall


@dataclass(frozen=True, slots=True)
class CallProgressed:
    """A handler told how far it is: ``fraction`` from 0 to 1, or None."""

    kind: ClassVar[str] = "CallProgressed"
    call_id: str
    fraction: float | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallAsked:
    """A handler asked the user (T13)."""

    kind: ClassVar[str] = "CallAsked"
    call: ToolCall
    question: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallSettled:
    """A call has its one result; ``outcome`` tells how."""

    kind: ClassVar[str] = "CallSettled"
    call: ToolCall
    outcome: str
    result: ToolResult


@dataclass(frozen=True, slots=True)
class StepCompleted:
    """A step ended: the assistant's message and the results there are, in the calls' order."""

    kind: ClassVar[str] = "StepCompleted"
    turn: int
    message: Message
    results: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class RunHalted:
    """The loop stopped; the last event. ``waiting``: something is open. ``used`` goes to the call that resumes it."""

    kind: ClassVar[str] = "RunHalted"
    reason: str
    waiting: bool = False
    metadata: JSONObject = field(default_factory=dict)
    error: JSONObject | None = None
    used: Used = field(default_factory=Used, compare=False)
    output: JSON = None


StreamEvent: TypeAlias = (
    RunStarted
    | StepStarted
    | TextStreamed
    | ThinkingStreamed
    | ArgumentsStreamed
    | MessageCompleted
    | MessageBroken
    | AnswerFormatted
    | CallPending
    | CallStarted
    | CallProgressed
    | CallAsked
    | CallSettled
    | StepCompleted
    | RunHalted
)
