"""Calls that wait for a person, oldest first, each with the way to its card, and decided in bulk (M06)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, get_script_prefix, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.access import DECIDABLE_STATES
from allm_django.admin.base import LightChangeList
from allm_django.admin.call import CallAdmin
from allm_django.admin.display import age, card_url, shown
from allm_django.admin.pending_filters import (
    AgeFilter,
    EngineFilter,
    MayDecideFilter,
    OpenStateFilter,
    OwnerFilter,
    ToolFilter,
)
from allm_django.models import PendingCall
from allm_django.models.call import OPEN_CALLS


class InboxList(LightChangeList):
    """Knows which calls of the page the person may decide; one query for all."""

    def get_results(self, request: HttpRequest) -> None:
        """Django's, each call marked."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        waiting = [call for call in self.result_list if call.state in DECIDABLE_STATES]
        mine = access.decidable_among(request.user, waiting)
        for call in self.result_list:
            call.is_mine = call.pk in mine
        self.decidable = len(mine)


@admin.register(PendingCall)
class PendingCallAdmin(CallAdmin):
    """The inbox in the admin. One call is decided on its card, several on a page of their own (H06)."""

    change_list_template = "admin/allm_django/pendingcall/change_list.html"
    list_display = ("choose", "shown_tool", "waits", "card", "shown_arguments", "session_link", "owner_name", "state")
    list_display_links = ("shown_tool",)
    list_filter = (OpenStateFilter, MayDecideFilter, AgeFilter, ToolFilter, OwnerFilter, EngineFilter)
    ordering = ("created_at",)

    def get_urls(self) -> list[URLPattern]:
        """With the page on which several are decided."""
        view = self.admin_site.admin_view(self.decide_view)
        return [path("decide/", view, name="allm_django_pendingcall_decide"), *super().get_urls()]

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Open calls that access lets the person see."""
        return super().visible(request, rows).filter(OPEN_CALLS)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Those who may decide, too."""
        return super().has_view_permission(request, obj) or access.may(request.user, "decide_toolcall")

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Those who may decide, too."""
        return super().has_module_permission(request) or access.may(request.user, "decide_toolcall")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """The one that knows whose turn it is."""
        return InboxList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list, kept up by the inbox's socket."""
        title = capfirst(self.opts.verbose_name_plural)
        live = {"socket": f"{get_script_prefix()}ws/allm/inbox/", "title": title}
        return super().changelist_view(request, {**live, **(extra_context or {})})  # type: ignore[no-any-return]

    def decide_view(self, request: HttpRequest) -> HttpResponse:
        """Several at once: asks first, then tells what became of each."""
        from allm_django.admin.pending_bulk import decide_many  # not at every start of Django

        return decide_many(self, request)

    @admin.display(description=_("choose"))
    def choose(self, call: Any) -> SafeString | str:
        """A box for calls that the person may decide; it carries the version that they see (H04)."""
        if not call.is_mine:
            return format_html('<span data-call="{}"></span>', call.pk)
        ticket = f"{call.pk}:{call.version}"
        return format_html(
            '<input type="checkbox" name="chosen" value="{0}" aria-label="{1}" data-call="{2}">'
            '<input type="hidden" name="shown" value="{0}">',
            ticket,
            self.shown_tool(call),
            call.pk,
        )

    @admin.display(description=_("tool"))
    def shown_tool(self, call: PendingCall) -> str:
        """Its title as it was asked."""
        data = call.tool_version.data if call.tool_version else {}
        return shown(data.get("title") or call.name)

    @admin.display(description=_("waits since"))
    def waits(self, call: PendingCall) -> str:
        """Its age."""
        return age(call.created_at)

    @admin.display(description=_("card"))
    def card(self, call: PendingCall) -> SafeString | str:
        """The card on the page, where it is decided."""
        url = card_url(call.session_id, call.pk)
        return format_html('<a href="{}">{}</a>', url, _("open")) if url else "–"
