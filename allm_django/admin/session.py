"""Sessions, each with its transcript."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.admin.base import ReadOnlyAdmin
from allm_django.admin.display import json_block, link_to, one_line, session_url
from allm_django.admin.search import name_of
from allm_django.models import Session


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """Conversations. The newest first; the text of one is read page by page."""

    list_display = ("name", "owner_name", "engine", "status", "waiting", "updated_at")
    list_filter = ("status", "archived", "engine")
    list_defer = ("context", "usage", "allowed_tools", "engine__system", "engine__params", "engine__context")
    id_fields = ("id",)
    owner_field = "owner"
    fields = (
        "name",
        "owner_name",
        "engine",
        "status",
        "run",
        "waiting",
        "asked_to_cancel",
        "put_away",
        "shown_usage",
        "shown_context",
        "shown_tools",
        "created_at",
        "updated_at",
    )

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """As access says."""
        return access.visible_sessions(request.user)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With owner and engine."""
        return super().get_queryset(request).select_related("owner", "engine")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Django's, with the transcript up to ``?before=`` (a message's position)."""
        from allm_django.admin.transcript import Transcript  # not at every start of Django

        session = self.get_object(request, object_id)
        extra: dict[str, Any] = dict(extra_context or {})
        if session is not None and self.has_view_permission(request, session):
            extra["transcript"] = Transcript.of(session, request.user, before=_position(request.GET.get("before", "")))
            extra["page_url"] = session_url(session.pk)
            extra["lists"] = _lists(request.user, session)
        return super().change_view(request, object_id, form_url, extra)

    @admin.display(description=_("session"))
    def name(self, session: Session) -> str:
        """Its title, else its id."""
        return one_line(session.title) or str(session.pk)

    @admin.display(description=_("owner"))
    def owner_name(self, session: Session) -> str:
        """Who it belongs to."""
        return name_of(session.owner) or "–"

    @admin.display(description=_("active run"))
    def run(self, session: Session) -> SafeString | str:
        """The run that goes on or waits."""
        return link_to(session.active_run)

    @admin.display(description=_("cancel requested"))
    def asked_to_cancel(self, session: Session) -> str:
        """In words: a red cross would look like something that went wrong."""
        return _yes_or_no(session.cancel_requested)

    @admin.display(description=_("archived"))
    def put_away(self, session: Session) -> str:
        """In words."""
        return _yes_or_no(session.archived)

    @admin.display(description=_("usage"))
    def shown_usage(self, session: Session) -> SafeString | str:
        """Tokens and cost."""
        return json_block(session.usage or None)

    @admin.display(description=_("context"))
    def shown_context(self, session: Session) -> SafeString | str:
        """What handlers are given."""
        return json_block(session.context)

    @admin.display(description=_("allowed tools"))
    def shown_tools(self, session: Session) -> SafeString | str:
        """The tools it is bound to, if it is."""
        return json_block(session.allowed_tools)


def _lists(viewer: access.Person, session: Session) -> list[tuple[str, str]]:
    """Where those of its runs, calls and decisions are listed that ``viewer`` may see: address and words."""
    models = (("run", gettext("Runs")), ("toolcall", gettext("Calls")), ("decision", gettext("Decisions")))
    seen = ((name, words) for name, words in models if access.may(viewer, f"view_{name}"))
    return [(f"{reverse(f'admin:allm_django_{name}_changelist')}?q={session.pk}", words) for name, words in seen]


def _yes_or_no(value: bool) -> str:
    return gettext("yes") if value else gettext("no")


def _position(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None
