"""Runs whose time is up at a point of their work, however fast or slow the machine is."""

from __future__ import annotations

import asyncio

import pytest

from allm_django.loop import deadline, points

LIMITS = {"max_seconds": 3_600}
LEFT = 0.02  # seconds; nothing under test ends by itself


def time_runs_out(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Of the hour that a run may work by ``LIMITS``, ``LEFT`` is left once ``point`` is passed."""
    gone = 0.0

    def pass_point(name: str) -> None:
        nonlocal gone
        if name == point:
            gone = LIMITS["max_seconds"] - LEFT

    monkeypatch.setattr(deadline, "now", lambda: asyncio.get_running_loop().time() + gone)
    monkeypatch.setattr(points, "hook", pass_point)
