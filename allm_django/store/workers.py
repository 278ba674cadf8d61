"""Heartbeats of the processes that run sessions."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from allm_django import __version__
from allm_django.conf import channel_layer_path, conf
from allm_django.core.states import CallState
from allm_django.models import ToolCall, Worker
from allm_django.models.call import OPEN_CALLS
from allm_django.store import clock

FORGOTTEN_AFTER = timedelta(hours=1)


def beat(worker: UUID, *, sessions: int, hung_threads: int) -> None:
    """Say that a process is alive; rows long silent are removed."""
    now = clock.now()
    _needless().filter(seen_at__lt=now - FORGOTTEN_AFTER).delete()
    Worker.objects.update_or_create(
        pk=worker,
        defaults={"seen_at": now, "sessions": sessions, "hung_threads": hung_threads},
        create_defaults={
            "host": socket.gethostname()[:255],
            "pid": os.getpid(),
            "version": __version__,
            "layer": channel_layer_path(),
            "sweeps": conf().SWEEPER,
            "started_at": now,
            "seen_at": now,
            "sessions": sessions,
            "hung_threads": hung_threads,
        },
    )


def leave(worker: UUID) -> None:
    """Remove the row of a process that stops cleanly."""
    _needless().filter(pk=worker).delete()


def _needless() -> QuerySet[Worker]:
    """Rows that nobody asks after: not those of processes in which a call of unknown outcome ran (H07)."""
    asked = ToolCall.objects.filter(OPEN_CALLS, state=CallState.UNKNOWN, worker=OuterRef("pk"))
    return Worker.objects.filter(~Exists(asked))
