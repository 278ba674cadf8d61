"""People, as anyone may see them."""

from __future__ import annotations

from django.contrib.auth.base_user import AbstractBaseUser
from django.utils.translation import gettext as _

from allm_django.core.types import JSONObject


def name_of(user: AbstractBaseUser | None) -> str:
    """The full name, else what they log in by; works for any user model."""
    if user is None:
        return _("someone who has left")
    full = user.get_full_name() if hasattr(user, "get_full_name") else ""
    return str(full or user.get_username())


def person(user: AbstractBaseUser | None) -> JSONObject:
    """A person; the id is text and empty for one who was deleted."""
    return {"id": str(user.pk) if user is not None else "", "name": name_of(user)}
