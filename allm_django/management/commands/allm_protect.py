"""manage.py allm_protect: let PostgreSQL refuse changes to the record."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from allm_django.errors import AllmError
from allm_django.store import protecting


class Command(BaseCommand):
    """See :mod:`allm_django.store.protecting`."""

    help = "Install or remove triggers by which PostgreSQL refuses to change or delete decisions and events."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """``--install`` or ``--remove``."""
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--install", action="store_true", help="Make the triggers, or make them anew.")
        which.add_argument("--remove", action="store_true", help="Take them away.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it."""
        try:
            protecting.install() if options["install"] else protecting.remove()
        except AllmError as error:
            raise CommandError(error.message) from error
        if options["verbosity"] > 0:
            self.stdout.write("The record is protected." if options["install"] else "The triggers are gone.")
