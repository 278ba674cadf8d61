"""manage.py sync_tools: rows for what code registers, and a report of what differs."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from allm_django import discovery
from allm_django.errors import ConfigurationError
from allm_django.store.tool_sync import describe, sync_tools
from allm_django.tools.registry import registry


class Command(BaseCommand):
    """See :func:`allm_django.store.tool_sync.sync_tools`."""

    help = (
        "Create rows for tools that code registers, let unchanged rows follow code, disable tools whose code is gone. "
        "Never enables a tool, never loosens one, never overwrites what was changed in the admin."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """``--dry-run`` and ``--check``."""
        parser.add_argument("--dry-run", action="store_true", help="Only say what would happen.")
        parser.add_argument("--check", action="store_true", help="As --dry-run; exit with 1 if anything would change.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Synchronise, and print a line for each change."""
        if failures := discovery.failures():
            raise CommandError("; ".join(f"{name}: {text}" for name, text in failures.items()))
        try:
            changes = sync_tools(dry_run=options["dry_run"] or options["check"])
        except ConfigurationError as error:
            raise CommandError(error.message) from error
        if options["verbosity"] > 0:
            for line in describe(changes):
                self.stdout.write(line)
            if not registry.all():
                self.stdout.write(f"No tools found. Looked for tools.py in: {', '.join(discovery.looked_in())}.")
            elif not changes:
                self.stdout.write("Rows and code agree.")
        if options["check"] and any(change.kind != "differs" for change in changes):
            raise CommandError("Run manage.py sync_tools.")
