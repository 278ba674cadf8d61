"""What a handler is told, and progress (T09)."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from allm_django.core.types import ToolCall
from allm_django.errors import InvalidInputError
from allm_django.tools.context import ToolContext


def context(**fields: Any) -> ToolContext:
    return ToolContext(context=fields.pop("context", None), session_id=None, tool_call=ToolCall("c", "t"), **fields)


@pytest.mark.row("T10")
def test_falsy_contexts_pass_unchanged() -> None:
    empty: dict[str, Any] = {}
    assert context(context=empty).context is empty
    assert context(context=0).context == 0


def test_nothing_can_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        context().user = "root"  # type: ignore[misc]


@pytest.mark.row("T09")
@pytest.mark.parametrize(("given", "told"), [(0.5, 0.5), (-1, 0.0), (7, 1.0), (1, 1.0), (None, None)])
def test_progress_is_clamped(given: Any, told: Any) -> None:
    heard: list[Any] = []
    context(report=lambda fraction, text: heard.append((fraction, text))).progress(given, "x" * 900)
    assert heard == [(told, "x" * 500)]


@pytest.mark.row("T09")
@pytest.mark.parametrize(("fraction", "text"), [("half", ""), (True, ""), (float("nan"), ""), (0.5, None)])
def test_what_is_no_progress_is_refused(fraction: Any, text: Any) -> None:
    with pytest.raises(InvalidInputError):
        context().progress(fraction, text)


@pytest.mark.row("T09")
def test_a_dead_loop_does_not_fail_the_handler() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    context(report=lambda fraction, text: loop.call_soon_threadsafe(print)).progress(0.5)
