"""The loop's four doors as a fixture."""

from __future__ import annotations

import pytest

from tests.unit.loop.twins import LOOPS, Loop


@pytest.fixture(params=LOOPS, ids=str)
def loop(request: pytest.FixtureRequest) -> Loop:
    """``loop(engine, messages, **options) -> ChatResult``, by each door in turn."""
    return LOOPS[request.param]
