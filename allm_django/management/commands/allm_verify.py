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
        if options["session"] and not check.sessions + check.purged:
            raise CommandError("There is no such session.")
        self._report(check, broken, options)
        if broken:
            raise CommandError(f"{len(broken)} of {check.sessions + check.purged} sessions are broken.")

    def _report(self, check: Verification, broken: list[dict[str, Any]], options: dict[str, Any]) -> None:
        counts = {"sessions": check.sessions, "decisions": check.decisions, "purged": check.purged}
        if options["json"]:
            self.stdout.write(json.dumps({**counts, "broken": broken}, default=str))
        elif not broken and options["verbosity"] > 0:
            self.stdout.write(f"{check.decisions} decisions of {check.sessions} sessions are as they were written.")
            if options["session"]:
                for stone in check.tombstones():
                    held = ", ".join(f"{count} {name}" for name, count in stone.counts.items())
                    when = f"{stone.purged_at:%Y-%m-%d %H:%M}"
                    self.stdout.write(f"Purged at {when} ({stone.get_why_display()}), with {held}.")
            elif check.purged:
                self.stdout.write(f"{check.purged} sessions were purged; each has its tombstone.")

    def _told(self, found: Broken, options: dict[str, Any]) -> dict[str, Any]:
        if not options["json"]:
            self.stdout.write(f"{found.session_id}: {found.words}")
        return asdict(found)
