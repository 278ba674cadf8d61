"""Tombstones: what is left of sessions that were purged."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django.admin.base import ReadOnlyAdmin
from allm_django.admin.display import json_block
from allm_django.models import Tombstone


@admin.register(Tombstone)
class TombstoneAdmin(ReadOnlyAdmin):
    """The newest first."""

    list_display = ("session_id", "why", "intact", "purged_at")
    list_filter = ("why", "intact")
    search_fields = ()
    fields = ("session_id", "why", "shown_counts", "intact", "last_hmac", "purged_at", "hmac")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """All: they hold nothing of anyone's."""
        return rows

    @admin.display(description=_("rows"))
    def shown_counts(self, stone: Tombstone) -> SafeString | str:
        """How much there was."""
        return json_block(stone.counts)
