"""manage.py allm_tools_export: tools as JSON."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from allm_django.models import Tool
from allm_django.store.tool_file import export_tools


class Command(BaseCommand):
    """See :func:`allm_django.store.tool_file.export_tools`."""

    help = "Print tools, as they are set up here, as versioned JSON. By default all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The tools' names."""
        parser.add_argument("names", nargs="*", help="Names of tools.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write them."""
        tools = Tool.objects.all()
        if names := options["names"]:
            tools = tools.filter(name__in=names)
            if missing := set(names) - {tool.name for tool in tools}:
                raise CommandError(f"There is no tool {min(missing)!r}.")
        self.stdout.write(json.dumps(export_tools(tools), ensure_ascii=False, indent=1))
