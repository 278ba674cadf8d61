"""Runs: what each drive of the loop used and how it halted."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django.admin.base import ReadOnlyAdmin, of_visible_sessions
from allm_django.admin.display import json_block, plain, seconds
from allm_django.admin.search import name_of
from allm_django.models import Run
from allm_django.models.words import HALTED_REASONS


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """The newest first."""

    list_display = ("id", "session_link", "owner_name", "kind", "state", "shown_halt", "turns", "took", "created_at")
    list_filter = ("state", "kind")
    list_defer = ("settings", "output", "usage", "error", "halted_metadata", "session__context", "session__usage")
    fields = (
        "id",
        "session_link",
        "kind",
        "state",
        "shown_halt",
        "shown_metadata",
        "shown_error",
        "turns",
        "calls_used",
        "seconds",
        "shown_output",
        "claims",
        "shown_usage",
        "request_id",
        "shown_settings",
        "created_at",
        "started_at",
        "ended_at",
    )

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Those of visible sessions."""
        return of_visible_sessions(request.user, rows).select_related("session__owner")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Django's, with the timeline; ``?waits=short`` draws long waits shorter."""
        from allm_django.admin.timeline import Timeline  # not at every start of Django
        from allm_django.admin.timeline_picture import TimelinePage

        run = self.get_object(request, object_id)
        extra: dict[str, Any] = dict(extra_context or {})
        if run is not None and self.has_view_permission(request, run):
            short = request.GET.get("waits") == "short"
            extra["timeline"] = TimelinePage.of(Timeline.of(run), short=short)
        return super().change_view(request, object_id, form_url, extra)

    @admin.display(description=_("owner"))
    def owner_name(self, run: Run) -> str:
        """Whose session it is."""
        return name_of(run.session.owner) or "–"

    @admin.display(description=_("halted because"))
    def shown_halt(self, run: Run) -> str:
        """In words; a handler's own word as it is."""
        return str(HALTED_REASONS.get(run.halted_reason) or plain(run.halted_reason) or "–")

    @admin.display(description=_("took"))
    def took(self, run: Run) -> str:
        """From its start to its end, waiting included."""
        return seconds(run.started_at, run.ended_at)

    @admin.display(description=_("halted metadata"))
    def shown_metadata(self, run: Run) -> SafeString | str:
        """Details of the halt."""
        return json_block(run.halted_metadata or None)

    @admin.display(description=_("error"))
    def shown_error(self, run: Run) -> SafeString | str:
        """What went wrong, with the staff's details."""
        return json_block(run.error)

    @admin.display(description=_("output"))
    def shown_output(self, run: Run) -> SafeString | str:
        """The structured answer, or what came of trying."""
        return json_block(run.output)

    @admin.display(description=_("usage"))
    def shown_usage(self, run: Run) -> SafeString | str:
        """Tokens and cost."""
        return json_block(run.usage or None)

    @admin.display(description=_("settings"))
    def shown_settings(self, run: Run) -> SafeString | str:
        """The engine as it was at the start."""
        return json_block(run.settings or None)
