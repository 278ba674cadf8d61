"""What is known of a call whose end was never seen, so that a person can find out what is true (H07)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from allm_django.core.states import CallState
from allm_django.core.types import JSONObject
from allm_django.models import ToolCall, Worker
from allm_django.store.shapes import moment


def workers_of(calls: Iterable[ToolCall]) -> dict[uuid.UUID, Worker]:
    """The processes in which calls of unknown outcome ran; one query, none without such calls."""
    wanted = {call.worker for call in calls if call.state == CallState.UNKNOWN and call.worker is not None}
    return Worker.objects.in_bulk(wanted) if wanted else {}


def known_of(call: ToolCall, workers: dict[uuid.UUID, Worker]) -> JSONObject | None:
    """Where the call ran and under which key; None unless its outcome is unknown.

    ``host`` is empty and ``pid`` and ``seen_at`` are None when the process stopped in good order since, or is no
    longer on record. ``seen_at`` is when it last gave a sign of life.
    """
    if call.state != CallState.UNKNOWN:
        return None
    worker = workers.get(call.worker) if call.worker is not None else None
    return {
        "started_at": moment(call.started_at),
        "attempt": call.attempt,
        "idempotency_key": call.idempotency_key,
        "worker": str(call.worker or ""),
        "host": worker.host if worker else "",
        "pid": worker.pid if worker else None,
        "seen_at": moment(worker.seen_at) if worker else None,
    }
