"""Bulk changes of tools, each with a page that asks first (M01)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from allm_django.admin.tool_exchange import export_page
from allm_django.errors import AllmError
from allm_django.models import Tool
from allm_django.store.tool_floor import check_floor
from allm_django.store.tools import save_tool

if TYPE_CHECKING:
    from allm_django.admin.tool import ToolAdmin

TEMPLATE = "admin/allm_django/tool/confirm_action.html"


@dataclass(frozen=True, slots=True)
class Switch:
    """A bulk change: the action's name, the field it sets and to what, its words, the permission it takes."""

    name: str
    field: str
    value: bool
    label: str | Promise
    question: str | Promise
    will: str | Promise
    permission: str


SWITCHES = (
    Switch(
        "enable_tools",
        "enabled",
        True,
        gettext_lazy("Enable selected tools"),
        gettext_lazy("Models will be offered these tools. Enable them?"),
        gettext_lazy("will be enabled"),
        "change",
    ),
    Switch(
        "disable_tools",
        "enabled",
        False,
        gettext_lazy("Disable selected tools"),
        gettext_lazy(
            "Models will no longer be offered these tools; waiting calls of them can only be rejected. Disable them?"
        ),
        gettext_lazy("will be disabled"),
        "change",
    ),
    Switch(
        "make_manual",
        "manual",
        True,
        gettext_lazy("Make selected tools manual"),
        gettext_lazy("Each call of these tools will wait for a person. Make them manual?"),
        gettext_lazy("will be manual"),
        "configure",
    ),
)

Action = Callable[["ToolAdmin", HttpRequest, QuerySet[Tool]], Any]


def actions() -> Sequence[Action]:
    """The actions for the admin, in order."""
    return [*(_action(switch) for switch in SWITCHES), export]


@admin.action(description=gettext_lazy("Export selected tools"), permissions=["view"])
def export(model_admin: ToolAdmin, request: HttpRequest, queryset: QuerySet[Tool]) -> HttpResponse:
    """The chosen tools as a file (M04)."""
    return export_page(model_admin, request, queryset)


def _action(switch: Switch) -> Action:
    def act(model_admin: ToolAdmin, request: HttpRequest, queryset: QuerySet[Tool]) -> TemplateResponse | None:
        if request.POST.get("confirmed") == "yes":
            _carry_out(model_admin, request, queryset, switch)
            return None
        return _ask(model_admin, request, queryset, switch)

    act.__name__ = switch.name
    act.short_description = switch.label  # type: ignore[attr-defined]
    act.allowed_permissions = (switch.permission,)  # type: ignore[attr-defined]
    return act


def _ask(model_admin: ToolAdmin, request: HttpRequest, queryset: QuerySet[Tool], switch: Switch) -> TemplateResponse:
    tools = [(tool, *_fate(tool, switch)) for tool in queryset]
    context = {
        **model_admin.admin_site.each_context(request),
        "title": str(switch.label),
        "question": switch.question,
        "tools": tools,
        "writes": any(fate == "changes" for _tool, fate, _words in tools),
        "action": switch.name,
        "action_checkbox_name": ACTION_CHECKBOX_NAME,
        "opts": model_admin.opts,
        "media": model_admin.media,
    }
    return TemplateResponse(request, TEMPLATE, context)


def _fate(tool: Tool, switch: Switch) -> tuple[str, str]:
    """What will become of ``tool``: a word for the style, and in words. Makes no query."""
    if getattr(tool, switch.field) == switch.value:
        return "same", _("stays as it is")
    stored = Tool(handler=tool.handler, enabled=tool.enabled)
    setattr(tool, switch.field, switch.value)
    try:
        check_floor(tool, stored)
    except AllmError as error:
        return "refused", _("can’t be changed: %(why)s") % {"why": error.message}
    return "changes", str(switch.will)


def _carry_out(model_admin: ToolAdmin, request: HttpRequest, queryset: QuerySet[Tool], switch: Switch) -> None:
    """One by one through the store; those that it refuses are named, the others are done."""
    changed = 0
    for tool in queryset:
        if getattr(tool, switch.field) == switch.value:
            continue
        setattr(tool, switch.field, switch.value)
        try:
            save_tool(tool, by=request.user)  # type: ignore[arg-type]
        except AllmError as error:
            model_admin.message_user(request, f"{tool.name}: {error.message}", messages.ERROR)
            continue
        model_admin.log_change(request, tool, [{"changed": {"fields": [_label(switch.field)]}}])
        changed += 1
    words = ngettext("%(n)d tool was changed.", "%(n)d tools were changed.", changed) % {"n": changed}
    model_admin.message_user(request, words, messages.SUCCESS if changed else messages.WARNING)


def _label(field: str) -> str:
    return str(Tool._meta.get_field(field).verbose_name)  # type: ignore[union-attr]
