"""Workers: which processes run sessions, and whether they are alive."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from allm_django.admin.base import ReadOnlyAdmin
from allm_django.admin.display import age
from allm_django.models import Worker


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Those last seen first."""

    list_display = ("host", "pid", "version", "layer", "sweeps", "sessions", "hung_threads", "last_seen", "started_at")
    search_fields = ()
    fields = ("id", "host", "pid", "version", "layer", "sweeps", "sessions", "hung_threads", "started_at", "seen_at")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """All: they hold nothing of anyone's."""
        return rows

    @admin.display(description=_("last seen"))
    def last_seen(self, worker: Worker) -> str:
        """How long ago."""
        return age(worker.seen_at)
