"""One loop, four doors: chat, achat, stream and astream must give the same (L01)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import allm_django as allm
from allm_django import ChatResult, EngineSpec

Loop = Callable[..., ChatResult]

EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
ANY = {"type": "object"}


@allm.tool
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@allm.tool(manual=True)
def refund(order: int) -> str:
    """Refund an order."""
    raise AssertionError("a manual tool ran")


def by_chat(engine: EngineSpec, messages: Sequence[Any], **options: Any) -> ChatResult:
    return allm.chat(engine, messages, **options)


def by_achat(engine: EngineSpec, messages: Sequence[Any], **options: Any) -> ChatResult:
    return asyncio.run(allm.achat(engine, messages, **options))


def by_stream(engine: EngineSpec, messages: Sequence[Any], **options: Any) -> ChatResult:
    return allm.fold(messages, allm.stream(engine, messages, **options))


def by_astream(engine: EngineSpec, messages: Sequence[Any], **options: Any) -> ChatResult:
    async def collect() -> list[Any]:
        return [event async for event in allm.astream(engine, messages, **options)]

    return allm.fold(messages, asyncio.run(collect()))


LOOPS: dict[str, Loop] = {"chat": by_chat, "achat": by_achat, "stream": by_stream, "astream": by_astream}


def asking(text: str = "Go.") -> list[allm.Message]:
    """A conversation with one question."""
    return [allm.user(text)]


def tool_messages(result: ChatResult) -> list[str]:
    """What the model was told of its calls."""
    return [message.content for message in result.messages if message.role == "tool"]
