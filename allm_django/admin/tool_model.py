"""“What the model sees”: a tool as it is sent, in the form of each kind of provider (M03)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from allm_django.admin.display import plain
from allm_django.admin.tool_page import render_page, tool_of
from allm_django.core.compact import HELP, definition, help_with, stub
from allm_django.core.types import ToolSpec
from allm_django.errors import AllmError
from allm_django.models import Tool, ToolVersion
from allm_django.providers.wire import tools_as_sent, usable_forms
from allm_django.store.tools import content

NEUTRAL = ""
FORM_WORDS = {
    NEUTRAL: gettext_lazy("Neutral"),
    "openai": gettext_lazy("OpenAI and compatible servers (chat completions)"),
    "openai-responses": gettext_lazy("OpenAI (responses)"),
    "anthropic": gettext_lazy("Anthropic"),
    "google": gettext_lazy("Google"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of what is sent, ready for the page; ``size`` in characters as sent."""

    title: str
    text: str
    size: int


def model_page(admin: Any, request: HttpRequest, pk: int) -> HttpResponse:
    """The page; ``?form=`` chooses the kind of provider."""
    tool = tool_of(admin, request, pk)
    forms = [NEUTRAL, *usable_forms()]
    form = request.GET.get("form", NEUTRAL)
    chosen = form if form in forms else NEUTRAL
    parts, problem = [], ""
    try:
        parts = _parts(_spec(tool), chosen)
    except AllmError as error:
        problem = error.message
    choices = [(each, FORM_WORDS[each], each == chosen) for each in forms]
    context: dict[str, Any] = {"choices": choices, "parts": parts, "problem": problem, "sent": chosen != NEUTRAL}
    return render_page(admin, request, "model", _("What the model sees"), tool, **context)


def _spec(tool: Tool) -> ToolSpec:
    """The row as the loop's value, exactly as a version of it would be."""
    return ToolVersion(name=tool.name, data=content(tool)).spec


def _parts(spec: ToolSpec, form: str) -> list[Part]:
    """The tool in full and as a compact stub with what ``tool_help`` adds; what is sent stands first."""
    full = _part(_("In full"), [spec], form)
    short = _part(_("As a compact stub, with the tool that explains it"), [stub(spec), HELP], form)
    answer = help_with({"names": [spec.name]}, {spec.name: spec})
    asked = _sized(_("What tool_help answers when the model asks for it"), answer)
    return [short, asked, full] if spec.compact else [full, short, asked]


def _part(title: str, specs: list[ToolSpec], form: str) -> Part:
    return _sized(title, tools_as_sent(form, specs) if form else [definition(spec) for spec in specs])


def _sized(title: str, value: Any) -> Part:
    return Part(title, plain(value), len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))))
