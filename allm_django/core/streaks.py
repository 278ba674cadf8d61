"""What happened several times in a row: the same call, rejections, calls that can't be run (L10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from allm_django.core.encode import to_text
from allm_django.core.types import JSONObject
from allm_django.core.usage import Usage


@dataclass(frozen=True, slots=True)
class CallFact:
    """What streaks look at of a call. ``rejected`` None: no person decided it (yet)."""

    key: str
    invalid: bool = False
    rejected: bool | None = None


@dataclass(frozen=True, slots=True)
class Streaks:
    """How often in a row, as of now; ``key`` is the last call's."""

    identical: int = 0
    rejections: int = 0
    parse_failures: int = 0
    key: str = ""

    def after(self, turn: Sequence[CallFact]) -> Streaks:
        """These, one turn of calls later."""
        if not turn:
            return self
        identical, key = self.identical, self.key
        for fact in turn:
            identical, key = (identical + 1 if fact.key == key else 1), fact.key
        failures = self.parse_failures + 1 if all(fact.invalid for fact in turn) else 0
        return Streaks(identical, self.decided(fact.rejected for fact in turn).rejections, failures, key)

    def decided(self, rejected: Iterable[bool | None]) -> Streaks:
        """These, after decisions of people in that order. What no person decided changes nothing."""
        count = self.rejections
        for verdict in rejected:
            count = count if verdict is None else count + 1 if verdict else 0
        return Streaks(self.identical, count, self.parse_failures, self.key)


def call_key(name: str, arguments: JSONObject | None, raw: str = "") -> str:
    """Tells calls apart without holding their arguments; ``raw`` stands in where they could not be read."""
    text = to_text([name, arguments if arguments is not None else raw])
    return sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Used:
    """What a stateless run has used when it halts. Given to the call that resumes it (``used=result.used``) the limits
    go on counting; left out, they start anew. ``pending``: ids of the calls that waited for a person.
    """

    turns: int = 0
    calls: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    streaks: Streaks = field(default_factory=Streaks)
    pending: tuple[str, ...] = ()

    def as_json(self) -> JSONObject:
        """As a JSON object, to be kept between two requests."""
        return {**asdict(self), "usage": self.usage.as_json(), "pending": list(self.pending)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Used:
        """The inverse of :meth:`as_json`."""
        usage, streaks = Usage.from_json(data["usage"]), Streaks(**data["streaks"])
        return cls(data["turns"], data["calls"], data["seconds"], usage, streaks, tuple(data["pending"]))
