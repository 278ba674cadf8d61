"""What a model is to the loop: an id, and a stream of deltas for a request.

A model never runs a tool and never retries after its first delta; it raises ProviderError
(``retryable`` and ``retry_after`` set where known) or StreamBrokenError. Leaving the iterator (``aclose``)
or cancelling the task must stop the request at the provider.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from allm_django.core.types import JSONObject, ModelRequest, Usage


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's reasoning, where the provider shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a tool call. ``index`` tells calls of one answer apart; ``id`` and ``name`` may come once,
    ``arguments`` is JSON text to append. Only :class:`Finished` makes the call complete.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class RawCall:
    """One complete call as the provider gave it: id (may be empty or repeated), name, arguments as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a complete answer; the last delta. A stream that ends without it is broken.

    ``calls`` are final; ``dump`` is the provider's own message as JSON, whole
    (``{"provider": str, "model": str, "message": …}``), or None.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[RawCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = ""
    dump: JSONObject | None = None


Delta: TypeAlias = TextDelta | ThinkingDelta | CallDelta | Finished


@runtime_checkable
class Model(Protocol):
    """A language model (or what stands in for one)."""

    id: str

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Stream one answer; the last delta is :class:`Finished`."""
        ...


def is_retryable_status(status: int | None) -> bool:
    """Whether an HTTP status may be gone at the next try (L14); None = the provider could not be reached."""
    return status is None or status in (408, 429) or status >= 500
