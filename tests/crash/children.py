"""Children of the tests: a process that forks, asked over pipes (tests/crash/child.py answers)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Children:
    """One database with its ledger, and the process that forks children which work on it.

    Without ``sweeper`` they drive only what they start; without ``renewal`` they keep a lease for a second and write
    nothing of their own accord, so that one may be stopped without a lock in its hands. ``queue``: what the settings
    need to know of one that brings the work to workers.
    """

    def __init__(
        self,
        folder: Path,
        database: str = "",
        *,
        sweeper: bool = True,
        renewal: bool = True,
        queue: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ALLM_")}
        self.environment = environment | {
            "DJANGO_SETTINGS_MODULE": "tests.crash.settings",
            "ALLM_CRASH_FOLDER": str(folder),
            "ALLM_CRASH_DATABASE": database,
            "ALLM_CRASH_SWEEPER": "1" if sweeper else "0",
            "ALLM_CRASH_RENEW": "0.2" if renewal else "3600",
            **(queue or {}),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.child"],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def begin(self, do: str, **arguments: Any) -> Iterator[list[Any]]:
        """Let a fork do something; what it tells, as it tells it. Read it to its end before the next."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            told = json.loads(line)
            yield told
            if told[0] == "ended":
                return
        raise AssertionError("The process that forks is gone.")

    def do(self, do: str, **arguments: Any) -> dict[str, list[Any]]:
        """The same, to its end: what was told, by kind. Fails if the fork did."""
        told: dict[str, list[Any]] = {}
        for kind, value in self.begin(do, **arguments):
            told.setdefault(kind, []).append(value)
        assert "failed" not in told, told["failed"][0]
        return told

    def writable(self) -> bool:
        """Whether nobody holds SQLite's lock for writing."""
        if self.environment["ALLM_CRASH_DATABASE"]:
            return True
        connection = sqlite3.connect(self.folder / "crash.sqlite3", timeout=0.2, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return True

    def close(self) -> None:
        """End the process, and whatever it has forked."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()


@contextmanager
def children(folder: Path, database: str = "", **options: Any) -> Iterator[Children]:
    """Children on that database."""
    made = Children(folder, database, **options)
    try:
        yield made
    finally:
        made.close()
