"""Events: what happened, in order; arguments were masked when they were written."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django.admin.base import ReadOnlyAdmin, of_visible_sessions
from allm_django.admin.display import json_block
from allm_django.models import Event


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """The newest first; search by a session's id to read one in order."""

    list_display = ("id", "number", "kind", "session_link", "created_at")
    list_defer = ("data", "session__context", "session__usage")
    id_fields = ("session__id",)
    ordering = ("-id",)
    fields = ("session_link", "number", "kind", "shown_data", "created_at")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Those of visible sessions."""
        return of_visible_sessions(request.user, rows).select_related("session")

    @admin.display(description=_("data"))
    def shown_data(self, event: Event) -> SafeString | str:
        """What changed."""
        return json_block(event.data)
