"""Idempotency keys: a resent request is answered as the first was, a different one under the same key refused."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django.db import IntegrityError, router, transaction

from allm_django.core.encode import to_json, to_text
from allm_django.errors import InvalidInputError, KeyReusedError
from allm_django.models import IdempotencyKey

MAX_KEY = 200


class DuplicateRequestError(Exception):
    """This request was carried out before; ``object_id`` is what it was about."""

    def __init__(self, object_id: UUID) -> None:
        super().__init__(str(object_id))
        self.object_id = object_id


def fingerprint(verb: str, *parts: Any) -> str:
    """A hash of what a request asks for."""
    return hashlib.sha256(to_text([verb, *(to_json(part) for part in parts)]).encode()).hexdigest()


def seen(user: Any, key: str | None, print_: str) -> UUID | None:
    """What an earlier request under this key was about, or None. Raises KeyReusedError if it asked something else."""
    if key is None:
        return None
    check_key(key)
    row = IdempotencyKey.objects.filter(user=user, key=key).first()
    if row is None:
        return None
    if row.fingerprint != print_:
        raise KeyReusedError
    return row.object_id


def take(user: Any, key: str | None, print_: str, object_id: UUID) -> None:
    """Record the key in the present transaction. Raises DuplicateRequestError when a racing resend was first."""
    if key is None:
        return
    try:
        with transaction.atomic(using=router.db_for_write(IdempotencyKey)):
            IdempotencyKey.objects.create(user=user, key=key, fingerprint=print_, object_id=object_id)
    except IntegrityError:
        first = seen(user, key, print_)
        raise DuplicateRequestError(first or object_id) from None


def refuse_duplicate(user: Any, key: str | None, print_: str) -> None:
    """Raise DuplicateRequestError if a racing resend was first; for use under the session's lock."""
    if (before := seen(user, key, print_)) is not None:
        raise DuplicateRequestError(before)


def check_key(key: object) -> None:
    """Raise InvalidInputError unless ``key`` is a text of 1 to 200 characters."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        raise InvalidInputError(f"key: a text of 1 to {MAX_KEY} characters is needed.", field="key")
