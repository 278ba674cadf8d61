"""The chain of a session's decisions: each signed together with the one before, the last one sealed (H14).

Who can write SQL, but has no key, can't change, add, remove or reorder decisions without it being seen by
:mod:`allm_django.store.verifying`. What no chain within the database shows: a session that is gone as a whole, and one
that was put back to an earlier state with all its rows.
"""

from __future__ import annotations

import os
from datetime import UTC
from typing import Any

from django.utils.crypto import constant_time_compare, salted_hmac

from allm_django.conf import conf, secret_keys
from allm_django.core.canonical import canonical
from allm_django.core.types import JSON
from allm_django.errors import ConfigurationError
from allm_django.models import Decision, Session

BROKEN = "broken"  # the seal of a chain to which something was added after it had been tampered with: it stays so


def audit_keys() -> tuple[str, ...]:
    """The key that signs, then former ones that are still believed.

    From the variable that ``ALLM["AUDIT_KEY"]`` names (several keys with spaces between them), else Django's SECRET_KEY
    and SECRET_KEY_FALLBACKS. Raises ConfigurationError for a variable that is not set.
    """
    if not (name := conf().AUDIT_KEY):
        return secret_keys()
    keys = tuple(os.environ.get(name, "").split())
    if not keys:
        raise ConfigurationError(f"ALLM['AUDIT_KEY'] names the environment variable {name}, which is not set.")
    return keys


def append(session: Session, decision: Decision, previous: Decision | None) -> None:
    """Number and sign ``decision`` as the session's next after ``previous``, its last; seal the session.

    The caller holds the session's lock and saves both. A chain that was tampered with goes on, with a broken seal.
    """
    keys = audit_keys()
    last, number = (previous.hmac, previous.number) if previous else ("", 0)
    intact = number == session.decision_count and is_sealed(session, number, last, keys)
    decision.number = session.decision_count = max(number, session.decision_count) + 1
    decision.hmac = _sign("decision", _parts(decision, last), keys[0])
    seal = _sign("seal", [str(session.pk), decision.number, decision.hmac], keys[0])
    session.decision_seal = seal if intact else BROKEN


def is_signed(decision: Decision, previous: str, keys: tuple[str, ...]) -> bool:
    """Whether ``decision`` is as it was written, after the one with HMAC ``previous``."""
    if decision.user_id is not None and str(decision.user_id) != decision.who_id:
        return False
    return fits("decision", _parts(decision, previous), decision.hmac, keys)


def is_sealed(session: Session, count: int, last: str, keys: tuple[str, ...]) -> bool:
    """Whether ``session`` was left with ``count`` decisions, the last with HMAC ``last``."""
    if count == 0:
        return session.decision_seal == last == ""
    return fits("seal", [str(session.pk), count, last], session.decision_seal, keys)


def sign(salt: str, parts: list[JSON]) -> str:
    """The HMAC over ``parts``, with the key that signs."""
    return _sign(salt, parts, audit_keys()[0])


def fits(salt: str, parts: list[JSON], signature: str, keys: tuple[str, ...]) -> bool:
    """Whether one of ``keys`` signed ``parts``."""
    return any(constant_time_compare(_sign(salt, parts, key), signature) for key in keys)


def _sign(salt: str, parts: list[JSON], key: str) -> str:
    return salted_hmac(f"allm_django.{salt}", canonical(parts), secret=key, algorithm="sha256").hexdigest()


def _parts(decision: Decision, previous: str) -> list[Any]:
    """All that was shown and decided, and what was before it."""
    return [
        previous,
        str(decision.session_id),
        str(decision.call_id),
        decision.number,
        decision.call_version,
        decision.who,
        decision.who_id,
        decision.verb,
        decision.name,
        decision.shown,
        decision.arguments_before,
        decision.arguments_after,
        decision.reason,
        decision.value,
        decision.outcome,
        decision.created_at.astimezone(UTC).isoformat(),
    ]
