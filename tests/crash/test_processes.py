"""Processes that stop, hang, are told to end or to cancel, beside others that go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.children import ROOT, Children, children
from tests.crash.conftest import MakeDatabase

HANG = {"once": "hang", "idempotent": "hang_harmless"}


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL, or "" for SQLite."""
    url: str = request.getfixturevalue(f"on_{request.param}")(tmp_path)
    return url


@pytest.fixture
def pair(tmp_path: Path, database: str) -> Iterator[tuple[Children, Children]]:
    """Two processes with one database: the first drives what it starts, the second sweeps up."""
    with children(tmp_path, database, sweeper=False) as first, children(tmp_path, database) as second:
        yield first, second


def told(telling: Iterator[list[Any]], kind: str) -> Any:
    """The next thing of this kind that is told."""
    for what, value in telling:
        assert what != "failed", value
        if what == kind:
            return value
    raise AssertionError(f"{kind} was not told")


def stop(pid: int, stopped: Children) -> None:
    """Stop a process, but not in a transaction: SQLite has one lock for all, and a stopped process keeps it."""
    stand(pid)
    while not stopped.writable():
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)
        stand(pid)


def stand(pid: int) -> None:
    """Send SIGSTOP, and wait until no thread runs any more: one that still did could take a lock meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    while not all(state_of(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()):
        time.sleep(0.001)


def state_of(task: Path) -> str:
    """The letter of a thread's state; of one that has just ended, what everybody waits for."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "T"


def ledger(folder: Path) -> list[str]:
    """The kinds of the effects, in order."""
    return [line.split()[0] for line in (folder / "ledger").read_text().splitlines()]


def no_problem(children: Children) -> None:
    """Fail unless all rows are as they have to be."""
    assert children.do("inspect").get("problem", []) == []


@pytest.mark.parametrize("kind", ["once", "idempotent"])
def test_a_process_that_stood_still_beyond_its_lease_writes_nothing_when_it_goes_on(
    tmp_path: Path, database: str, kind: str
) -> None:
    gate = tmp_path / "gate"
    with (
        children(tmp_path, database, sweeper=False, renewal=False) as first,
        children(tmp_path, database) as second,
    ):
        stand_still(first, second, gate, kind)
        assert ledger(tmp_path) == ([HANG[kind]] if kind == "once" else [HANG[kind]] * 2)
        no_problem(second)


def stand_still(first: Children, second: Children, gate: Path, kind: str) -> None:
    """The first stops while its handler hangs, the second finishes, the first goes on."""
    telling = first.begin("stay", story={"calls": [[HANG[kind], str(gate)]]})
    pid = told(telling, "pid")
    told(telling, "at work")
    stop(pid, first)
    if kind == "once":
        second.do("finish")
        gate.touch()
    else:
        gate.touch()  # it runs again, with the same key
        second.do("finish")
    os.kill(pid, signal.SIGCONT)
    told(telling, "idle")
    os.kill(pid, signal.SIGUSR1)
    assert told(telling, "ended") == 0


@pytest.mark.row("L15")
def test_a_cancel_from_another_process_arrives_whatever_is_at_work(
    pair: tuple[Children, Children], tmp_path: Path
) -> None:
    first, second = pair
    for what in ("streaming", *HANG):
        gate = tmp_path / what
        story = {"calls": [[HANG[what], str(gate)]]} if what in HANG else {"calls": [], "until": str(gate)}
        telling = first.begin("stay", story=story)
        pid, session = told(telling, "pid"), told(telling, "acknowledged")
        told(telling, "at work")
        second.do("cancel", session=session)
        told(telling, "idle")
        gate.touch()
        os.kill(pid, signal.SIGUSR1)
        assert told(telling, "ended") == 0
        seen = second.do("look")["session"][-1]
        status = "awaiting_tools" if what == "once" else "completed"
        assert (seen["id"], seen["status"], seen["reason"]) == (session, status, "cancelled")
        second.do("finish")
    no_problem(second)


def test_a_process_told_to_end_gives_its_leases_back_at_once(pair: tuple[Children, Children], tmp_path: Path) -> None:
    first, second = pair
    gate = tmp_path / "gate"
    telling = first.begin("stay", story={"calls": [], "until": str(gate)})
    pid, session = told(telling, "pid"), told(telling, "acknowledged")
    told(telling, "at work")
    os.kill(pid, signal.SIGUSR1)
    assert told(telling, "ended") == 0
    [seen] = second.do("look")["session"]
    assert (seen["id"], seen["run"], seen["leased"]) == (session, "queued", False)
    gate.touch()
    second.do("finish")
    no_problem(second)


def test_a_server_that_is_terminated_gives_its_leases_back_and_the_next_process_goes_on(
    tmp_path: Path, on_sqlite: MakeDatabase
) -> None:
    gate = tmp_path / "gate"
    on_sqlite(tmp_path)
    with children(tmp_path) as beside:
        session = beside.do("start", story={"calls": [], "until": str(gate)})["acknowledged"][0]
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "tests.crash.asgi:application", "--port", "0", "--log-level", "warning"],
            cwd=ROOT,
            env=beside.environment,
        )
        beside.do("at_work", session=session, handler=False)
        server.terminate()
        assert server.wait(timeout=30) in (0, -signal.SIGTERM)
        [seen] = beside.do("look")["session"]
        assert (seen["run"], seen["leased"]) == ("queued", False)
        gate.touch()
        beside.do("finish")
        no_problem(beside)
