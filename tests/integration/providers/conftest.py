from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.providers.server import Server, running_server


@pytest.fixture
def server() -> Iterator[Server]:
    """A provider on loopback."""
    with running_server() as running:
        yield running
