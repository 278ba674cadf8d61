"""Settings of the children that are killed: one database for all of them, leases of a second, no page."""

from __future__ import annotations

import os
from pathlib import Path

from project import databases

FOLDER = Path(os.environ["ALLM_CRASH_FOLDER"])
LEDGER = FOLDER / "ledger"

SECRET_KEY = "only for children of tests, and long enough for whoever looks at it"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "allm_django"]
DISPATCH = os.environ.get("ALLM_CRASH_DISPATCH", "inprocess.InProcess")
if DISPATCH == "procrastinate.Procrastinate":
    INSTALLED_APPS.append("procrastinate.contrib.django")
if DISPATCH == "celery.Celery":
    from tests.crash.queue import app as app  # the default app, which the tasks belong to
ROOT_URLCONF = "allm_django.urls"
DATABASES = {
    "default": databases.postgres(url)
    if (url := os.environ.get("ALLM_CRASH_DATABASE"))
    else databases.sqlite(FOLDER / "crash.sqlite3")
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
ALLM = {
    "DISPATCH": f"allm_django.runtime.dispatch.{DISPATCH}",
    "TOOL_MODULES": ["tests.crash.tools"],
    "PROVIDERS": {"story": "tests.crash.tools.story"},
    "LEASE_SECONDS": 1.0,
    "RENEW_SECONDS": float(os.environ.get("ALLM_CRASH_RENEW", "0.2")),
    "POLL_SECONDS": 0.1,
    "SWEEP_SECONDS": 0.1,
    "FLUSH_SECONDS": 0.005,
    "CANCEL_GRACE_SECONDS": 0.3,
    "DATABASE_THREADS": 2,
    "SWEEPER": os.environ.get("ALLM_CRASH_SWEEPER", "1") == "1",
}
