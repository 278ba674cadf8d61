"""Rules over calls' arguments, and the box to try them in (H12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.admin.base import StoreAdmin
from allm_django.admin.display import json_block, shown
from allm_django.admin.fields import JSONTextField
from allm_django.admin.rule_trial import trial_page
from allm_django.models import Rule, RuleChange
from allm_django.models.rule import WHEN
from allm_django.store.rules import delete_rule, save_rule

SHOWN_CHANGES = 50


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]  # takes none at run time
    """A rule, with the predicate as JSON."""

    when = JSONTextField(rows=10, required=False, initial=dict, label=_("When"), help_text=WHEN)

    class Meta:
        model = Rule
        fields = ()  # the admin says which

    def clean_when(self) -> Any:
        """Empty text is every call."""
        return self.cleaned_data["when"] or {}


@admin.register(Rule)
class RuleAdmin(StoreAdmin):
    """Only those with ``configure_tool`` change rules; each change is on record."""

    form = RuleForm
    change_list_template = "admin/allm_django/rule/change_list.html"
    object_history_template = "admin/allm_django/rule/object_history.html"
    list_display = ("shown_name", "tool", "effect", "position", "enabled", "shadow")
    list_filter = ("effect", "enabled", "shadow", "tool")
    list_select_related = ("tool",)
    search_fields = ("name", "reason")
    list_per_page = 100
    fields = ("name", "tool", "effect", "when", "reason", "position", "enabled", "shadow")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Those who configure tools, too."""
        return super().has_view_permission(request, obj) or access.may(request.user, "configure_tool")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """With the permission to configure only."""
        return super().has_add_permission(request) and access.may(request.user, "configure_tool")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """With the permission to configure only."""
        return super().has_change_permission(request, obj) and access.may(request.user, "configure_tool")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """With the permission to configure only."""
        return super().has_delete_permission(request, obj) and access.may(request.user, "configure_tool")

    def write(self, request: HttpRequest, obj: Rule, related: Mapping[str, Iterable[Any]]) -> None:
        """Through the store."""
        save_rule(obj, by=request.user)

    def delete_model(self, request: HttpRequest, obj: Rule) -> None:
        """Through the store."""
        delete_rule(obj, by=request.user)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """One by one, so that each is on record."""
        for rule in queryset:
            delete_rule(rule, by=request.user)

    @admin.display(description=_("name"), ordering="name")
    def shown_name(self, rule: Rule) -> str:
        """Hidden characters written out."""
        return shown(rule.name)

    def get_urls(self) -> list[URLPattern]:
        """Django's, and the box to try rules in."""
        page = path("trial/", self.admin_site.admin_view(self.trial_view), name="allm_django_rule_trial")
        return [page, *super().get_urls()]

    def trial_view(self, request: HttpRequest) -> HttpResponse:
        """What would happen with these arguments."""
        return trial_page(self, request)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Django's history, and what the rule was after each change."""
        rows = RuleChange.objects.filter(rule=int(object_id)) if object_id.isdecimal() else RuleChange.objects.none()
        changes = [(row.created_at, row.who, json_block(row.data)) for row in rows[:SHOWN_CHANGES]]
        return super().history_view(request, object_id, {"changes": changes, **(extra_context or {})})
