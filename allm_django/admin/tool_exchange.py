"""Tools out to a file and in from one, with the differences to look at before anything is written (M04)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import FieldDoesNotExist, PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from allm_django.admin.display import shown
from allm_django.admin.fields import JSONTextField
from allm_django.admin.tool_compare import field_label, pair
from allm_django.admin.tool_page import check_rules, render_page
from allm_django.errors import AllmError
from allm_django.models import Tool
from allm_django.store.tool_file import MAX_BYTES, export_tools
from allm_django.store.tool_import import Planned, import_tools, mark_of, plan_import

NOTHING: tuple[Any, ...] = (None, "", [], {})
KIND_WORDS = {
    "create": gettext_lazy("new"),
    "change": gettext_lazy("changes"),
    "refuse": gettext_lazy("refused"),
}


class UploadForm(forms.Form):
    """The file; or, once its differences were looked at, its text again. ``content`` is what it holds."""

    file = forms.FileField(
        required=False,
        label=gettext_lazy("File"),
        help_text=gettext_lazy("What “Export” gave, here or elsewhere."),
        widget=forms.FileInput(attrs={"accept": ".json,application/json"}),
    )
    text = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)
    seen = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    content: Any = None

    def clean(self) -> dict[str, Any]:
        """Read either of them."""
        cleaned: dict[str, Any] = super().clean() or {}
        upload = cleaned.get("file")
        if upload is not None and upload.size > MAX_BYTES:
            raise forms.ValidationError({"file": _("The file is larger than %(n)d MB.") % {"n": MAX_BYTES >> 20}})
        try:
            cleaned["text"] = upload.read().decode() if upload is not None else cleaned.get("text", "")
        except UnicodeDecodeError as error:
            raise forms.ValidationError({"file": _("The file is not text.")}) from error
        if not cleaned["text"].strip():
            raise forms.ValidationError({"file": _("Choose a file.")})
        try:
            self.content = JSONTextField().clean(cleaned["text"])
        except forms.ValidationError as error:
            raise forms.ValidationError({"file": error.messages}) from error
        return cleaned


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the file, ready for the page."""

    name: str
    kind: str
    words: Any
    problem: str
    fields: list[tuple[str, SafeString | str, SafeString | str, SafeString | str]]


def export_page(admin: Any, request: HttpRequest, tools: QuerySet[Tool] | None = None) -> HttpResponse:
    """A download of all tools, or of ``tools``."""
    if not admin.has_view_permission(request):
        raise PermissionDenied
    rows = Tool.objects.all() if tools is None else tools
    text = json.dumps(export_tools(rows), ensure_ascii=False, indent=1)
    return HttpResponse(
        text,
        content_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="tools.json"', "X-Content-Type-Options": "nosniff"},
    )


def import_page(admin: Any, request: HttpRequest) -> HttpResponse:
    """Upload, look at the differences, confirm."""
    check_rules(admin, request)
    if not admin.has_add_permission(request):
        raise PermissionDenied
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method != "POST" or not form.is_valid():
        return render_page(admin, request, "import", _("Import tools"), form=form)
    try:
        if form.cleaned_data["seen"]:
            return _import(admin, request, form)
        plan = plan_import(form.content)
    except AllmError as error:
        form.add_error(None, error.message)
        return render_page(admin, request, "import", _("Import tools"), form=form)
    return _preview(admin, request, form, plan)


def _import(admin: Any, request: HttpRequest, form: UploadForm) -> HttpResponse:
    plan = import_tools(form.content, by=request.user, seen=form.cleaned_data["seen"])  # type: ignore[arg-type]
    written = [each.tool for each in plan if each.tool is not None and each.kind in ("create", "change")]
    for tool in written:
        admin.log_change(request, tool, _("Imported from a file."))
    words = ngettext(
        "%(n)d tool was imported; it is disabled.", "%(n)d tools were imported; they are disabled.", len(written)
    )
    admin.message_user(request, words % {"n": len(written)}, messages.SUCCESS if written else messages.WARNING)
    return HttpResponseRedirect(reverse("admin:allm_django_tool_changelist", current_app=admin.admin_site.name))


def _preview(admin: Any, request: HttpRequest, form: UploadForm, plan: list[Planned]) -> HttpResponse:
    confirm = UploadForm(initial={"text": form.cleaned_data["text"], "seen": mark_of(plan)})
    writes = sum(each.kind in ("create", "change") for each in plan)
    lines = [_line(each) for each in plan if each.kind != "same"]
    same = ", ".join(shown(each.name) for each in plan if each.kind == "same")
    title = _("Import tools")
    return render_page(
        admin, request, "import", title, form=confirm, previews=bool(plan), lines=lines, same=same, writes=writes
    )


def _line(each: Planned) -> Line:
    """What is empty in a new tool goes without saying."""
    told = {name: values for name, values in each.fields.items() if any(value not in NOTHING for value in values)}
    fields = [(_label(name), *pair(before, after)) for name, (before, after) in told.items()]
    return Line(shown(each.name), each.kind, KIND_WORDS[each.kind], shown(each.problem), fields)


def _label(name: str) -> str:
    try:
        return field_label(name)
    except FieldDoesNotExist:
        return name
