"""The overview: what waits, who decides and how fast, what fails, what it costs, who is alive (M07)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.text import capfirst

from allm_django import access
from allm_django.admin.base import ToldAdmin
from allm_django.models import Overview

RANGES = (7, 30, 90)


@admin.register(Overview)
class OverviewAdmin(ToldAdmin):
    """One page, for staff who may view sessions."""

    def get_urls(self) -> list[URLPattern]:
        """The page alone: there are no rows to add, change or delete."""
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="allm_django_overview_changelist")]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Those who may read every session."""
        return access.may(request.user, "view_session")

    def has_module_permission(self, request: HttpRequest) -> bool:
        """As for the page."""
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The figures of the last ``?days=`` (7, 30 or 90)."""
        from allm_django.admin import overview_page  # not at every start of Django

        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        asked = request.GET.get("days", "")
        days = int(asked) if asked in map(str, RANGES) else RANGES[0]
        context = {
            **self.admin_site.each_context(request),
            "title": capfirst(self.opts.verbose_name),
            "opts": self.opts,
            "media": self.media,
            "days": days,
            "ranges": RANGES,
            "panels": overview_page.panels(request.user, days),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/allm_django/overview/overview.html", context)
