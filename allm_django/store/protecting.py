"""Triggers by which PostgreSQL itself refuses to change or delete what is on record (security row 41)."""

from __future__ import annotations

from django.db import connections, transaction

from allm_django.errors import StateError
from allm_django.models import Decision, Event, Tombstone
from allm_django.store.writing import alias

TABLES = tuple(model._meta.db_table for model in (Decision, Event, Tombstone))
# What is let through: rows of a session that has its tombstone, and the link to an account that is deleted.
FUNCTION = f"""
CREATE OR REPLACE FUNCTION allm_django_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME <> '{Tombstone._meta.db_table}' AND EXISTS (
        SELECT 1 FROM {Tombstone._meta.db_table} AS stone WHERE stone.session_id = OLD.session_id
    ) THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'user_id' = to_jsonb(OLD) - 'user_id'
        AND to_jsonb(NEW) ->> 'user_id' IS NULL THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$
"""


def install() -> None:
    """Make the triggers, or make them anew. Raises StateError on another database than PostgreSQL."""
    _execute([*_dropped(), FUNCTION, *(statement for table in TABLES for statement in _made(table))])


def remove() -> None:
    """Take the triggers away. Raises StateError on another database than PostgreSQL."""
    _execute([*_dropped(), "DROP FUNCTION IF EXISTS allm_django_append_only()"])


def _dropped() -> list[str]:
    return [f"DROP TRIGGER IF EXISTS {name} ON {table}" for table in TABLES for name in _names(table)]


def _made(table: str) -> list[str]:
    rows, whole = _names(table)
    call = "EXECUTE FUNCTION allm_django_append_only()"
    return [
        f"CREATE TRIGGER {rows} BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW {call}",
        f"CREATE TRIGGER {whole} BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {call}",
    ]


def _names(table: str) -> tuple[str, str]:
    return f"{table}_rows", f"{table}_whole"


def _execute(statements: list[str]) -> None:
    connection = connections[alias()]
    if connection.vendor != "postgresql":
        raise StateError(f"Triggers are for PostgreSQL; this is {connection.display_name}.", state=connection.vendor)
    with transaction.atomic(using=alias()), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
