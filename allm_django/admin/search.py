"""What is found by the start of an id or of a person's name, with an index; and a person's name (M08)."""

from __future__ import annotations

import string
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Model

LEAST_PREFIX = 8  # hexadecimal digits that make a search one for an id
MOST_PEOPLE = 50


def id_range(prefix: str) -> tuple[UUID, UUID] | None:
    """The first and the last id that start with ``prefix``; None if it is not the start of an id."""
    digits = prefix.replace("-", "").lower()
    if not LEAST_PREFIX <= len(digits) <= 32 or not set(digits) <= set(string.hexdigits):
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def people_named(prefix: str) -> list[Any]:
    """Keys of the people whose login name starts so, whatever the user model calls it (M08)."""
    people = get_user_model()
    field: str = people.USERNAME_FIELD
    found = people._default_manager.filter(**{f"{field}__istartswith": prefix}).order_by(field)
    return list(found.values_list("pk", flat=True)[:MOST_PEOPLE])


def name_of(person: Model | None) -> str:
    """A person's full name, else their login name."""
    if person is None:
        return ""
    full = getattr(person, "get_full_name", str)()
    return str(full or person.get_username())  # type: ignore[attr-defined]
