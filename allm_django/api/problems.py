"""Every error as problem details (RFC 9457): general words, a stable code, an id to find it in the log by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.signals import got_request_exception
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from allm_django import errors
from allm_django.access import Person
from allm_django.core.types import JSONObject
from allm_django.logs import get_logger, ids
from allm_django.models import ToolCall
from allm_django.present.cards import card

MEDIA_TYPE = "application/problem+json"
MAX_LISTED = 20
# The first class that fits decides.
STATUSES: tuple[tuple[type[errors.AllmError], HTTPStatus], ...] = (
    (errors.InvalidInputError, HTTPStatus.BAD_REQUEST),
    (errors.EncodingError, HTTPStatus.BAD_REQUEST),
    (errors.NotFoundError, HTTPStatus.NOT_FOUND),
    (errors.NotAllowedError, HTTPStatus.FORBIDDEN),
    (errors.StateError, HTTPStatus.CONFLICT),
)
CODES = {
    400: "invalid_input",
    401: "not_logged_in",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "too_large",
    415: "unsupported_media_type",
    429: "throttled",
}

logger = get_logger("allm_django.api")


def handle(error: Exception, context: Mapping[str, Any]) -> Response:
    """The answer to ``error``. What nobody foresaw is logged whole and answered in general words (security row 39)."""
    request = context["request"]
    request_id = ids().request_id
    if isinstance(error, errors.AllmError) and (status := _status(error)) is not None:
        body = _problem(status, error.message, str(error.info.get("code") or error.code), request_id)
        body |= _field(error) | _winner(request.user, error)
        headers: dict[str, str] = {}
    elif (known := _as_api_error(error)) is not None:
        body = _problem(known.status_code, _words(known), _code(known), request_id) | _errors(known)
        headers = _headers(known)
    else:
        logger.error("Request %s failed.", request_id, exc_info=error)
        got_request_exception.send(sender=type(context["view"]), request=request)
        words = "Something went wrong on the server. If you report it, name the request id."
        body, headers = _problem(500, words, "server_error", request_id), {}
    set_rollback()
    return Response(body, status=body["status"], headers=headers, content_type=MEDIA_TYPE)


def _problem(status: int, detail: str, code: str, request_id: str) -> JSONObject:
    title = HTTPStatus(status).phrase
    return {
        "type": "about:blank",
        "title": title,
        "status": int(status),
        "detail": detail,
        "code": code,
        "request_id": request_id,
    }


def _status(error: errors.AllmError) -> HTTPStatus | None:
    return next((status for kind, status in STATUSES if isinstance(error, kind)), None)


def _field(error: errors.AllmError) -> JSONObject:
    field = str(error.info.get("field") or "")
    return {"field": field, "errors": [{"field": field, "message": error.message}]} if field else {}


def _winner(user: Person, error: errors.AllmError) -> JSONObject:
    """The call as whoever was faster left it, if the viewer may see it."""
    call = error.info.get("call")
    if not isinstance(call, ToolCall):
        return {}
    try:
        return {"call": card(user, call.pk)}
    except errors.NotFoundError:
        return {}


def _as_api_error(error: Exception) -> exceptions.APIException | None:
    if isinstance(error, exceptions.APIException):
        return error
    if isinstance(error, Http404):
        return exceptions.NotFound()
    if isinstance(error, PermissionDenied):
        return exceptions.PermissionDenied()
    if isinstance(error, RequestDataTooBig):
        return TooLargeError()
    return None


class TooLargeError(exceptions.APIException):
    """The request's body is too large."""

    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_detail = "The request is too large."
    default_code = "too_large"


def _code(error: exceptions.APIException) -> str:
    own = error.default_code if error.default_code in ("too_many_running", "csrf_failed") else ""
    return own or CODES.get(error.status_code, "error")


def _words(error: exceptions.APIException) -> str:
    if isinstance(error, exceptions.ValidationError):
        first = next(iter(_listed(error.detail)), None)
        return f"{first['field']}: {first['message']}".removeprefix(": ") if first else "The input is not valid."
    return str(error.detail)


def _errors(error: exceptions.APIException) -> JSONObject:
    if not isinstance(error, exceptions.ValidationError):
        return {}
    found = [entry for entry, _ in zip(_listed(error.detail), range(MAX_LISTED), strict=False)]
    return {"field": found[0]["field"], "errors": found} if found else {}


def _listed(detail: Any, path: str = "") -> Iterator[dict[str, str]]:
    """DRF's nested errors as pairs of dotted path and message."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            here = path if name == "non_field_errors" else f"{path}.{name}".removeprefix(".")
            yield from _listed(inner, here)
    elif isinstance(detail, Sequence) and not isinstance(detail, str):
        for inner in detail:
            yield from _listed(inner, path)
    else:
        yield {"field": path, "message": str(detail)}


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers: dict[str, str] = {}
    if auth := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait) + 1)
    return headers
