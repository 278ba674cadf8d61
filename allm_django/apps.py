"""The Django app: discovers tools, freezes the registry, hands Django's parts to the rooms that don't know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from django.apps import AppConfig
from django.core.signals import request_started
from django.db import close_old_connections, connections, router
from django.utils.translation import gettext_lazy as _

from allm_django.errors import LoopContextError

if TYPE_CHECKING:
    from allm_django.models import Event


class AllmDjangoConfig(AppConfig):
    """Configuration of allm_django. ``ready()`` makes no query and starts nothing."""

    name = "allm_django"
    label = "allm_django"
    verbose_name = _("Assistant")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Discover tools, register checks, connect the loop to Django and the store to the runtime."""
        from allm_django import checks, discovery
        from allm_django.store import outbox

        connect_loop()
        discovery.discover()
        checks.register()
        outbox.listen(_publish, _wake)
        request_started.connect(_ensure_started, dispatch_uid="allm_django.runtime")


def connect_loop() -> None:
    """Give the loop what it needs of Django: settings, cleaned connections, no sync call inside a transaction."""
    from allm_django.conf import conf, default_limits, provider_factories
    from allm_django.loop.environment import environment

    environment.cleanup = close_old_connections
    environment.farewell = connections.close_all
    environment.refuse_sync = refuse_in_transaction
    environment.providers = provider_factories
    environment.keys = lambda: conf().KEYS
    environment.limits = default_limits
    environment.handler_threads = lambda: conf().HANDLER_THREADS
    environment.spare_threads = lambda: conf().HANDLER_SPARE_THREADS
    environment.telemetry_content = lambda: conf().TELEMETRY_CONTENT


def refuse_in_transaction() -> None:
    """Raise LoopContextError inside ``atomic``: the loop's other threads would not see what is not committed."""
    from allm_django.models import Session

    connection = connections[router.db_for_write(Session)]
    if connection.in_atomic_block:
        raise LoopContextError("A transaction is open here; call this after it has committed.")


def _publish(session_id: UUID, events: Sequence[Event], inbox: bool) -> None:
    from allm_django.runtime.stream import publish_events

    publish_events(session_id, events, inbox)


def _wake(session_id: UUID) -> None:
    from allm_django import runtime

    runtime.wake(session_id)


def _ensure_started(**_kwargs: object) -> None:
    """A server's first request starts the runner, which takes up what an earlier process left."""
    from allm_django import runtime

    runtime.ensure_started()
