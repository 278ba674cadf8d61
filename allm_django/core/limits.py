"""What one run may use, and what is said when that is used up (L06, L10). Rows of docs/reference/limits.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from allm_django.core.usage import Usage, decimal
from allm_django.errors import InvalidInputError

DEFAULT_MAX_TURNS = 8
FRACTIONS = frozenset({"max_cost", "max_seconds"})
TEXTS = {
    "max_calls": "This assistant may make {n} tool calls for one message; they are used up.",
    "max_tokens": "This assistant may use {n} tokens for one message; they are used up.",
    "max_cost": "This assistant may spend ${n} for one message; that is used up.",
    "max_seconds": "This assistant may work {n} seconds for one message; they are used up.",
    "max_identical_calls": "The assistant made the same call {n} times in a row and seems to be stuck.",
    "max_rejections": "People rejected {n} calls in a row, so the assistant stopped asking.",
    "max_parse_failures": "The assistant made only calls that can't be run, {n} times in a row.",
}
GO_ON = "Go on, and it starts counting anew, or write what it should do instead."


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run. None = unbounded, but for ``max_turns``. A bound is looked at before each model call.

    Tokens count input and output together, ``max_cost`` is in US dollars, ``max_seconds`` the time at work, waiting
    for people left out. The last three count in a row: calls of one tool with the same arguments, calls that people
    rejected, turns whose calls all could not be run as the model wrote them.
    """

    max_turns: int = DEFAULT_MAX_TURNS
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | float | str | None = None
    max_seconds: float | None = None
    max_identical_calls: int | None = 8
    max_rejections: int | None = 3
    max_parse_failures: int | None = 3

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None or f.name == "max_turns":
                object.__setattr__(self, f.name, _checked(f.name, value))

    @classmethod
    def of(cls, *layers: Mapping[str, Any], field: str = "limits") -> Limits:
        """Limits from mappings, the later over the earlier; what none names has its default.

        Raises InvalidInputError naming the key.
        """
        known = [f.name for f in fields(cls)]
        merged: dict[str, Any] = {}
        for layer in layers:
            if not isinstance(layer, Mapping):
                raise InvalidInputError(f"{field}: {type(layer).__name__} given; a JSON object is needed.", field=field)
            if wrong := [str(name) for name in layer if name not in known]:
                listed = ", ".join(known)
                raise InvalidInputError(f"{field}: {wrong[0]!r} is not a limit; known are {listed}.", field=field)
            merged.update(layer)
        return cls(**merged)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object, every bound named."""
        return {f.name: to_figure(getattr(self, f.name)) for f in fields(self)}


def reached(limits: Limits, used: Mapping[str, Any]) -> dict[str, Any]:
    """The first bound that ``used`` has reached, as ``{"limit", "bound", "text"}``, or ``{}``.

    ``used`` names each bound's figure; one that is unknown reaches none (L09).
    """
    for name, value in used.items():
        bound = getattr(limits, name)
        if bound is not None and value is not None and value >= bound:
            figure = to_figure(bound)
            return {"limit": name, "bound": figure, "text": f"{TEXTS[name].format(n=figure)} {GO_ON}"}
    return {}


def tokens_of(usage: Usage) -> int | None:
    """Input and output together, as far as they are known."""
    known = [figure for figure in (usage.input_tokens, usage.output_tokens) if figure is not None]
    return sum(known) if known else None


def to_figure(value: Any) -> Any:
    """A bound in JSON: a Decimal as text."""
    return format(value, "f") if isinstance(value, Decimal) else value


def _checked(name: str, value: Any) -> Any:
    number = value
    if name == "max_cost" and isinstance(value, str | float | int) and not isinstance(value, bool):
        number = decimal(value)
    numeric = isinstance(number, int | float | Decimal) and not isinstance(number, bool)
    if not numeric or not 0 < number < float("inf"):
        raise InvalidInputError(f"{name}: {value!r} is not a positive number.", field=name)
    if name not in FRACTIONS and not isinstance(number, int):
        raise InvalidInputError(f"{name}: {value!r} is not a whole number.", field=name)
    return number
