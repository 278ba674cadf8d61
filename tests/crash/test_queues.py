"""Celery and procrastinate with their real workers: web processes enqueue, workers run, a stop loses nothing (E06)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.crash.children import ROOT, Children, children
from tests.crash.conftest import MakeDatabase
from tests.crash.test_processes import ledger, no_problem

CELERY = ["celery", "-q", "-A", "tests.crash.queue", "worker", "--pool", "threads", "-c", "50", "--without-mingle",
          "--without-gossip", "--without-heartbeat", "-l", "warning"]  # fmt: skip
PROCRASTINATE = ["django", "procrastinate", "worker", "--concurrency", "50", "--shutdown-graceful-timeout", "0.5"]


class Queue:
    """Web processes, and workers that can be started and told to end."""

    def __init__(self, web: Children, command: list[str]) -> None:
        self.web = web
        self._command = command

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A real worker, for as long as the block lasts; it has to end well when it is told to."""
        process = subprocess.Popen([sys.executable, "-m", *self._command], cwd=ROOT, env=self.web.environment)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
        assert process.returncode == 0


@pytest.fixture(params=["celery", "procrastinate"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queue]:
    """A queue of that kind, with nobody at work yet: Celery on Redis, procrastinate on PostgreSQL."""
    make: MakeDatabase
    if request.param == "celery":
        settings = {
            "ALLM_CRASH_DISPATCH": "celery.Celery",
            "ALLM_CRASH_BROKER": request.getfixturevalue("redis_url"),
        }
        make, command = request.getfixturevalue("on_sqlite"), CELERY
        database = make(tmp_path)
    else:
        settings = {"ALLM_CRASH_DISPATCH": "procrastinate.Procrastinate"}
        url, name = request.getfixturevalue("postgres_url"), f"queue_{os.urandom(6).hex()}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        database, command = url.rsplit("/", 1)[0] + "/" + name, PROCRASTINATE
    with children(tmp_path, database, queue=settings) as web:
        if database:
            web.do("migrate")
        yield Queue(web, command)


def test_a_worker_runs_what_web_processes_enqueue_and_a_stop_in_mid_stream_loses_nothing(
    queue: Queue, tmp_path: Path
) -> None:
    gate, web = tmp_path / "gate", queue.web
    with queue.worker():
        done = web.do("live", story={"calls": [["note", "a"], ["refund", "b"]]})
        assert done["ran here"] == [False]
        assert sorted(ledger(tmp_path)) == ["note", "refund"]
        story = {"calls": [["charge", "c"]], "until": str(gate)}
        [session] = web.do("start", story=story, lost=False)["acknowledged"]
        web.do("at_work", session=session, handler=False)
    [_, seen] = web.do("look")["session"]
    assert (seen["id"], seen["run"], seen["leased"]) == (session, "queued", False)
    gate.touch()
    with queue.worker():
        web.do("settled")
    assert sorted(ledger(tmp_path)) == ["charge", "note", "refund"]
    no_problem(web)
