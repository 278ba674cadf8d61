"""Drift: a tool's row beside code, field by field; and what ``sync_tools`` would do to all of them (M04)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from allm_django.admin.display import diff_block, json_block
from allm_django.admin.tool_page import check_rules, may_change_rules, render_page, tool_of
from allm_django.errors import AllmError
from allm_django.models import Tool
from allm_django.store.tool_compare import Changed, Difference, differences, take_code
from allm_django.store.tool_floor import health_of
from allm_django.store.tool_sync import Change, sync_tools

CHANGED_WORDS = {
    Changed.HERE: gettext_lazy("changed here"),
    Changed.CODE: gettext_lazy("changed in code"),
    Changed.BOTH: gettext_lazy("changed here and in code"),
    Changed.UNKNOWN: gettext_lazy("never the same"),
}
KIND_WORDS = {
    "created": gettext_lazy("new"),
    "updated": gettext_lazy("follows code"),
    "tightened": gettext_lazy("made stricter"),
    "disabled": gettext_lazy("disabled"),
    "differs": gettext_lazy("stays different"),
    "conflict": gettext_lazy("conflict"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """A difference, ready for the page."""

    field: str
    label: str
    changed: Any
    row: SafeString | str
    code: SafeString | str
    diff: SafeString | str


def compare_page(admin: Any, request: HttpRequest, pk: int) -> HttpResponse:
    """The tool and its code side by side; POST takes code's word for the chosen fields."""
    tool = tool_of(admin, request, pk)
    if request.method == "POST":
        check_rules(admin, request)
        return _take(admin, request, tool)
    return render_page(
        admin,
        request,
        "compare",
        _("Compare with code"),
        tool,
        lines=[_line(difference) for difference in differences(tool)],
        health=health_of(tool),
        may_take=may_change_rules(admin, request),
    )


def _line(difference: Difference) -> Line:
    row, code = difference.row, difference.code
    label, words = field_label(difference.field), CHANGED_WORDS[difference.changed]
    return Line(difference.field, label, words, *pair(row, code))


def _take(admin: Any, request: HttpRequest, tool: Tool) -> HttpResponse:
    names = request.POST.getlist("field")
    version = request.POST.get("version", "")
    try:
        if names:
            take_code(tool, names, by=request.user, seen_version=int(version) if version.isdecimal() else 0)  # type: ignore[arg-type]
            admin.log_change(request, tool, [{"changed": {"fields": [field_label(name) for name in names]}}])
            words = ngettext("%(n)d field follows code now.", "%(n)d fields follow code now.", len(names))
            admin.message_user(request, words % {"n": len(names)}, messages.SUCCESS)
        else:
            admin.message_user(request, _("Choose at least one field."), messages.WARNING)
    except AllmError as error:
        admin.message_user(request, error.message, messages.ERROR)
    return HttpResponseRedirect(request.get_full_path())


def sync_page(admin: Any, request: HttpRequest) -> HttpResponse:
    """What ``sync_tools`` would do; POST does it."""
    may_sync = may_change_rules(admin, request) and admin.has_add_permission(request)
    if not (admin.has_view_permission(request) and (may_sync or request.method != "POST")):
        raise PermissionDenied
    changes, problem = _sync(dry_run=request.method != "POST")
    if request.method == "POST":
        n = sum(map(_writes, changes))
        words = problem or ngettext("%(n)d change was made.", "%(n)d changes were made.", n) % {"n": n}
        admin.message_user(request, words, messages.ERROR if problem else messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:allm_django_tool_sync", current_app=admin.admin_site.name))
    keys = dict(Tool.objects.values_list("name", "pk"))
    lines = [(each, KIND_WORDS[each.kind], keys.get(each.tool), *pair(each.before, each.after)) for each in changes]
    title, anything = _("Compare all tools with code"), any(map(_writes, changes))
    context: dict[str, Any] = {"lines": lines, "anything": anything, "problem": problem, "may_sync": may_sync}
    return render_page(admin, request, "sync", title, **context)


def _sync(*, dry_run: bool) -> tuple[list[Change], str]:
    try:
        return sync_tools(dry_run=dry_run), ""
    except AllmError as error:  # a resolver that can't say what it offers
        return [], error.message


def _writes(change: Change) -> bool:
    return change.kind not in ("differs", "conflict")


def pair(before: object, after: object) -> tuple[SafeString | str, SafeString | str, SafeString | str]:
    """Two values ready for a page, and what they differ in if they are long."""
    return json_block(before), json_block(after), diff_block(before, after)


def field_label(name: str) -> str:
    """A field of a tool as people know it."""
    return str(capfirst(Tool._meta.get_field(name).verbose_name))  # type: ignore[union-attr]
