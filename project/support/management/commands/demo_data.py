"""``manage.py demo_data``: people, rows and an engine for the demo; may run again."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from allm_django.errors import InvalidInputError
from project.support import demo, engine


class Command(BaseCommand):
    """Fill the database with what the demo needs."""

    help = "Make what the demo needs. What exists stays; only the engine's model follows the environment."

    def handle(self, *args: Any, **options: Any) -> None:
        """Make what is missing."""
        if not settings.DEBUG:
            raise CommandError("demo_data makes logins with a known password; it only runs with DJANGO_DEBUG=1.")
        demo.make_people()
        orders = demo.make_rows()
        try:
            row = engine.set_up(os.environ)
        except (ImproperlyConfigured, InvalidInputError) as error:
            raise CommandError(str(error)) from error
        if options["verbosity"]:
            self.stdout.write(f"{orders} orders made. Engine “{row}” runs on {row.model}.")
