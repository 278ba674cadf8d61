"""Spans of runs, steps, model calls and tool calls, where the host program has set OpenTelemetry up (L19).

Whoever wants spans has imported the library to set it up; so it is never imported here for others, to whom telemetry
costs one look and calls of methods that do nothing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType

from allm_django.core.types import ModelRequest
from allm_django.loop.about import About
from allm_django.loop.journal import StartedCall

Done = Callable[..., None]


class Spans:
    """The spans of one drive; these tell nobody. Each block gives a function to call with how it ended."""

    def drive(self) -> AbstractContextManager[Done]:
        """The whole drive; ends with ``done(halt)``, a HaltRun or None."""
        return _NOTHING

    def begin_step(self) -> None:
        """A step begins, and ends when the next one or the drive does."""

    def model_call(self, request: ModelRequest) -> AbstractContextManager[Done]:
        """A call of the model; ends with ``done(finished, error)``, each may be None."""
        return _NOTHING

    def tool_call(self, started: StartedCall) -> AbstractContextManager[Done]:
        """A handler at work, which sees this span as the current one; ends with ``done(settlement)``."""
        return _NOTHING


def spans_of(about: About, model_id: str) -> Spans:
    """What takes the spans of a drive."""
    library = _set_up()
    return _SILENT if library is None else library.Recorded(about, model_id)


def trace_of(about: About) -> str:
    """A trace for the drives of a run that is being queued, as ``traceparent``; it is part of the caller's, if any."""
    library = _set_up()
    return "" if library is None else str(library.begin_trace(about))


def _set_up() -> ModuleType | None:
    if "opentelemetry.trace" not in sys.modules:
        return None
    library = importlib.import_module("allm_django.loop.spans")
    return library if library.is_set_up() else None


def _ignore(*_: object) -> None:
    """Tell nobody."""


_NOTHING = nullcontext(_ignore)
_SILENT = Spans()
