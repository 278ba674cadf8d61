"""Settings of the server that bench_streaming measures."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("ALLM_VAR", os.environ["ALLM_BENCH"])

from project import databases
from project.settings import *  # noqa: F403

FOLDER = Path(os.environ["ALLM_BENCH"])
DEBUG = False
SECRET_KEY = "only for a benchmark, and long enough for the checks that look at it"
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = False
DATABASES = {"default": databases.sqlite(FOLDER / "bench.sqlite3")}
ALLM = {
    "PROVIDERS": {"tokens": "tests.benchmarks.stream_server.tokens"},
    "SOCKETS_PER_USER": 1000,
    "SWEEP_SECONDS": 0.2,
    "POLL_SECONDS": float(os.environ.get("ALLM_BENCH_POLL", "2")),
    **({} if os.environ.get("ALLM_BENCH_SERVER") else {"DISPATCH": "tests.integration.dispatches.Lost"}),
    "SWEEPER": os.environ.get("ALLM_BENCH_SERVER") == "1",
}
