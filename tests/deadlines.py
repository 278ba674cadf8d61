"""Runs whose time is up at a point of their work, however fast or slow the machine is."""

from __future__ import annotations

import pytest

from allm_django.loop import points
from allm_django.loop.deadline import Deadline

LIMITS = {"max_seconds": 3_600}
LEFT = 0.02  # seconds; nothing under test ends by itself
WAITS = ("provider:before", "handler:before")


def time_runs_out(monkeypatch: pytest.MonkeyPatch, point: str, left: float = LEFT) -> None:
    """Once ``point`` is passed, ``left`` seconds are left of the time, and none after the next wait for a model or
    handler, which is that long.
    """
    now = float(LIMITS["max_seconds"])
    passed = False

    def pass_point(name: str) -> None:
        nonlocal now, passed
        if passed and name in WAITS:
            now = 0.0
        if name == point:
            now, passed = left, True

    monkeypatch.setattr(Deadline, "left", property(lambda _: now))
    monkeypatch.setattr(points, "hook", pass_point)
