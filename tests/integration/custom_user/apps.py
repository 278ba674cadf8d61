"""The app of the host project's people."""

from __future__ import annotations

from django.apps import AppConfig


class CustomUserConfig(AppConfig):
    """So that AUTH_USER_MODEL can be ``custom_user.Person``."""

    name = "tests.integration.custom_user"
    label = "custom_user"
