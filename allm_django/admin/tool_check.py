"""What is wrong with a schema that is being typed: asked by the editor, never instead of the check at saving (M02)."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponseNotAllowed, JsonResponse
from django.http.response import HttpResponseBase

from allm_django.admin.fields import JSONTextField
from allm_django.admin.tool_page import check_rules
from allm_django.core.schema import lint
from allm_django.errors import SchemaError


def schema_check(admin: Any, request: HttpRequest) -> HttpResponseBase:
    """``{"problem": words or "", "place": ["properties", "a", …]}`` for the schema in ``schema``."""
    check_rules(admin, request)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    place: list[str] = []
    problem = ""
    try:
        lint(JSONTextField().clean(request.POST.get("schema", "")))
    except forms.ValidationError as error:
        problem = " ".join(error.messages)
    except SchemaError as error:
        where = error.field or ""
        place = [token.replace("~1", "/").replace("~0", "~") for token in where.split("/")[1:]]
        problem = error.message.removeprefix(f"{where}: ")
    return JsonResponse({"problem": problem, "place": place})
