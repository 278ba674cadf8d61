"""manage.py allm_audit: the record of decisions as a file."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from allm_django.models import Decision
from allm_django.present.audit import as_csv, as_lines

FORMATS = {"csv": as_csv, "jsonl": as_lines}


class Command(BaseCommand):
    """See :mod:`allm_django.present.audit`."""

    help = "Write the record of decisions, the oldest first. Sensitive fields are masked unless --clear is given."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which decisions, and how they are written."""
        parser.add_argument("--since", metavar="TIME", help="From this time on: 2026-05-01 or 2026-05-01T12:30.")
        parser.add_argument("--until", metavar="TIME", help="Before this time.")
        parser.add_argument("--format", choices=FORMATS, default="csv")
        parser.add_argument("--clear", action="store_true", help="Show sensitive fields.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write them, one after the other."""
        rows = Decision.objects.order_by("created_at", "pk")
        if options["since"]:
            rows = rows.filter(created_at__gte=_moment("--since", options["since"]))
        if options["until"]:
            rows = rows.filter(created_at__lt=_moment("--until", options["until"]))
        for line in FORMATS[options["format"]](rows, clear=options["clear"]):
            self.stdout.write(line, ending="")


def _moment(option: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"{option}: {text!r} is not a time such as 2026-05-01 or 2026-05-01T12:30.") from error
    return moment if moment.tzinfo else timezone.make_aware(moment)
