"""The admin: one file a model."""

from allm_django.admin import (
    call,
    decision,
    engine,
    event,
    grant,
    notice,
    overview,
    pending,
    rule,
    run,
    session,
    tombstone,
    tool,
    worker,
)

__all__ = [
    "call",
    "decision",
    "engine",
    "event",
    "grant",
    "notice",
    "overview",
    "pending",
    "rule",
    "run",
    "session",
    "tombstone",
    "tool",
    "worker",
]
