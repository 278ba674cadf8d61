"""What people have allowed beforehand, and its end (H13)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from allm_django import access, sessions
from allm_django.admin.base import ReadOnlyAdmin
from allm_django.admin.display import json_block, link_to, text_column
from allm_django.admin.search import name_of
from allm_django.errors import StateError
from allm_django.models import Grant
from allm_django.present.grants import state_of
from allm_django.store.shapes import masked_arguments

STATES = {
    "active": _("in force"),
    "revoked": _("revoked"),
    "expired": _("over"),
    "used_up": _("used up"),
    "tool_changed": _("over: the tool was changed"),
}


@admin.register(Grant)
class GrantAdmin(ReadOnlyAdmin):
    """The newest first; those that one may revoke."""

    list_display = (
        "shown_name",
        "shown_who",
        "owner_name",
        "scope",
        "match",
        "state",
        "used",
        "uses_left",
        "expires_at",
    )
    list_filter = ("scope", "match")
    ordering = ("-created_at",)
    owner_field = "owner"
    actions = ("revoke_grants",)
    fields = (
        "shown_name", "state", "shown_who", "owner_name", "scope", "session_link", "call_link", "match",
        "shown_arguments", "shown_pattern", "shown_rule", "used", "uses_left", "created_at", "expires_at", "revoked_at",
        "shown_revoker",
    )  # fmt: skip

    shown_name = text_column(Grant, "name")
    shown_who = text_column(Grant, "who")
    shown_rule = text_column(Grant, "rule")
    shown_revoker = text_column(Grant, "revoked_by")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """As access says."""
        seen = access.visible_grants(request.user).values("pk")
        return rows.filter(pk__in=seen).select_related("owner", "session", "call", "tool_version__tool")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Those who configure tools, too."""
        return super().has_view_permission(request, obj) or access.may(request.user, "configure_tool")

    @admin.action(description=_("Revoke selected grants"), permissions=["view"])
    def revoke_grants(self, request: HttpRequest, queryset: QuerySet[Grant]) -> None:
        """One by one through the verb; those that have ended already are left alone."""
        ended = 0
        for grant in queryset:
            try:
                sessions.revoke(grant, by=request.user)
            except StateError:
                continue
            ended += 1
        words = ngettext("%(n)d grant was revoked.", "%(n)d grants were revoked.", ended) % {"n": ended}
        self.message_user(request, words, messages.SUCCESS if ended else messages.WARNING)

    @admin.display(description=_("state"))
    def state(self, grant: Grant) -> str:
        """Whether it still lets calls go."""
        return str(STATES[state_of(grant)])

    @admin.display(description=_("for"))
    def owner_name(self, grant: Grant) -> str:
        """Whose calls it lets go."""
        return name_of(grant.owner) or "–"

    @admin.display(description=_("given on"))
    def call_link(self, grant: Grant) -> SafeString | str:
        """The call whose card it was given on."""
        return link_to(grant.call)

    @admin.display(description=_("exact arguments"))
    def shown_arguments(self, grant: Grant) -> SafeString | str:
        """Masked, always."""
        return json_block(masked_arguments(grant.arguments, grant.tool_version.data.get("sensitive", ())))

    @admin.display(description=_("pattern"))
    def shown_pattern(self, grant: Grant) -> SafeString | str:
        """The schema that arguments have to fit."""
        return json_block(grant.pattern)
