"""Calls that wait for a person, oldest first, each with the way to its card (M06)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.admin.call import CallAdmin
from allm_django.admin.display import age, card_url, shown
from allm_django.models import PendingCall
from allm_django.models.call import OPEN_CALLS


class OpenStateFilter(admin.SimpleListFilter):
    """What a call waits for."""

    title = _("waits for")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """The open states."""
        return [
            ("pending", _("a decision")),
            ("unknown", _("someone to look what happened")),
            ("asking", _("the owner’s answer")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Those in the state chosen."""
        return queryset.filter(state=self.value()) if self.value() else queryset


@admin.register(PendingCall)
class PendingCallAdmin(CallAdmin):
    """The inbox in the admin; decisions are made on the card."""

    list_display = ("shown_tool", "state", "waits", "shown_arguments", "session_link", "owner_name", "card")
    list_filter = (OpenStateFilter, "session__engine")
    ordering = ("created_at",)

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Open calls that access lets the person see."""
        return super().visible(request, rows).filter(OPEN_CALLS)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Those who may decide, too."""
        return super().has_view_permission(request, obj) or access.may(request.user, "decide_toolcall")

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Those who may decide, too."""
        return super().has_module_permission(request) or access.may(request.user, "decide_toolcall")

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
