"""manage.py allm_import: a session from JSON."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from allm_django import sessions
from allm_django.errors import AllmError


class Command(BaseCommand):
    """See :func:`allm_django.sessions.import_`."""

    help = "Make a session from what allm_export wrote. It arrives at rest: calls that were open are cancelled."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The file, its owner and its engine."""
        parser.add_argument("file", help="The file; - for the standard input.")
        parser.add_argument("--user", required=True, help="The name of the user who will own it.")
        parser.add_argument("--engine", help="The engine's name; by default the one that the file names.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write it, and print its new id."""
        owner = get_user_model().objects.filter(**{get_user_model().USERNAME_FIELD: options["user"]}).first()
        if owner is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        try:
            data = json.loads(_read(options["file"]))
            engine = options["engine"] or _engine_of(data)
            self.stdout.write(str(sessions.import_(data, user=owner, engine=engine).pk))
        except OSError as error:
            raise CommandError(f"The file can't be read: {error}") from error
        except ValueError as error:
            raise CommandError(f"The file is not JSON: {error}") from error
        except AllmError as error:
            raise CommandError(error.message) from error


def _read(name: str) -> str:
    return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")


def _engine_of(data: Any) -> str:
    """The engine that the file names, or ``""``, which none is called."""
    session = data.get("session") if isinstance(data, dict) else None
    return str(session.get("engine", "")) if isinstance(session, dict) else ""
