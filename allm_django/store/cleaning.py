"""Django's own validation of a row, told as one of our errors."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db.models import Model

from allm_django.errors import InvalidInputError


def check_row(row: Model) -> None:
    """Raise InvalidInputError, naming the first field that ``full_clean`` refuses."""
    try:
        row.full_clean()
    except ValidationError as error:
        name, messages = next(iter(error.message_dict.items()))
        raise InvalidInputError(f"{name}: {messages[0]}", field=name) from error
