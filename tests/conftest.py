"""Fixtures that all tests share, and what is not run by default. tests/README.md tells the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import services
from tests.rows import ROWS

MARKS = {
    "both_databases": "runs on SQLite, and once more on PostgreSQL (make test does both)",
    "row(*ids)": "rows of the checklist (tests/rows.py) that this test shows; docs/conformance.md lists them",
    "storm": "long random crash runs: make storm",
}
ON_DEMAND = {"storm"}


def pytest_configure(config: pytest.Config) -> None:
    """Register our marks."""
    for name, words in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {words}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is only run on demand, unless -m speaks of it."""
    left_out = {name for name in ON_DEMAND if name not in config.option.markexpr}
    unwanted = [item for item in items if left_out & {mark.name for mark in item.iter_markers()}]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in set(unwanted)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse marks of rows that there are not."""
    unknown = [id for mark in item.iter_markers("row") for id in mark.args or ["(none)"] if id not in ROWS]
    if unknown:
        pytest.fail(f"@pytest.mark.row takes ids of tests/rows.py as text, not {unknown}", pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One visible line for each program that was not there."""
    skipped = terminalreporter.stats.get("skipped", [])
    for words in sorted({str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)}):
        terminalreporter.write_line(words, yellow=True)


def absent(error: services.AbsentError) -> None:
    """Skip with the line that says what to install; fail if everything has to be there."""
    if services.required():
        pytest.fail(str(error), pytrace=False)
    pytest.skip(str(error))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server of our own, for tests with child processes; each makes its own database."""
    try:
        with services.postgres() as url:
            yield url
    except services.AbsentError as error:
        absent(error)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of a Redis of our own."""
    try:
        with services.redis() as url:
            yield url
    except services.AbsentError as error:
        absent(error)


@pytest.fixture(scope="session")
def chromium_path() -> Path:
    """Where Chromium is, for Playwright's ``executable_path``."""
    try:
        return services.chromium()
    except services.AbsentError as error:
        absent(error)
        raise
