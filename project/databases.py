"""The two databases that the project runs on, as values for Django's DATABASES.

PostgreSQL is named by a URL, ``postgresql://user:password@host:port/name``; a socket folder goes into the
query: ``postgresql://user@/name?host=/run/postgresql&port=5432``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def sqlite(path: Path) -> dict[str, Any]:
    """SQLite in the file ``path``; WAL and BEGIN IMMEDIATE, without which parallel writers get "database is locked"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def postgres(url: str) -> dict[str, Any]:
    """PostgreSQL at ``url``. Raises ImproperlyConfigured for any other kind of URL."""
    parts = urlsplit(url)
    name = unquote(parts.path.lstrip("/"))
    if parts.scheme not in ("postgres", "postgresql") or not name:
        raise ImproperlyConfigured(f"{url!r} is not a database; write postgresql://user:password@host:port/name.")
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if unknown := set(query) - {"host", "port"}:
        raise ImproperlyConfigured(
            f"{', '.join(sorted(unknown))}: unknown in a database URL; host and port are allowed."
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or query.get("host", ""),
        "PORT": str(parts.port or query.get("port", "")),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }
