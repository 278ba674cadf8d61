"""“Try it”: the schema's form, what is wrong, a real run, and the result as the model would have it (M03)."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from allm_django import access
from allm_django.admin.display import duration, plain
from allm_django.admin.fields import JSON_INPUT
from allm_django.admin.tool_page import render_page, tool_of
from allm_django.core.encode import mask
from allm_django.core.types import JSONObject
from allm_django.errors import AllmError, NotAllowedError
from allm_django.models import Tool
from allm_django.runtime.trying import Tried, read_arguments, takes_care, try_tool

KIND_WORDS = {
    "ok": gettext_lazy("It succeeded. The model would be told:"),
    "error": gettext_lazy("It failed. The model would be told:"),
    "ask": gettext_lazy("It asks. The owner of the conversation would see:"),
    "halt": gettext_lazy("It stops the run. Its result is:"),
    "plan": gettext_lazy("It is a recipe. Nothing was run; it would begin with these calls:"),
}


class TryForm(forms.Form):
    """What a try is made of. ``key`` makes sure that a form which is sent twice runs once."""

    arguments = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("Arguments as JSON"),
        widget=forms.Textarea(attrs=JSON_INPUT | {"rows": 8, "aria-label": gettext_lazy("Arguments as JSON")}),
    )
    key = forms.UUIDField(widget=forms.HiddenInput)
    confirmed = forms.BooleanField(
        required=False, label=gettext_lazy("I know that this runs for real, with all its effects.")
    )

    def __init__(self, *args: Any, tool: Tool, runs: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tool, self.runs = tool, runs
        self.careful = takes_care(tool)
        self.value: JSONObject = {}
        if not self.careful:
            del self.fields["confirmed"]

    def clean_arguments(self) -> str:
        """Read them and compare them with the schema."""
        text: str = self.cleaned_data["arguments"]
        arguments, problems = read_arguments(self.tool, text)
        if problems:
            raise forms.ValidationError([forms.ValidationError(problem) for problem in problems])
        self.value = arguments or {}
        return text

    def clean_confirmed(self) -> bool:
        """Needed to run, not to check."""
        confirmed: bool = self.cleaned_data["confirmed"]
        if self.runs and not confirmed:
            raise forms.ValidationError(_("Say that you know that it runs for real."))
        return confirmed


def try_page(admin: Any, request: HttpRequest, pk: int) -> HttpResponse:
    """The page; POST checks the arguments, and with ``run`` runs the tool."""
    tool = tool_of(admin, request, pk)
    refused = _refused(request, tool)
    if request.method != "POST" or refused:
        form = TryForm(initial={"arguments": "{}", "key": uuid4()}, tool=tool)
        return _render(admin, request, tool, form, refused=refused, status=403 if refused else 200)
    runs = "run" in request.POST
    form = TryForm(request.POST, tool=tool, runs=runs)
    if not form.is_valid() or not runs:
        return _render(admin, request, tool, form, fits=form.is_valid())
    try:
        tried = _run(admin, request, tool, form)
    except AllmError as error:
        form.add_error(None, error.message)
        return _render(admin, request, tool, form)
    again = TryForm(initial={"arguments": form.cleaned_data["arguments"], "key": uuid4()}, tool=tool)
    return _render(admin, request, tool, again, tried=tried)


def _refused(request: HttpRequest, tool: Tool) -> str:
    try:
        access.check_try(request.user, tool)
    except NotAllowedError as error:
        return error.message
    return ""


def _run(admin: Any, request: HttpRequest, tool: Tool, form: TryForm) -> Tried:
    """On record before it starts, with its arguments (masked), and again when it ended."""
    shown = json.dumps(mask(form.value, tool.sensitive), ensure_ascii=False)
    words = _("Tried version %(version)d by hand with %(arguments)s") % {"version": tool.version, "arguments": shown}
    tried = try_tool(
        tool,
        form.value,
        by=request.user,
        key=form.cleaned_data["key"],
        started=lambda: admin.log_change(request, tool, f"{words}."),
    )
    ended = _("The try ended: %(how)s, after %(time)s.") % {"how": tried.kind, "time": duration(tried.seconds)}
    admin.log_change(request, tool, ended)
    return tried


def _render(admin: Any, request: HttpRequest, tool: Tool, form: TryForm, **context: Any) -> HttpResponse:
    status = context.pop("status", 200)
    tried: Tried | None = context.get("tried")
    page = render_page(
        admin,
        request,
        "try",
        _("Try it"),
        tool,
        form=form,
        schema=tool.schema,
        content=plain(tried.content) if tried else "",
        took=duration(tried.seconds) if tried else "",
        outcome=KIND_WORDS[tried.kind] if tried else "",
        **context,
    )
    page.status_code = status
    return page
