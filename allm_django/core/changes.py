"""What differs between two JSON values, place by place: so that a person sees what changed, not that it did (H04)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from allm_django.core.types import JSON


class Absent(Enum):
    """Stands for a place that the value does not have; ``null`` is a value."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Change:
    """One place: the keys that lead to it, and what was and is there."""

    path: tuple[str, ...]
    before: JSON | Absent
    after: JSON | Absent


def changes(before: JSON | Absent, after: JSON | Absent, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """The places where ``after`` differs, in the order of ``before`` and then of what is new.

    Objects are compared key by key; anything else, lists included, is one place. ``1`` and ``true`` differ.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from changes(before.get(key, ABSENT), after.get(key, ABSENT), (*path, key))
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        yield Change(path, before, after)
