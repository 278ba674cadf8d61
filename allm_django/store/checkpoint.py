"""SQLite's write-ahead log, copied into the database beside its writers."""

from __future__ import annotations

from django.db import connections

from allm_django.store.writing import alias


def checkpoint() -> bool:
    """Copy what can be copied without anybody waiting for it; whether this database has such a log.

    SQLite would else do it in the middle of a commit, whenever 1,000 pages are written, and all that streams would
    stand still for 20 to 40 ms (tests/benchmarks/bench_streaming.py).
    """
    connection = connections[alias()]
    if connection.vendor != "sqlite":
        return False
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
        busy, pages, _ = cursor.fetchone()
    return bool(busy) or pages >= 0
