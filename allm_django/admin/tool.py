"""Tools: switched in the list, set up in a form, never looser than code (M01, M02)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model
from django.forms import modelformset_factory
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.admin.base import StoreAdmin
from allm_django.admin.display import json_block, shown
from allm_django.admin.tool_actions import actions
from allm_django.admin.tool_deciders import warnings_of
from allm_django.admin.tool_form import ToolForm, ToolListForm, floor_words
from allm_django.admin.tool_history import recent_versions
from allm_django.admin.tool_page import script_words
from allm_django.admin.tool_stats import ToolStats, stats_of
from allm_django.admin.tool_urls import tool_urls
from allm_django.admin.tool_week import week_cell
from allm_django.models import Tool
from allm_django.store.tool_floor import Condition, definition_of, health_of
from allm_django.store.tools import delete_tool, save_tool

DECISION_FIELDS = (
    "verbs",
    "approver_groups",
    "four_eyes",
    "quorum",
    "grants",
    "expiry",
    "escalate_after",
    "escalation_groups",
)
# What only those with ``configure_tool`` may change (security row 6).
RULES = (
    "name",
    "handler",
    "manual",
    "schema",
    "sensitive",
    "timeout",
    "idempotent",
    *DECISION_FIELDS,
    "metadata",
)
CONDITION_WORDS = {
    Condition.OK: _("ok"),
    Condition.BY_HAND: _("by hand"),
    Condition.MISSING: _("handler missing"),
    Condition.LOOSER: _("looser than code"),
    Condition.DRIFTED: _("code changed"),
}


@admin.register(Tool)
class ToolAdmin(StoreAdmin):
    """The tools on offer to models."""

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["allm_django/chat/form.css", "allm_django/admin/tools.css"]}

    form = ToolForm
    object_history_template = "admin/allm_django/tool/object_history.html"
    list_display = ("name", "shown_title", "health", "enabled", "manual", "week")
    list_editable = ("enabled", "manual")
    list_filter = ("enabled", "manual", "engines")
    search_fields = ("name", "title", "description", "handler")
    list_per_page = 100
    show_full_result_count = False
    save_on_top = True
    filter_horizontal = ("approver_groups", "escalation_groups")
    readonly_fields = ("health", "code_says", "version")
    actions = actions()
    fieldsets = (
        (None, {"fields": ("name", "title", "description", "enabled", "health")}),
        (_("Handler"), {"fields": ("handler", "code_says", "manual", "timeout", "idempotent")}),
        (_("Arguments"), {"fields": ("schema", "sensitive")}),
        (_("Decisions"), {"fields": DECISION_FIELDS}),
        (_("For the model"), {"classes": ("collapse",), "fields": ("compact", "summary", "metadata", "version")}),
    )

    def get_urls(self) -> list[URLPattern]:
        """Our own pages before Django's."""
        return tool_urls(self) + super().get_urls()

    def has_configure_permission(self, request: HttpRequest) -> bool:
        """Who may change handler, manual flag, schema and rules."""
        return access.may(request.user, "configure_tool")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A new tool is all rules."""
        return super().has_add_permission(request) and self.has_configure_permission(request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Rules are read-only without the permission to configure."""
        return self.readonly_fields if self.has_configure_permission(request) else (*self.readonly_fields, *RULES)

    def write(self, request: HttpRequest, obj: Tool, related: Mapping[str, Iterable[Any]]) -> None:
        """Through the store."""
        save_tool(obj, by=request.user, **related)  # type: ignore[arg-type]
        for words in warnings_of(obj):
            self.message_user(request, words, messages.WARNING)

    def remove(self, obj: Tool) -> None:
        """Through the store."""
        delete_tool(obj)

    # The list

    def editable(self, request: HttpRequest) -> tuple[str, ...]:
        """The switches that the person may use in the list."""
        return ("enabled", "manual") if self.has_configure_permission(request) else ("enabled",)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """With the person's switches, and each tool's figures."""
        changes = super().get_changelist_instance(request)
        if changes.list_editable:
            changes.list_editable = self.editable(request)
        if not (changes.query or changes.has_active_filters):
            changes.full_result_count = changes.result_count  # one count serves both
        figures = stats_of([tool.name for tool in changes.result_list])
        for tool in changes.result_list:
            tool.stats = figures.get(tool.name, ToolStats())
        return changes

    def get_changelist_formset(self, request: HttpRequest, **kwargs: Any) -> Any:
        """Only the person's switches."""
        return modelformset_factory(Tool, ToolListForm, extra=0, fields=self.editable(request), **kwargs)

    @admin.display(description=_("title"), ordering="title")
    def shown_title(self, tool: Tool) -> str:
        """Hidden characters written out."""
        return shown(tool.title)

    @admin.display(description=_("health"))
    def health(self, tool: Tool) -> SafeString | str:
        """How it stands to its code, with what is wrong."""
        if not tool.pk:
            return "–"
        health = health_of(tool)
        return format_html(
            '<span class="allm-health allm-{}">{}</span>{}',
            health.condition.name.lower().replace("_", "-"),
            CONDITION_WORDS[health.condition],
            format_html('<span class="help allm-why">{}</span>', health.text) if health.text else "",
        )

    @admin.display(description=_("last 7 days"))
    def week(self, tool: Any) -> SafeString | str:
        """Calls a day as bars; calls, failures, and the median time of its latest runs in words."""
        return week_cell(tool.stats)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """With links to the pages that the person may use."""
        context = {"may_import": self.has_add_permission(request) and self.has_change_permission(request)}
        extra = context | (kwargs.pop("extra_context", None) or {})
        return super().changelist_view(request, *args, extra_context=extra, **kwargs)

    # The form

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """With what the schema's preview needs, and links to the tool's pages."""
        check = reverse("admin:allm_django_tool_schema", current_app=self.admin_site.name)
        context |= {"words": script_words(), "script_config": {"check": check}}
        context["may_try"] = access.may(request.user, "try_tool")
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("code says"))
    def code_says(self, tool: Tool) -> SafeString | str:
        """The floor, and the schema that code has."""
        definition = definition_of(tool)
        if definition is None:
            return "–"
        same = _("The schema is code’s own.") if tool.schema == definition.schema else json_block(definition.schema)
        return format_html("<div>{}</div><div>{}</div>", floor_words(definition), same)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Django's history, and the versions that calls were judged by."""
        tool: Model | None = self.get_object(request, object_id)
        versions = recent_versions(tool) if isinstance(tool, Tool) else []
        return super().history_view(request, object_id, {"versions": versions, **(extra_context or {})})
