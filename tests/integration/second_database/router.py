"""The host project's router. People are joined with their conversations, so both live in the same database."""

from __future__ import annotations

from typing import Any

TOGETHER = {"allm_django", "auth", "contenttypes", "sessions", "admin"}


class Router:
    """Sends our app, and what it is joined with, to ``assistant``; all else to ``default``."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        """By app."""
        return "assistant" if model._meta.app_label in TOGETHER else "default"

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        """Each app's tables in its own database only."""
        return (db == "assistant") == (app_label in TOGETHER)
