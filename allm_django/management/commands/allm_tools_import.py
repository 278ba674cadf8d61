"""manage.py allm_tools_import: tools from JSON."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from allm_django.core.encode import visible
from allm_django.errors import AllmError
from allm_django.store.tool_import import Planned, import_tools, plan_import

WORDS = {"create": "create", "change": "change", "same": "same", "refuse": "REFUSED"}


class Command(BaseCommand):
    """See :func:`allm_django.store.tool_import.import_tools`."""

    help = (
        "Create and change tools as a file of allm_tools_export says. What arrives is disabled, and never looser than "
        "code. Entries with a handler that code does not register are refused; then the exit code is 1."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The file, and ``--dry-run``."""
        parser.add_argument("file", help="The file; - for the standard input.")
        parser.add_argument("--dry-run", action="store_true", help="Only say what would happen.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import, and print what each entry does."""
        try:
            name = options["file"]
            data = json.loads(sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8"))
            plan = plan_import(data) if options["dry_run"] else import_tools(data)
        except OSError as error:
            raise CommandError(f"The file can't be read: {error}") from error
        except (ValueError, RecursionError) as error:
            raise CommandError(f"The file is not JSON: {error}") from error
        except AllmError as error:
            raise CommandError(error.message) from error
        for line in describe(plan):
            self.stdout.write(line)
        if refused := sum(each.kind == "refuse" for each in plan):
            raise CommandError(f"{refused} of {len(plan)} entries were refused.")


def describe(plan: list[Planned]) -> Iterator[str]:
    """The plan as lines of text."""
    for each in plan:
        yield visible(f"{WORDS[each.kind]:<8} {each.name}{f': {each.problem}' if each.problem else ''}")
        for name, (before, after) in each.fields.items():
            yield visible(f"         {name}: {_short(before)} -> {_short(after)}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 100 else f"{text[:99]}…"
