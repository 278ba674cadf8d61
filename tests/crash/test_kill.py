"""Kill the process at every point that the engine passes; a fresh one finishes, and nothing is lost or done twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crash.children import Children, children

STORIES: dict[str, dict[str, Any]] = {
    "idempotent": {"calls": [["note", "a"]]},
    "once": {"calls": [["charge", "a"]]},
    "manual": {"calls": [["refund", "a"]]},
    "together": {"calls": [["note", "a"], ["charge", "b"], ["refund", "c"]], "again": True},
    "recipe": {"calls": [["errand", "a"]]},
}
SINGLE = ("idempotent", "once", "manual", "recipe")
Kill = tuple[str, str, int]  # story, point, at its n-th pass


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.storm)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL, or "" for SQLite."""
    url: str = request.getfixturevalue(f"on_{request.param}")(tmp_path)
    return url


@pytest.fixture
def killed(tmp_path: Path, database: str) -> Iterator[Children]:
    """Children that drive the sessions they start, and no others."""
    with children(tmp_path, database, sweeper=False) as made:
        yield made


def passes(killed: Children, names: Sequence[str]) -> list[Kill]:
    """Every pass of every point in these stories."""
    return [(name, *pass_) for name in names for pass_ in killed.do("live", story=STORIES[name])["point"]]


def kill_and_finish(killed: Children, database: str, kills: Sequence[Kill]) -> set[str]:
    """Kill a session's process at each of these, let a fresh process finish all; the points where one died."""
    died, acknowledged, approved = set[str](), set[str](), set[str]()
    for story, point, number in kills:
        told = killed.do("live", story=STORIES[story], kill_at=[point, number])
        assert told["ended"] == [-9 if "died at" in told else 0]
        died.update(told.get("died at", ()))
        acknowledged.update(told.get("acknowledged", ()))
        approved.update(told.get("approved", ()))
    with children(killed.folder, database) as fresh:
        fresh.do("finish")
        seen = fresh.do("inspect", approved=sorted(approved))
    assert seen.get("problem", []) == []
    assert acknowledged <= set(seen["session"])
    return died


def one_of_each_point(all_passes: Sequence[Kill]) -> list[Kill]:
    """A random pass of each point, in a short story if one has it."""
    mixed = random.sample(all_passes, len(all_passes))
    mixed.sort(key=lambda kill: kill[0] in SINGLE)
    return list({point: (story, point, number) for story, point, number in mixed}.values())


@pytest.mark.row("S06", "H07")
def test_killed_at_any_point_a_fresh_process_finishes_and_nothing_runs_twice(killed: Children) -> None:
    all_passes = passes(killed, list(STORIES))
    died = kill_and_finish(killed, "", one_of_each_point(all_passes))
    first = min(number for _, _, number in all_passes)  # a later pass of a point may not come again, its first one does
    early = one_of_each_point([kill for kill in all_passes if kill[2] == first])
    if missed := [kill for kill in early if kill[1] not in died]:
        died |= kill_and_finish(killed, "", missed)
    assert {point for _, point, _ in all_passes} - died <= LATE


# whether a given pass of these comes may vary with who wakes whom, and when
LATE = {"claim:before", "claim:after", "flush:before", "flush:after", "load:before", "load:after", "halt:after"}


@pytest.mark.row("H07")
@pytest.mark.storm
def test_killed_at_every_pass_of_every_point(killed: Children, database: str) -> None:
    kill_and_finish(killed, database, passes(killed, SINGLE))
