"""What a run spent its time on: the model, the tools, people; read from its session's events (M05)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from allm_django.core.states import CallState
from allm_django.models import Event, Run
from allm_django.store import clock

MODEL, TOOL, PEOPLE, RECIPE = "model", "tool", "people", "recipe"
MOST_EVENTS = 2_000
# An event bears the time at which its transaction began, a run that at which its row was made.
EARLIER = timedelta(seconds=1)
KINDS = {
    CallState.EXECUTING: TOOL,
    CallState.DELEGATED: RECIPE,
    CallState.PENDING: PEOPLE,
    CallState.ASKING: PEOPLE,
    CallState.UNKNOWN: PEOPLE,
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """One thing that took time: seconds from the run's start. ``going``: it has not ended. ``key``: the call's id."""

    kind: str
    title: str
    key: str
    state: str
    start: float
    end: float
    going: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run's stretches in order of their start. ``cut``: there were more events than are read."""

    stretches: tuple[Stretch, ...]
    total: float
    cut: bool

    @classmethod
    def of(cls, run: Run) -> Timeline:
        """One query; a run whose events were removed has no stretches."""
        end = run.ended_at or clock.now()
        rows = Event.objects.filter(
            session_id=run.session_id, created_at__gte=run.created_at - EARLIER, created_at__lte=end
        )
        found = list(rows.order_by("number").values_list("created_at", "data")[: MOST_EVENTS + 1])
        reading = _Reading(str(run.pk), min([run.created_at, *(at for at, _data in found[:1])]))
        for at, data in found[:MOST_EVENTS]:
            reading.read(at, data)
        total = max((end - reading.zero).total_seconds(), 0.0)
        stretches = [*reading.done, *reading.rest(total, going=run.ended_at is None)]
        ordered = sorted(stretches, key=lambda one: (one.start, one.end))
        return cls(tuple(ordered), total, len(found) > MOST_EVENTS)

    def spent(self, *kinds: str) -> float:
        """Seconds in which at least one stretch of these kinds went on."""
        return sum(end - start for start, end in merged(self.spans(*kinds)))

    def spans(self, *kinds: str) -> Iterator[tuple[float, float]]:
        """Start and end of each stretch of these kinds."""
        return ((one.start, one.end) for one in self.stretches if one.kind in kinds)


class _Reading:
    """Follows messages and calls of one run through the events: what each was doing since when."""

    def __init__(self, run: str, zero: datetime) -> None:
        self.run, self.zero = run, zero
        self.done: list[Stretch] = []
        self._open: dict[str, Stretch] = {}

    def read(self, at: datetime, data: Mapping[str, Any]) -> None:
        """What an event tells."""
        now = max((at - self.zero).total_seconds(), 0.0)
        for message in data.get("messages") or ():
            if message.get("run") == self.run and message.get("role") == "assistant":
                kind = MODEL if message.get("streaming") else ""
                self._turn(now, kind, str(message["id"]), str(message.get("model") or ""), "")
        for call in data.get("calls") or ():
            if call.get("run") == self.run:
                state = str(call.get("state"))
                self._turn(now, KINDS.get(_state(state), ""), str(call["id"]), str(call.get("title")), state)  # type: ignore[arg-type]

    def _turn(self, now: float, kind: str, key: str, title: str, state: str) -> None:
        before = self._open.pop(key, None)
        if before is not None and (before.kind, before.state) == (kind, state):
            self._open[key] = before
            return
        if before is not None:
            self.done.append(_ended(before, now, going=False))
        if kind:
            self._open[key] = Stretch(kind, title, "" if kind == MODEL else key, state, now, now)

    def rest(self, now: float, *, going: bool) -> Iterator[Stretch]:
        """What no event ended."""
        return (_ended(one, now, going=going) for one in self._open.values())


def _state(text: str) -> CallState | None:
    return CallState(text) if text in set(CallState) else None


def _ended(one: Stretch, now: float, *, going: bool) -> Stretch:
    return Stretch(one.kind, one.title, one.key, one.state, one.start, max(now, one.start), going)


def merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans without overlap, in order."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
