"""What the tools' own admin pages share: the tool or 404, the frame, and the words of their scripts."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from allm_django.admin.base import ModelAdmin
from allm_django.models import Tool
from allm_django.present.form_words import FORM_WORDS

FOLDER = "admin/allm_django/tool"
SCRIPT_WORDS = FORM_WORDS | {
    "json_wrong": _("This is not valid JSON yet: {problem}"),
    "json_not_object": _("The arguments must be one JSON object, in { }."),
    "form_not_exact": _("A form can't show these arguments exactly, so here they are as JSON."),
    "preview": _("What a person would fill in"),
    "preview_empty": _("This tool takes no arguments."),
    "preview_none": _("There is no form to show yet."),
    "schema_good": _("The schema is accepted."),
    "schema_place": _("At {place}:"),
    "show_place": _("Show the place"),
    "not_checked": _("The schema could not be checked just now; it is when you save."),
}


def script_words() -> dict[str, str]:
    """The words of the scripts on these pages, translated now."""
    return {key: str(words) for key, words in SCRIPT_WORDS.items()}


def tool_of(model_admin: ModelAdmin, request: HttpRequest, pk: int) -> Tool:
    """The tool of a page; 403 for who may not view it, missing or not."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    tool = model_admin.get_object(request, str(pk))
    if not isinstance(tool, Tool):
        raise Http404
    return tool


def render_page(
    model_admin: ModelAdmin, request: HttpRequest, template: str, title: str, tool: Tool | None = None, **context: Any
) -> TemplateResponse:
    """One of our templates in the admin's frame."""
    frame = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "media": model_admin.media,
        "title": title,
        "subtitle": str(tool) if tool else None,
        "original": tool,
        "tool": tool,
        "words": script_words(),
        "is_popup": False,
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, f"{FOLDER}/{template}.html", frame | context)


def may_change_rules(model_admin: Any, request: HttpRequest) -> bool:
    """Whether the person may change handler, schema and rules of tools."""
    return bool(model_admin.has_change_permission(request) and model_admin.has_configure_permission(request))


def check_rules(model_admin: Any, request: HttpRequest) -> None:
    """403 unless the person may change rules."""
    if not may_change_rules(model_admin, request):
        raise PermissionDenied
