"""What every view of the API has: who may call, how much, in what form, and how errors look.

Nothing depends on the host project's REST_FRAMEWORK settings, but for the ways to log in that it names there.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import NotFound
from rest_framework.permissions import BasePermission
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from allm_django import access, logs
from allm_django.api.parsing import StrictJSONParser, max_body
from allm_django.api.problems import TooLargeError, handle
from allm_django.api.shapes import ProblemShape
from allm_django.api.throttles import RequestsPerUser

REQUEST_ID = "X-Request-ID"
USABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class MayUsePage(BasePermission):
    """Whoever may use the page may use the API."""

    message = "You have no permission to use the assistant."

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Ask access."""
        return access.may_use_page(request.user)


class ApiView(APIView):
    """The base of all views here."""

    permission_classes = [MayUsePage]
    throttle_classes = [RequestsPerUser]
    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer]
    versioning_class = None
    metadata_class = None
    schema = AutoSchema()

    def get_authenticators(self) -> list[BaseAuthentication]:
        """Django's login, which takes CSRF for writes; then what the host names in DEFAULT_AUTHENTICATION_CLASSES."""
        named: list[Any] = []
        if "DEFAULT_AUTHENTICATION_CLASSES" in api_settings.user_settings:
            named = list(api_settings.DEFAULT_AUTHENTICATION_CLASSES)
        return [kind() for kind in dict.fromkeys([SessionAuthentication, *named])]

    def get_authenticate_header(self, request: Request) -> str:
        """So that a missing login is 401, not 403; no scheme for which a browser would ask for a password."""
        return "Session"

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        """Problem details, whatever the host has."""
        return handle

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Within the request's id: the caller's own where it is usable."""
        given = request.headers.get(REQUEST_ID, "")
        with logs.working_on(given if USABLE_ID.fullmatch(given) else uuid.uuid4().hex):
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse a body that says that it is too large before anything reads it."""
        super().initial(request, *args, **kwargs)
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdecimal() and int(length) > max_body():
            raise TooLargeError

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Answers are one person's: nobody may keep them. Each names the request's id."""
        final = super().finalize_response(request, response, *args, **kwargs)
        final[REQUEST_ID] = logs.ids().request_id
        final["Cache-Control"] = "no-store"
        final["X-Content-Type-Options"] = "nosniff"
        return final


class NothingHere(ApiView):
    """An address that the API does not have."""

    @extend_schema(exclude=True)
    def get(self, request: Request, rest: str = "") -> Response:
        """404, as for anything else that is not there."""
        raise NotFound

    post = put = patch = delete = get


R = TypeVar("R", bound=HttpResponseBase)
KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="1 to 200 characters. The same key and body give the first answer again; another body is a 409.",
)


def documented(
    operation: str,
    answer: Any,
    *,
    status: int = 200,
    request: Any = None,
    query: Any = None,
    path: str = "",
    media: str = "application/json",
    problems: tuple[int, ...] = (),
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Describe a view's method in the OpenAPI document. ``path``: the parameter that is a UUID; ``media``: the
    answer's kind.
    """
    parameters: list[Any] = [query] if query else []
    if path:
        parameters.append(OpenApiParameter(path, OpenApiTypes.UUID, OpenApiParameter.PATH))
    if request is not None:
        parameters.append(KEY)
    responses: dict[Any, Any] = {(status, media): answer}
    for number in sorted({400, 401, 403, 429, *problems}):
        responses[(number, "application/problem+json")] = ProblemShape
    return extend_schema(operation_id=operation, parameters=parameters, request=request, responses=responses)
