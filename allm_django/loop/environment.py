"""What the loop takes from the world around it. The Django app fills it in at start-up; without Django the
defaults serve, so the stateless use needs no settings (L02).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from allm_django.tools.threads import HandlerThreads


def _nothing() -> None:
    """Do nothing."""


def _no_providers() -> Mapping[str, Callable[[str], Any]]:
    """No providers but our own."""
    return {}


def _no_limits() -> Mapping[str, Any]:
    """Nothing over the defaults of Limits."""
    return {}


def _no_keys() -> Mapping[str, str]:
    """No keys but those in the environment of the process."""
    return {}


@dataclass(slots=True)
class Environment:
    """``cleanup`` runs in a handler's thread after each call, ``farewell`` when it ends; ``refuse_sync`` raises where
    a sync twin can't run; ``providers`` gives the host's own model factories, ``keys`` its providers' keys.
    Numbers as in ``settings.ALLM``.
    """

    cleanup: Callable[[], None] = _nothing
    farewell: Callable[[], None] = _nothing
    refuse_sync: Callable[[], None] = _nothing
    providers: Callable[[], Mapping[str, Callable[[str], Any]]] = _no_providers
    keys: Callable[[], Mapping[str, str]] = _no_keys
    limits: Callable[[], Mapping[str, Any]] = _no_limits
    handler_threads: Callable[[], int] = field(default=lambda: 16)
    spare_threads: Callable[[], int] = field(default=lambda: 16)
    telemetry_content: Callable[[], bool] = field(default=lambda: False)


environment = Environment()


@cache
def threads() -> HandlerThreads:
    """The pool of this process for sync handlers, made on first use (so after any fork)."""
    return HandlerThreads(
        environment.handler_threads(), environment.spare_threads(), environment.cleanup, farewell=environment.farewell
    )


def close_threads() -> None:
    """End the pool, if there is one; the next use makes a new one. Never waits for a handler."""
    if threads.cache_info().currsize:
        threads().close()
        threads.cache_clear()
