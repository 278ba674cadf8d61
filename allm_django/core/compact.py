"""Compact tools: the model sees a line and the names of the arguments, and asks ``tool_help`` for the rest (T22).

All of it follows from the offer alone, so requests of the same offer begin with the same bytes (prompt caches hold).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from allm_django.core.types import JSONObject, ToolSpec

MAX_LINE = 120  # characters of a line that is cut out of a description
MAX_NAMES = 10


class HelpSpec(ToolSpec):
    """The one tool whose name is reserved for it."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check nothing: there is only :data:`HELP`."""


HELP = HelpSpec(
    "tool_help",
    "Gives the whole descriptions and parameter schemas of tools. Tools whose parameters show no types are "
    "abbreviated: look them up here before you first call them.",
    {
        "type": "object",
        "properties": {
            "names": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_NAMES},
        },
        "required": ["names"],
        "additionalProperties": False,
    },
    idempotent=True,
)


def shown(tools: Iterable[ToolSpec], tool_choice: str = "auto") -> tuple[ToolSpec, ...]:
    """What a model is sent of ``tools``: in their order, compact ones as stubs, then :data:`HELP` if there is a
    compact one. The tool that ``tool_choice`` names is sent in full.
    """
    offered = tuple(tools)
    if not any(spec.compact for spec in offered):
        return offered
    return (*(stub(spec) if spec.compact and spec.name != tool_choice else spec for spec in offered), HELP)


def stub(spec: ToolSpec) -> ToolSpec:
    """``spec`` with a line for a description, and of its schema the names of the arguments."""
    names = spec.schema.get("properties", {})
    return replace(spec, description=line(spec), schema={"type": "object", "properties": {name: {} for name in names}})


def line(spec: ToolSpec) -> str:
    """The tool's summary, else the first sentence of its description, cut to :data:`MAX_LINE` characters."""
    if spec.summary:
        return " ".join(spec.summary.split())
    sentence = re.split(r"(?<=[.!?]) ", " ".join(spec.description.split()), maxsplit=1)[0]
    return sentence if len(sentence) <= MAX_LINE else sentence[: MAX_LINE - 1] + "…"


def definition(spec: ToolSpec) -> JSONObject:
    """All that a model may know of a tool."""
    return {"name": spec.name, "description": spec.description, "schema": spec.schema}


def offered(name: str, tools: Mapping[str, ToolSpec]) -> ToolSpec | None:
    """The tool of this name among ``tools``, or :data:`HELP` where a compact one makes it be there."""
    if name == HELP.name and any(spec.compact for spec in tools.values()):
        return HELP
    return tools.get(name)


def help_with(arguments: JSONObject, tools: Mapping[str, ToolSpec]) -> JSONObject:
    """The answer of ``tool_help``: ``tools`` with the definitions, and ``unknown`` with the names that are none,
    beside those ``on_offer``."""
    names = list(dict.fromkeys(arguments["names"]))
    answer: JSONObject = {"tools": [definition(tools[name]) for name in names if name in tools]}
    if unknown := [name[:64] for name in names if name not in tools]:
        answer |= {"unknown": unknown, "on_offer": sorted(tools)}
    return answer
