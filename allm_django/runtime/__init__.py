"""Where sessions run. :func:`ensure_started` on a server's first request, :func:`shutdown` at its stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


def wake(session_id: UUID) -> None:
    """Tell the configured dispatch that a session has something to run."""
    from allm_django.conf import dispatch_class

    dispatch_class()().wake(session_id)


def ensure_started() -> None:
    """Start this process's runner, if it has none yet; where a queue brings work to workers, they have theirs."""
    from allm_django.conf import dispatch_class
    from allm_django.runtime.runner import runner

    if not getattr(dispatch_class(), "queued", False):
        runner.ensure_started()


def share_news() -> None:
    """Connect this process's news with those of the others, where the channel layer reaches them."""
    from allm_django.conf import layer_is_shared
    from allm_django.runtime.relay import relay

    if layer_is_shared():
        relay.ensure_started()


def shutdown(timeout: float = 10.0) -> None:
    """Stop this process's runner and its threads cleanly; harmless if there is none. ``timeout`` in seconds."""
    from allm_django.loop.environment import close_threads
    from allm_django.runtime.relay import relay
    from allm_django.runtime.runner import runner

    runner.shutdown(timeout)
    close_threads()
    relay.close(timeout)
