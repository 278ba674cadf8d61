"""A model that is none: it follows a few patterns, so that the demo runs without a key and without a network.

It speaks the same protocol as a real model and sees what a real model sees: the messages, the tools on offer,
and the results with all that people did to them. It says what it is to whoever asks something else.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence

from allm_django.core.types import Message, ModelRequest, ToolCall
from allm_django.errors import ConfigurationError
from allm_django.providers.base import CallDelta, Delta, Finished, RawCall, TextDelta
from project.support.answers import CAPABILITIES, report
from project.support.reading import DATE, UnclearError, Wish, understand

NOTICE = "Scripted demo planner, not a language model"


class Planner:
    """The planner as a model. ``delay`` is the pause after each word, in seconds."""

    def __init__(self, delay: float = 0.02) -> None:
        self.id = "planner:support"
        self.delay = delay

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Stream one answer, word by word."""
        text, wishes = answer(request)
        for word in re.findall(r"\s*\S+", text):
            yield TextDelta(word)
            await asyncio.sleep(self.delay)
        calls = tuple(
            RawCall(f"call_{len(request.messages)}_{index}", wish.tool, json.dumps(wish.arguments, ensure_ascii=False))
            for index, wish in enumerate(wishes)
        )
        for index, call in enumerate(calls):
            yield CallDelta(index, call.id, call.name, call.arguments)
        yield Finished(text=text, calls=calls, finish_reason="tool_calls" if calls else "stop")


def planner(name: str) -> Planner:
    """The planner named in a model id, ``planner:support``. Raises ConfigurationError for any other name."""
    if name != "support":
        raise ConfigurationError(f"planner:{name}: there is no such planner; write planner:support.")
    return Planner()


def answer(request: ModelRequest) -> tuple[str, list[Wish]]:
    """What to say, and which tools to call, next."""
    last = max((n for n, m in enumerate(request.messages) if m.role == "user"), default=-1)
    since = request.messages[last + 1 :]
    if results := results_in(since):
        return after(results)
    said = [message.content for message in request.messages if message.role == "user"]
    try:
        wishes = understand(said[-1], said[:-1]) if said else []
    except UnclearError as unclear:
        return str(unclear), []
    missing = {wish.tool for wish in wishes} - offered(request)
    if missing:
        return f"That needs {', '.join(sorted(missing))}, which is not among the tools I may use right now.", []
    return ("", wishes) if wishes else (CAPABILITIES, [])


def offered(request: ModelRequest) -> set[str]:
    """The names of the tools that may be called in this turn."""
    return set() if request.tool_choice == "none" else {tool.name for tool in request.tools}


def results_in(messages: Sequence[Message]) -> list[tuple[ToolCall, Message]]:
    """The calls of ``messages`` with their results."""
    calls = {call.id: call for message in messages for call in message.calls}
    return [(calls[m.tool_call_id], m) for m in messages if m.role == "tool" and m.tool_call_id in calls]


def after(results: list[tuple[ToolCall, Message]]) -> tuple[str, list[Wish]]:
    """What follows from results: the delivery day once it was chosen, else a report of them all."""
    call, result = results[-1]
    if call.name == "ask_delivery_day" and not result.is_error:
        day = DATE.search(result.content)
        if day is None:
            return f"“{result.content}” is not a day I understand; write it as YYYY-MM-DD. Nothing was changed.", []
        return "", [Wish("set_delivery_day", {"order_id": (call.arguments or {})["order_id"], "day": day[0]})]
    told = [pair for pair in results if pair[0].name != "ask_delivery_day" or pair[1].is_error]
    return "\n\n".join(report(call.name, result.content, result.is_error) for call, result in told), []
