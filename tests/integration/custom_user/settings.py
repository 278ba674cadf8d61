"""The tests' settings with a user model of the project's own."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as USUAL

INSTALLED_APPS = [*USUAL, "tests.integration.custom_user"]
AUTH_USER_MODEL = "custom_user.Person"
ROOT_URLCONF = "tests.integration.custom_user.urls"
ALLM = {"DISPATCH": "tests.integration.cast.NoDispatch"}
