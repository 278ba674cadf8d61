"""Fixtures of the tests with stored sessions: a desk to drive them at, and the real runner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from allm_django import runtime
from allm_django.loop import points
from tests.integration.desk import Desk
from tests.integration.driving import until


@pytest.fixture
def running(transactional_db: None, settings: Any) -> Iterator[None]:
    """The runner of this process, quick to notice things; stopped afterwards, with all its threads."""
    settings.ALLM = {"POLL_SECONDS": 0.05, "RENEW_SECONDS": 0.05, "SWEEP_SECONDS": 0.05, "CANCEL_GRACE_SECONDS": 0.2}
    before = set(threading.enumerate())
    yield
    points.hook = None
    runtime.shutdown()
    until(lambda: not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("allm-")])


@pytest.fixture
def desk(db: None) -> Iterator[Desk]:
    """A desk whose tools are registered for the length of the test."""
    with ExitStack() as stack:
        yield Desk(stack)
