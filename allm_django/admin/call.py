"""Tool calls: what the model asked for and what became of it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.admin.base import ReadOnlyAdmin
from allm_django.admin.display import age, json_block, link_to, one_line, plain, seconds, shown, text_column
from allm_django.admin.masking import arguments_of, masked, may_see_all, written
from allm_django.admin.search import name_of
from allm_django.core.states import CallState
from allm_django.models import ToolCall, Worker
from allm_django.models.words import OUTCOMES
from allm_django.present.changes import change_shapes, changed_words
from allm_django.present.spoken import said
from allm_django.store.approvals import approvals_shape, quorum_of

LONG_COLUMNS = (
    "asked_arguments",
    "result",
    "content",
    "error",
    "late_result",
    "progress",
    "decided_reason",
    "session__context",
    "session__usage",
)
DECISION_FIELDS = (
    "shown_decider",
    "decided_verb",
    "decided_at",
    "shown_reason",
    "shown_approvals",
    "shown_question",
)
TIME_FIELDS = ("attempt", "version", "created_at", "expires_at", "escalates_at", "started_at", "finished_at")


class OutcomeFilter(admin.SimpleListFilter):
    """By outcome; only settled calls have one, and saying so finds the index."""

    title = _("outcome")
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """The outcomes."""
        return list(OUTCOMES)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Calls with the outcome chosen."""
        return queryset.filter(state=CallState.SETTLED, outcome=self.value()) if self.value() else queryset


@admin.register(ToolCall)
class CallAdmin(ReadOnlyAdmin):
    """The newest first. Sensitive arguments are masked in the list, always."""

    list_display: tuple[str, ...] = (
        "shown_name",
        "shown_arguments",
        "state",
        "outcome",
        "session_link",
        "owner_name",
        "took",
        "created_at",
    )
    list_filter: ClassVar[tuple[Any, ...]] = ("state", OutcomeFilter)
    list_defer = LONG_COLUMNS
    ordering = ("-created_at",)
    fieldsets = (
        (None, {"fields": ("shown_name", "state", "outcome", "shown_why", "session_link", "run_link", "parent_link")}),
        (_("Arguments"), {"fields": ("whole_arguments", "asked", "raw", "tool_version", "shown_changes")}),
        (_("Decision"), {"fields": DECISION_FIELDS}),
        (_("Result"), {"fields": ("shown_content", "shown_result", "shown_error", "shown_late", "shown_effect")}),
        (_("Times"), {"fields": TIME_FIELDS}),
        (_("Ids"), {"fields": ("id", "shown_call_id", "shown_provider_id", "idempotency_key", "ran_in")}),
    )

    shown_name = text_column(ToolCall, "name")
    shown_decider = text_column(ToolCall, "decided_name")
    shown_reason = text_column(ToolCall, "decided_reason")
    shown_effect = text_column(ToolCall, "effect")
    shown_call_id = text_column(ToolCall, "call_id")
    shown_provider_id = text_column(ToolCall, "provider_id")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """As access says."""
        seen = access.visible_calls(request.user)
        if not access.leaves_nothing_out(seen):
            rows = rows.filter(Exists(seen.filter(pk=OuterRef("pk"))))
        return rows.select_related("session__owner", "tool_version")

    @admin.display(description=_("why"))
    def shown_why(self, call: ToolCall) -> str:
        """Why it waits, or not."""
        return plain(said(call.why)) or "–"

    @admin.display(description=_("arguments"))
    def shown_arguments(self, call: ToolCall) -> str:
        """In one line, masked."""
        return one_line(arguments_of(call, clear=False))

    @admin.display(description=_("run"))
    def run_link(self, call: ToolCall) -> SafeString | str:
        """Its run."""
        return link_to(call.run)

    @admin.display(description=_("parent"))
    def parent_link(self, call: ToolCall) -> SafeString | str:
        """The recipe it is a step of."""
        return link_to(call.parent)

    @admin.display(description=_("owner"))
    def owner_name(self, call: ToolCall) -> str:
        """Whose session it is."""
        return name_of(call.session.owner) or "–"

    @admin.display(description=_("took"))
    def took(self, call: ToolCall) -> str:
        """From start to end."""
        return seconds(call.started_at, call.finished_at)

    @admin.display(description=_("arguments"))
    def whole_arguments(self, call: ToolCall) -> SafeString | str:
        """What ran or will run; masked for those who may not decide."""
        return json_block(arguments_of(call, clear=_clear(call)))

    @admin.display(description=_("arguments asked"))
    def asked(self, call: ToolCall) -> SafeString | str:
        """What the model asked for, if a person changed it."""
        if call.asked_arguments == call.arguments:
            return "–"
        return json_block(masked(call.asked_arguments, call, clear=_clear(call)))

    @admin.display(description=_("arguments as written"))
    def raw(self, call: ToolCall) -> SafeString | str:
        """The model's own text."""
        return json_block(written(call, clear=_clear(call)))

    @admin.display(description=_("changed since asked"))
    def shown_changes(self, call: ToolCall) -> SafeString | str:
        """What changed of its tool while it waits, place by place (H04)."""
        if call.state != CallState.PENDING or not (words := changed_words(call)):
            return "–"
        lines = change_shapes(call) if _clear(call) else []
        rows = ((each["label"], each["before"] or "–", each["after"] or "–") for each in lines)
        return format_html("{}<ul>{}</ul>", words, format_html_join("", "<li>{}: <del>{}</del> → {}</li>", rows))

    @admin.display(description=_("idempotency key"))
    def idempotency_key(self, call: ToolCall) -> str:
        """What handlers pass on, to find a call's effect by (H07)."""
        return call.idempotency_key

    @admin.display(description=_("ran in"))
    def ran_in(self, call: ToolCall) -> str:
        """The process, if it is on record."""
        worker = Worker.objects.filter(pk=call.worker).first() if call.worker else None
        return f"{plain(worker.host)}, {worker.pid} ({age(worker.seen_at)})" if worker else str(call.worker or "–")

    @admin.display(description=_("approvals"))
    def shown_approvals(self, call: ToolCall) -> str:
        """How many of those needed, and whose; nothing where one is enough."""
        names = [shown(row["by"]) for row in approvals_shape(call)]
        many = str(_("%(n)d of %(quorum)d") % {"n": len(names), "quorum": quorum_of(call)})
        return ": ".join([many, ", ".join(names)] if names else [many]) if quorum_of(call) > 1 else "–"

    @admin.display(description=_("question"))
    def shown_question(self, call: ToolCall) -> SafeString | str:
        """What it asked the owner."""
        return json_block(call.question)

    @admin.display(description=_("result as the model sees it"))
    def shown_content(self, call: ToolCall) -> SafeString | str:
        """The model's copy."""
        return json_block(call.content)

    @admin.display(description=_("result"))
    def shown_result(self, call: ToolCall) -> SafeString | str:
        """The whole value."""
        return json_block(masked(call.result, call, clear=_clear(call)))

    @admin.display(description=_("error"))
    def shown_error(self, call: ToolCall) -> SafeString | str:
        """With the staff's details."""
        return json_block(call.error)

    @admin.display(description=_("late result"))
    def shown_late(self, call: ToolCall) -> SafeString | str:
        """What came after the call was settled."""
        return json_block(masked(call.late_result, call, clear=_clear(call)))


def _clear(call: Any) -> bool:
    """Whether who looks at this call may see all of it; asked once a page."""
    if not hasattr(call, "is_clear"):
        call.is_clear = may_see_all(call.viewer, call)
    return bool(call.is_clear)
