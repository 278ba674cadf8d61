"""Databases for children: made once, then copied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.crash.children import children

TEMPLATE = "crash_template"
MakeDatabase = Callable[[Path], str]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a migrated database."""
    folder = tmp_path_factory.mktemp("template")
    with children(folder) as made:
        made.do("migrate")
    return folder


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of the cluster, which has a migrated database to copy."""
    _execute(postgres_url, f'CREATE DATABASE "{TEMPLATE}"')
    with children(tmp_path_factory.mktemp("template"), _named(postgres_url, TEMPLATE)) as made:
        made.do("migrate")
    return postgres_url


@pytest.fixture
def on_sqlite(sqlite_template: Path) -> MakeDatabase:
    """Puts a migrated SQLite database into a folder; gives the empty URL."""

    def make(folder: Path) -> str:
        for file in sqlite_template.glob("crash.sqlite3*"):
            shutil.copy(file, folder)
        return ""

    return make


@pytest.fixture
def on_postgres(postgres_template: str) -> MakeDatabase:
    """Makes a migrated PostgreSQL database; gives its URL."""

    def make(_folder: Path) -> str:
        name = f"crash_{os.urandom(6).hex()}"
        _execute(postgres_template, f'CREATE DATABASE "{name}" TEMPLATE "{TEMPLATE}"')
        return _named(postgres_template, name)

    return make


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def _named(url: str, name: str) -> str:
    return url.rsplit("/", 1)[0] + "/" + name
