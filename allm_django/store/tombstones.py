"""Writing and checking tombstones."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from allm_django.core.types import JSONObject
from allm_django.models import Decision, Session, Tombstone
from allm_django.store import chain, clock
from allm_django.store.writing import alias


def lay(session: Session, why: str, counts: JSONObject, *, intact: bool) -> Tombstone:
    """Write the tombstone of a session that is about to go."""
    last = Decision.objects.using(alias()).filter(session=session).order_by("number").last()
    stone = Tombstone(session_id=session.pk, why=why, counts=counts, intact=intact, purged_at=clock.now())
    stone.last_hmac = last.hmac if last else ""
    stone.hmac = chain.sign("tombstone", _parts(stone))
    stone.save(using=alias())
    return stone


def is_genuine(stone: Tombstone, keys: tuple[str, ...]) -> bool:
    """Whether a tombstone is as it was written."""
    return chain.fits("tombstone", _parts(stone), stone.hmac, keys)


def _parts(stone: Tombstone) -> list[Any]:
    when = stone.purged_at.astimezone(UTC).isoformat()
    return [str(stone.session_id), stone.why, stone.counts, stone.intact, stone.last_hmac, when]
