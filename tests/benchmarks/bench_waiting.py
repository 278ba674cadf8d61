"""What sessions that wait for a person hold: nothing but rows.

Run: python -m tests.benchmarks.bench_waiting [--sessions 200]
The runner drives them all to a manual call; then threads, tasks, sockets, leases and memory are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.core.management import call_command  # noqa: E402
from django.test.utils import override_settings  # noqa: E402

import allm_django as allm  # noqa: E402
from allm_django import runtime, sessions  # noqa: E402
from allm_django.models import Engine, Session, Tool  # noqa: E402
from allm_django.runtime.runner import runner  # noqa: E402
from allm_django.store.tools import save_tool  # noqa: E402
from allm_django.testing import ScriptedModel, call, registered  # noqa: E402


@allm.tool(manual=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@dataclass(frozen=True, slots=True)
class Held:
    """What the process holds."""

    threads: int
    tasks: int
    sockets: int
    leases: int
    kilobytes: int

    @classmethod
    def now(cls) -> Held:
        """Count."""
        gc.collect()
        tasks = asyncio.run_coroutine_threadsafe(_tasks(), runner._loop).result()
        sockets = sum(isinstance(thing, socket.socket) and thing.fileno() >= 0 for thing in gc.get_objects())
        leases = Session.objects.exclude(lease_owner=None).count()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(threading.active_count(), tasks, sockets, leases, pages * os.sysconf("SC_PAGE_SIZE") // 1024)


async def _tasks() -> int:
    return len(asyncio.all_tasks()) - 1


def warm_up(engine: Engine) -> None:
    """One session to its halt, so that all that is made once is there."""
    sessions.wait(sessions.start(engine, user=None, text="Pay."), timeout=60)


def main() -> None:
    """Print the figures; the exit status says whether the waiting hold nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    with override_settings(ALLM={"SWEEPER": False}), registered(pay) as code:
        row = Tool(name=code.name, handler=code.key, description=code.description, schema=code.schema, enabled=True)
        save_tool(row)
        model = ScriptedModel([call("pay", {"amount": 1})], loop=True)
        engine = Engine.objects.create(name="bench", model=model.id)
        warm_up(engine)
        before = Held.now()
        started = time.perf_counter()
        rows = [sessions.start(engine, user=None, text="Pay.") for _ in range(options.sessions)]
        waiting = [sessions.wait(row, timeout=300) for row in rows]
        seconds = time.perf_counter() - started
        after = Held.now()
        assert {one.status for one in waiting} == {"awaiting_tools"}
        runtime.shutdown()
    print(f"{options.sessions} sessions came to wait in {seconds:.1f} s")
    print(f"before {before}")
    print(f"after  {after}")
    print(f"{(after.kilobytes - before.kilobytes) / options.sessions:.1f} KiB of memory a waiting session")
    more = (after.threads > before.threads, after.tasks > 0, after.sockets > before.sockets, after.leases > 0)
    raise SystemExit(any(more))


if __name__ == "__main__":
    main()
