"""The support desk: what a real project would already have, before it adds an assistant."""

from __future__ import annotations

from django.apps import AppConfig


class SupportConfig(AppConfig):
    """Customers, orders, refunds."""

    name = "project.support"
    verbose_name = "Support desk"
