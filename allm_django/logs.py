"""The ids by which log lines, answers and traces are found: which request and session this is about (L19).

Knows nothing else of the package, so that every room may log through it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

NONE = "-"


@dataclass(frozen=True, slots=True)
class Ids:
    """What is being worked on; ``""`` where there is none. Without a session it is an HTTP request."""

    request_id: str = ""
    session_id: str = ""


NOTHING = Ids()
_ids: ContextVar[Ids] = ContextVar("allm_django_ids", default=NOTHING)


def ids() -> Ids:
    """The ids of what this task or thread works on."""
    return _ids.get()


def set_ids(request_id: str, session_id: str = "") -> None:
    """From here on this task works on these."""
    _ids.set(Ids(request_id, session_id))


@contextmanager
def working_on(request_id: str, session_id: str = "") -> Iterator[None]:
    """Inside the block this task works on these."""
    token = _ids.set(Ids(request_id, session_id))
    try:
        yield
    finally:
        _ids.reset(token)


class RequestIds(logging.Filter):
    """Gives each record ``request_id`` and ``session_id``, ``"-"`` for none; what a record has already stays.

    On our own loggers always. On a handler in the host's LOGGING for all records that pass it, so that a formatter may
    name them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Never drops a record."""
        now = _ids.get()
        for name in ("request_id", "session_id"):
            if not hasattr(record, name):
                setattr(record, name, getattr(now, name) or NONE)
        return True


_FILTER = RequestIds()


def get_logger(name: str) -> logging.Logger:
    """The logger of that name, its records with the ids."""
    logger = logging.getLogger(name)
    logger.addFilter(_FILTER)
    return logger
