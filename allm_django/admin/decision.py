"""Decisions: who did what, when, having seen what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django.admin.base import ReadOnlyAdmin, of_visible_sessions
from allm_django.admin.display import json_block, link_to, text_column
from allm_django.admin.masking import masked, may_see_all
from allm_django.errors import InvalidInputError
from allm_django.models import Decision
from allm_django.models.words import DECISION_VERBS
from allm_django.present.audit import as_csv, as_lines

MOST = 5_000  # decisions in one download


class VerbFilter(admin.SimpleListFilter):
    """By verb; they are known, so that no list of all decisions is read for it."""

    title = _("verb")
    parameter_name = "verb"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """The verbs."""
        return list(DECISION_VERBS)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Decisions with the verb chosen."""
        return queryset.filter(verb=self.value()) if self.value() else queryset


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    """The newest first. Written once, changed never."""

    actions = ("export_csv", "export_lines")
    list_display = ("id", "created_at", "shown_who", "verb", "shown_name", "outcome", "session_link")
    list_filter = (VerbFilter,)
    list_defer = ("shown", "arguments_before", "arguments_after", "value", "session__context", "session__usage")
    id_fields = ("session__id", "call__id")
    ordering = ("-id",)
    fields = (
        "session_link",
        "call_link",
        "number",
        "call_version",
        "shown_who",
        "verb",
        "outcome",
        "shown_reason",
        "shown_card",
        "before",
        "after",
        "shown_value",
        "created_at",
        "hmac",
    )

    shown_who = text_column(Decision, "who")
    shown_name = text_column(Decision, "name")
    shown_reason = text_column(Decision, "reason")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Those on visible sessions."""
        return of_visible_sessions(request.user, rows).select_related("session", "call__tool_version")

    @admin.action(description=_("Export as CSV, sensitive fields masked"), permissions=["view"])
    def export_csv(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse:
        """For spreadsheets."""
        return _file(rows, as_csv, "text/csv; charset=utf-8", "decisions.csv")

    @admin.action(description=_("Export as JSON lines, sensitive fields masked"), permissions=["view"])
    def export_lines(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse:
        """For programs."""
        return _file(rows, as_lines, "application/x-ndjson", "decisions.jsonl")

    @admin.display(description=_("call"))
    def call_link(self, decision: Decision) -> SafeString | str:
        """What was decided."""
        return link_to(decision.call)

    @admin.display(description=_("shown"))
    def shown_card(self, decision: Decision) -> SafeString | str:
        """What the card said besides name and arguments."""
        return json_block(decision.shown or None)

    @admin.display(description=_("arguments before"))
    def before(self, decision: Decision) -> SafeString | str:
        """What was asked for; masked for those who may not decide."""
        return json_block(masked(decision.arguments_before, decision.call, clear=_clear(decision)))

    @admin.display(description=_("arguments after"))
    def after(self, decision: Decision) -> SafeString | str:
        """What was approved; masked for those who may not decide."""
        return json_block(masked(decision.arguments_after, decision.call, clear=_clear(decision)))

    @admin.display(description=_("value"))
    def shown_value(self, decision: Decision) -> SafeString | str:
        """The result given by hand."""
        return json_block(masked(decision.value, decision.call, clear=_clear(decision)))


def _file(rows: QuerySet[Any], write: Callable[[QuerySet[Any]], Iterator[str]], kind: str, name: str) -> HttpResponse:
    """A download. Raises InvalidInputError for more than one answer should hold."""
    if rows.order_by()[: MOST + 1].count() > MOST:
        raise InvalidInputError(_("More than %(most)d are chosen; use manage.py allm_audit.") % {"most": MOST})
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(write(rows), content_type=kind, headers=headers)


def _clear(decision: Any) -> bool:
    """Whether who looks at this decision may see all of it; asked once a page."""
    if not hasattr(decision, "is_clear"):
        decision.is_clear = may_see_all(decision.viewer, decision.call)
    return bool(decision.is_clear)
