"""What the store tells the rooms above it once a transaction has committed; ``runtime`` listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Model
from django.dispatch import Signal

from allm_django.models import Event

Published = Callable[[UUID, Sequence[Event], bool], None]
Woken = Callable[[UUID], None]
Sent: TypeAlias = tuple[Signal, type[Model], dict[str, Any]]

_on_events: list[Published] = []
_on_wake: list[Woken] = []


def listen(on_events: Published, on_wake: Woken) -> None:
    """Register who hears of committed events ``(session, events, inbox changed)`` and of sessions to run."""
    if on_events not in _on_events:
        _on_events.append(on_events)
    if on_wake not in _on_wake:
        _on_wake.append(on_wake)


def publish(session_id: UUID, events: Sequence[Event], inbox: bool) -> None:
    """Tell of committed events."""
    for listener in _on_events:
        listener(session_id, events, inbox)


def wake(session_id: UUID) -> None:
    """Tell that a session has something to run."""
    for listener in _on_wake:
        listener(session_id)


def send(signals: Sequence[Sent]) -> None:
    """Send Django signals; a receiver that raises is logged by Django and stops nothing."""
    for signal, sender, words in signals:
        signal.send_robust(sender, **words)
