"""Checks that several models share."""

from __future__ import annotations

from collections.abc import Collection

from allm_django.errors import InvalidInputError


def check_text_list(value: object, field: str, allowed: Collection[str] | None = None) -> None:
    """Raise InvalidInputError unless ``value`` is a list of distinct texts (out of ``allowed``, if given)."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise InvalidInputError(f'{field}: a list of texts is needed, such as ["a", "b"].', field=field)
    if len(set(value)) != len(value):
        raise InvalidInputError(f"{field}: an entry stands twice.", field=field)
    if allowed is not None and (wrong := [item for item in value if item not in allowed]):
        raise InvalidInputError(f"{field}: {wrong[0]!r} is not one of {', '.join(allowed)}.", field=field)
