"""The Django app: discovers tools, freezes the registry, hands Django's parts to the rooms that don't know it."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AllmDjangoConfig(AppConfig):
    """Configuration of allm_django. ``ready()`` makes no query."""

    name = "allm_django"
    label = "allm_django"
    verbose_name = _("Assistant")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Discover ``<app>.tools`` of all apps, freeze the registry, register checks."""
        from allm_django import checks, discovery

        discovery.discover()
        checks.register()
