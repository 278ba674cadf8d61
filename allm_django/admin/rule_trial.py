"""“What would happen with these arguments”: the verdict and each rule's word; nothing is run or written (H12)."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from allm_django.admin.display import json_block
from allm_django.core.rules import Said
from allm_django.core.states import CallState
from allm_django.models import Tool
from allm_django.models.words import RULE_EFFECTS
from allm_django.present.trials import Trial, trial

STATE_WORDS = {
    CallState.READY: _("It would run."),
    CallState.PENDING: _("It would wait for a person."),
    CallState.SETTLED: _("It would not run."),
}
TEMPLATE = "admin/allm_django/rule/trial.html"


class TrialForm(forms.Form):
    """A call as a model might make it."""

    tool = forms.ModelChoiceField(Tool.objects.order_by("name"), label=_("Tool"))
    arguments = forms.CharField(
        required=False,
        strip=False,
        initial="{}",
        label=_("Arguments as JSON"),
        widget=forms.Textarea(attrs={"rows": 8, "class": "vLargeTextField", "spellcheck": "false", "dir": "ltr"}),
    )
    manual = forms.BooleanField(required=False, label=_("In an assistant that asks for every call"))


def trial_page(admin: Any, request: HttpRequest) -> HttpResponse:
    """The page; POST shows the verdict, so that arguments stand in no address. ``?tool=`` chooses one beforehand."""
    if not admin.has_view_permission(request):
        raise PermissionDenied
    form = TrialForm(request.POST if request.method == "POST" else None, initial={"tool": request.GET.get("tool", "")})
    context: dict[str, Any] = {}
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        context = _told(trial(given["tool"], given["arguments"], "manual" if given["manual"] else "auto"))
    page = {"title": _("Try the rules"), "form": form, "opts": admin.opts, "media": admin.media + form.media}
    return TemplateResponse(request, TEMPLATE, {**admin.admin_site.each_context(request), **page, **context})


def _told(tried: Trial) -> dict[str, Any]:
    verdict = tried.verdict
    if verdict is None:
        return {"outcome": _("This tool can't be offered as it stands; see its page.")}
    return {
        "outcome": STATE_WORDS[verdict.state],
        "why": verdict.why,
        "told": json_block(verdict.result.content) if verdict.result is not None else "",
        "rules": [_row(said, verdict.rule) for said in tried.said],
    }


def _row(said: Said, deciding: str) -> dict[str, Any]:
    word = _("could not be checked") if said.matches is None else _("matches") if said.matches else _("does not match")
    return {
        "name": said.rule.name,
        "effect": dict(RULE_EFFECTS)[said.rule.effect],
        "matches": word,
        "decides": said.rule.name == deciding and not said.rule.shadow,
        "shadow": said.rule.shadow,
    }
