"""manage.py allm_export: a session as JSON."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from allm_django import sessions
from allm_django.errors import AllmError
from allm_django.models import Session
from allm_django.present.transcript import transcript


class Command(BaseCommand):
    """See :func:`allm_django.sessions.export`."""

    help = "Print a session as versioned JSON. Sensitive fields are masked unless --clear is given."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The session's id, ``--markdown`` and ``--clear``."""
        parser.add_argument("session", type=UUID, help="The session's id.")
        parser.add_argument("--markdown", action="store_true", help="Print it as Markdown, to read.")
        parser.add_argument("--clear", action="store_true", help="Show sensitive fields.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write it."""
        try:
            data = sessions.export(Session(pk=options["session"]), clear=options["clear"])
        except AllmError as error:
            raise CommandError(error.message) from error
        if options["markdown"]:
            self.stdout.write(transcript(data))
            return
        self.stdout.write(json.dumps(data, ensure_ascii=False, indent=1))
