"""Settings of the tests: a file database as in production, everything else as fast as it can be.

ALLM_TEST_DATABASE: a postgresql:// URL to run on PostgreSQL (tests/README.md); default: SQLite in a new folder.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

FOLDER = Path(tempfile.mkdtemp(prefix="allm-tests-"))
OWNER = os.getpid()
os.environ["ALLM_VAR"] = str(FOLDER)  # e-mails and all else that the project writes

from project import databases  # noqa: E402
from project.settings import *  # noqa: E402, F403


def _remove() -> None:
    if os.getpid() == OWNER:  # not from a forked child
        shutil.rmtree(FOLDER, ignore_errors=True)


atexit.register(_remove)

DEBUG = False
SECRET_KEY = "only for tests, and long enough for the checks that look at it"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = False

if url := os.environ.get("ALLM_TEST_DATABASE", ""):
    DATABASES = {"default": databases.postgres(url)}
else:
    DATABASES = {"default": databases.sqlite(FOLDER / "base.sqlite3")}
    DATABASES["default"]["TEST"] = {"NAME": str(FOLDER / "test.sqlite3")}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STATIC_ROOT = FOLDER / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
