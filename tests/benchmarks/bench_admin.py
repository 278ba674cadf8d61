"""What the admin's pages cost the database: queries, and milliseconds in them, on PostgreSQL.

    python -m tests.benchmarks.bench_admin                     100,000 calls, a cluster of its own
    python -m tests.benchmarks.bench_admin --calls 1000000     the figures of docs; takes some minutes

Bar: each list page at most 10 queries and 100 ms of database time at a million calls. The others are told, too. A page
is asked ROUNDS times by someone who may see everything but is no superuser; the least of them counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests import services

ROUNDS = 5
MOST_QUERIES, MOST_MS = 10, 100.0
LISTS = ("session", "run", "toolcall", "pendingcall", "decision", "event", "worker", "tool", "engine")


class Clock:
    """Counts queries and the time in them."""

    def __init__(self) -> None:
        self.queries, self.seconds = 0, 0.0
        self.slowest = (0.0, "")

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        """Django's hook around each query."""
        start = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            took = time.perf_counter() - start
            self.queries, self.seconds = self.queries + 1, self.seconds + took
            self.slowest = max(self.slowest, (took, sql))


def measure(calls: int, sql: bool) -> None:
    """Make the rows in the database that the settings name, and print a line a page."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    start = time.perf_counter()
    with no_runner():
        _fill(calls)
        told = time.perf_counter() - start
        sys.stdout.write(f"{calls} calls made in {told:.0f} s\n{'page':44} {'queries':>7} {'database ms':>12}\n")
        for name, address, is_list in _pages():
            _line(name, address, is_list, sql)


@contextmanager
def no_runner() -> Iterator[None]:
    """Requests start no runner inside the block."""
    from tests.integration.cast import without_runner

    with without_runner():
        yield


def _fill(calls: int) -> None:
    from django.contrib.auth.models import Permission, User

    from allm_django.models import Engine, Worker
    from tests.benchmarks.million import make
    from tests.integration.admin_rows import LOOKUP, REFUND, make_tool

    tools = [make_tool(f"look_{n}", handler=LOOKUP) for n in range(6)]
    tools += [make_tool(f"refund_{n}", handler=REFUND, manual=True, sensitive=["card"]) for n in range(2)]
    people = [User.objects.create_user(f"person-{n}", is_staff=True) for n in range(40)]
    people[0].user_permissions.set(Permission.objects.filter(content_type__app_label="allm_django"))
    engine = Engine.objects.create(name="desk", model="planner:desk")
    from django.utils import timezone

    now = timezone.now()
    Worker.objects.create(host="here", pid=1, version="1", started_at=now, seen_at=now)
    make(calls, tools=tools, people=people, engine=engine)


def _pages() -> Iterator[tuple[str, str, bool]]:
    from django.urls import reverse

    from allm_django.models import Run, Session, ToolCall

    call = ToolCall.objects.order_by("-created_at")[1000]
    for name in LISTS:
        yield f"{name} list", reverse(f"admin:allm_django_{name}_changelist"), True
    lists = {name: reverse(f"admin:allm_django_{name}_changelist") for name in LISTS}
    yield "session list, page 50", lists["session"] + "?p=50", True
    yield "session list, by status", lists["session"] + "?status__exact=awaiting_tools", True
    yield "session list, by owner's name", lists["session"] + "?q=person-7", True
    yield "toolcall list, page 90", lists["toolcall"] + "?p=90", True
    yield "toolcall list, those that failed", lists["toolcall"] + "?outcome=failed", True
    yield "toolcall list, by session's id", f"{lists['toolcall']}?q={call.session_id}", True
    yield "toolcall list, by start of an id", f"{lists['toolcall']}?q={call.pk.hex[:10]}", True
    yield "toolcall list, by owner's name", f"{lists['toolcall']}?q=person-7", True
    yield "run list, those that wait", lists["run"] + "?state__exact=waiting", True
    yield "decision list, rejected ones", lists["decision"] + "?verb=reject", True
    yield "decision list, by session's id", f"{lists['decision']}?q={call.session_id}", True
    yield "event list, by session's id", f"{lists['event']}?q={call.session_id}", True
    yield "pendingcall list, mine", lists["pendingcall"] + "?mine=yes&age=1", True
    for row, key in ((Session, call.session_id), (Run, call.run_id), (ToolCall, call.pk)):
        yield (
            f"{row._meta.model_name} page",
            reverse(f"admin:allm_django_{row._meta.model_name}_change", args=[key]),
            False,
        )
    for days in (7, 30, 90):
        yield f"overview, {days} days", reverse("admin:allm_django_overview_changelist") + f"?days={days}", False


def _line(name: str, address: str, is_list: bool, sql: bool) -> None:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client

    client = Client()
    client.force_login(User.objects.get(username="person-0"))
    clocks = []
    for _ in range(ROUNDS):
        clock = Clock()
        with connection.execute_wrapper(clock):
            answer = client.get(address)
        assert answer.status_code == 200, (address, answer.status_code)
        clocks.append(clock)
    queries, ms = clocks[-1].queries, min(clock.seconds for clock in clocks) * 1000
    over = is_list and (queries > MOST_QUERIES or ms > MOST_MS)
    sys.stdout.write(f"{name:44} {queries:7} {ms:12.1f}{'   over the bar' if over else ''}\n")
    if sql and (over or ms > MOST_MS):
        sys.stdout.write(f"    {clocks[-1].slowest[0] * 1000:.1f} ms: {clocks[-1].slowest[1]}\n")
    sys.stdout.flush()


def main() -> None:
    """Start a cluster and measure in it; or measure in the one that ALLM_TEST_DATABASE names."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--calls", type=int, default=100_000)
    words.add_argument("--sql", action="store_true", help="print the slowest query of each page over the bar")
    wanted = words.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    if os.environ.get("ALLM_TEST_DATABASE"):
        measure(wanted.calls, wanted.sql)
        return
    command = [sys.executable, "-m", "tests.benchmarks.bench_admin", *sys.argv[1:]]
    try:
        with services.postgres() as url:
            sys.exit(subprocess.run(command, check=False, env=os.environ | {"ALLM_TEST_DATABASE": url}).returncode)
    except services.AbsentError as absent:
        sys.stdout.write(f"skipped: {absent}\n")


if __name__ == "__main__":
    main()
