"""The tests' settings with a second database; ``default`` has none of our tables."""

from __future__ import annotations

from project import databases
from tests.settings import *  # noqa: F403
from tests.settings import FOLDER
from tests.settings import INSTALLED_APPS as USUAL

INSTALLED_APPS = [app for app in USUAL if app != "project.support"]  # its rows stay in the default database
DATABASES = {
    "default": databases.sqlite(FOLDER / "default.sqlite3"),
    "assistant": databases.sqlite(FOLDER / "assistant.sqlite3"),
}
DATABASE_ROUTERS = ["tests.integration.second_database.router.Router"]
ALLM: dict[str, object] = {"POLL_SECONDS": 0.05}
