"""What providers count, and sums of it (L09)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any

FIGURES = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost")


@dataclass(frozen=True, slots=True)
class Usage:
    """What the provider counted. ``None`` means that it did not say, which is not 0 (L09).

    Tokens are whole numbers; ``cost`` is in US dollars, a Decimal (a float or text given becomes one). In a sum,
    ``partial`` names the figures that at least one answer did not tell: what stands there is "at least".
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: Decimal | None = None
    partial: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: Any = self.cost
        if given is not None and not isinstance(given, Decimal):
            object.__setattr__(self, "cost", decimal(given))

    def __add__(self, other: Usage) -> Usage:
        """The sum so far and one answer more. Sums start from ``Usage()``, as ``sum(…, Usage())`` does."""
        figures = {name: _total(getattr(self, name), getattr(other, name)) for name in FIGURES}
        gaps = {*self.partial, *other.partial, *(name for name in FIGURES if getattr(other, name) is None)}
        return Usage(**figures, partial=tuple(name for name in FIGURES if name in gaps))

    def as_json(self) -> dict[str, Any]:
        """As a JSON object; unknown figures are left out, the cost is text such as ``"0.0125"``."""
        data = {name: value for name in FIGURES if (value := getattr(self, name)) is not None}
        if "cost" in data:
            data["cost"] = format(data["cost"], "f")
        return {**data, "partial": list(self.partial)} if self.partial else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Usage:
        """The inverse of :meth:`as_json`; unknown keys are ignored."""
        names = {f.name for f in fields(cls)}
        known = {name: value for name, value in (data or {}).items() if name in names}
        return cls(**{**known, "partial": tuple(known.get("partial") or ())})


def _total(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def decimal(value: float | str) -> Decimal | None:
    """The number as it is written (0.1 is 0.1); None for what is no finite number."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
