"""manage.py allm_verify: whether anyone tampered with the record of decisions."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from allm_django.errors import AllmError
from allm_django.store.verifying import Broken, Verification


class Command(BaseCommand):
    """See :class:`allm_django.store.verifying.Verification`."""

    help = "Check the chain of decisions of every session; name the first broken one of each. Exit code 1 if any is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """``--session`` and ``--json``."""
        parser.add_argument("--session", type=UUID, help="Only the session with this id.")
        parser.add_argument("--json", action="store_true", help="Write one JSON object, for programs.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Check, and print a line for each session that is broken."""
        try:
            check = Verification(options["session"])
            broken = [self._told(found, options) for found in check.broken()]
        except AllmError as error:
            raise CommandError(error.message) from error
        if options["session"] and not check.sessions:
            raise CommandError("There is no such session.")
        if options["json"]:
            report = {"sessions": check.sessions, "decisions": check.decisions, "broken": broken}
            self.stdout.write(json.dumps(report, default=str))
        elif not broken and options["verbosity"] > 0:
            self.stdout.write(f"{check.decisions} decisions of {check.sessions} sessions are as they were written.")
        if broken:
            raise CommandError(f"{len(broken)} of {check.sessions} sessions are broken.")

    def _told(self, found: Broken, options: dict[str, Any]) -> dict[str, Any]:
        if not options["json"]:
            self.stdout.write(f"{found.session_id}: {found.words}")
        return asdict(found)
