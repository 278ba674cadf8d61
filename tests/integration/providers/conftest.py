from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.providers.server import Server, running_server


@pytest.fixture(scope="session")
def provider_on_loopback() -> Iterator[Server]:
    """One for all tests: building a client for each would cost more than the tests."""
    with running_server() as running:
        yield running


@pytest.fixture
def server(provider_on_loopback: Server) -> Server:
    """A provider on loopback that remembers nothing of other tests."""
    provider_on_loopback.forget()
    return provider_on_loopback
