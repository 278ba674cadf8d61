"""manage.py allm_purge: remove old sessions, or all of one person's."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from allm_django.errors import AllmError, StateError
from allm_django.store import clock, purging

UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class Command(BaseCommand):
    """See :mod:`allm_django.store.purging`."""

    help = "Remove sessions with all that is in them, each in a transaction of its own; a tombstone stays for each."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which sessions; ``--dry-run``."""
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--older-than", metavar="90d", help="Untouched for so long: 36h, 90d or 8w.")
        which.add_argument("--user", metavar="KEY", help="All sessions of the user with this primary key.")
        parser.add_argument("--dry-run", action="store_true", help="Only say how many there are.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Remove them, and say how many; exit code 1 if sessions of the person had to stay."""
        try:
            wanted = _wanted(options)
            gone = _count(wanted) if options["dry_run"] else _purge(wanted)
        except AllmError as error:
            raise CommandError(error.message) from error
        stay = purging.count_open(wanted)
        if options["verbosity"] > 0:
            would = "would be " if options["dry_run"] else ""
            self.stdout.write(f"{gone} sessions {would}removed, {stay} at work or waiting for someone are left.")
        if stay and wanted.owner is not None and not options["dry_run"]:
            raise CommandError("Cancel these sessions, then run this again: the person's data are not all erased.")


def _wanted(options: dict[str, Any]) -> purging.Wanted:
    if options["older_than"]:
        return purging.Wanted(before=clock.now() - _age(options["older_than"]))
    try:
        return purging.Wanted(owner=get_user_model()._default_manager.get(pk=options["user"]))
    except (get_user_model().DoesNotExist, ValueError, ValidationError) as error:
        raise CommandError(f"There is no user with the key {options['user']!r}.") from error


def _count(wanted: purging.Wanted) -> int:
    return sum(1 for _ in purging.session_ids(wanted))


def _purge(wanted: purging.Wanted) -> int:
    gone = 0
    for session_id in purging.session_ids(wanted):
        try:
            gone += purging.purge_session(session_id, wanted) is not None
        except StateError:
            continue  # taken up meanwhile: it is among those that are left
    if wanted.owner is not None:
        purging.forget(wanted.owner)
    return gone


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"([1-9]\d{0,4})([hdw])", text)
    if not found:
        raise CommandError(f"--older-than: {text!r} is not a time such as 36h, 90d or 8w.")
    return timedelta(**{UNITS[found[2]]: int(found[1])})
