"""A recipe's steps in a list of messages: their ids, their results as messages, and going on from those (R07).

A result of a step is a tool message whose id is ``<the recipe's call>/<place>``. Providers never see it; it is there so
that a recipe that halted goes on from it when the list is passed in again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allm_django.core.history import recipe_of
from allm_django.core.plans import NewStep, PastStep
from allm_django.core.types import JSON, Message, ToolResult, ToolSpec
from allm_django.tools.binding import bind
from allm_django.tools.registry import registry, spec_of


def step_id(call_id: str, position: int) -> str:
    """The id of a recipe's step."""
    return f"{call_id}/{position + 1}"


def step_spec(step: NewStep, known: Mapping[str, ToolSpec]) -> ToolSpec | None:
    """The step's tool: that of the run, else the function it names, else one that is registered."""
    if step.name in known:
        return known[step.name]
    if not isinstance(step.tool, str):
        return spec_of(step.tool)
    definition = registry.by_name(step.name)
    return None if definition is None else definition.spec()


def is_recipe(spec: ToolSpec | None) -> bool:
    """Whether the tool's handler plans."""
    return spec is not None and spec.handler is not None and bind(spec.handler).plans


def past_step(position: int, result: ToolResult, effect: str = "") -> PastStep:
    """A step's result as its recipe sees it."""
    error = (result.message or result.content or result.code) if result.is_error else ""
    return PastStep(position, result.value, error, effect)


def step_message(step: PastStep, call_id: str, result: ToolResult, shape: str) -> Message:
    """A step's result as a message to keep."""
    dump = {"step": {"value": step.value, "error": step.error, "effect": step.effect, "shape": shape}}
    content = result.content
    return Message("tool", content, tool_call_id=step_id(call_id, step.position), is_error=bool(step.error), dump=dump)


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """The end of a list of messages: an assistant message one of whose recipes has results of steps, none itself."""

    index: int
    message: Message
    results: dict[str, Message]
    steps: dict[str, dict[int, Message]]

    def shape(self, call_id: str) -> str:
        """The shape of the plan whose steps were kept, if it is known."""
        kept = [_kept(message) for message in self.steps[call_id].values()]
        return next((str(data["shape"]) for data in kept if data.get("shape")), "")

    def past(self, call_id: str) -> tuple[PastStep, ...]:
        """The recipe's steps that have their result."""
        return tuple(_past(place, message) for place, message in sorted(self.steps[call_id].items()))


def open_turn(messages: Sequence[Message]) -> OpenTurn | None:
    """Where a halted recipe is to go on, if the list ends with one."""
    index = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role != "tool"), -1)
    if index < 0 or not messages[index].calls or not messages[index].complete:
        return None
    tail = messages[index + 1 :]
    results = {message.tool_call_id or "": message for message in tail if not recipe_of(message.tool_call_id)}
    steps: dict[str, dict[int, Message]] = {}
    for message in tail:
        parent = recipe_of(message.tool_call_id)
        if parent and parent not in results:
            steps.setdefault(parent, {})[_place(message)] = message
    return OpenTurn(index, messages[index], results, steps) if steps else None


def closed(messages: Iterable[Message]) -> list[Message]:
    """The messages before a turn that is still open."""
    listed = list(messages)
    turn = open_turn(listed)
    return listed if turn is None else listed[: turn.index]


def _place(message: Message) -> int:
    place = (message.tool_call_id or "").rpartition("/")[2]
    return int(place) - 1 if place.isascii() and place.isdigit() else -1


def _kept(message: Message) -> dict[str, Any]:
    kept = (message.dump or {}).get("step")
    return kept if isinstance(kept, dict) else {}


def _past(position: int, message: Message) -> PastStep:
    if kept := _kept(message):
        return PastStep(position, kept.get("value"), str(kept.get("error", "")), str(kept.get("effect", "")))
    return PastStep(position, _value(message.content), message.content if message.is_error else "")


def _value(content: str) -> JSON:
    """What a caller's text stands for: JSON where it is JSON."""
    try:
        value: JSON = json.loads(content)
    except ValueError:
        return content
    return value
