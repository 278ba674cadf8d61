"""How a loop is to be driven, resolved from engine, settings and call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from allm_django.loop.about import About
from allm_django.tools.threads import SyncExecutor


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Options of one drive. Times in seconds; ``result_cap`` in characters.

    ``on_tool_error`` is ``"continue"``, ``"halt"`` or a function (T19); ``executor`` a function
    ``(handler, arguments, ctx) -> result`` that runs handlers in its own way (T25). ``about`` names the run in logs
    and spans.
    """

    threads: SyncExecutor
    on_tool_error: str | Callable[..., Any] = "continue"
    halt_when: Callable[..., Any] | None = None
    encoder: Callable[[Any], str] | None = None
    executor: Callable[..., Any] | None = None
    max_parallel: int = 8
    result_cap: int = 32_768
    attempts: int = 3
    retry_after_max: float = 30.0
    backoff: float = 0.5
    cancel_grace: float = 2.0
    stop_grace: float = field(default=5.0)
    about: About = field(default_factory=About)
