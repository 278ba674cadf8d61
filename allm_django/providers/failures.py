"""What went wrong at the provider, as one of our errors. Imported only when a real provider is used.

The message is safe to show: no key, no header, at most a short word of the provider. The original exception
holds the request with its headers, so it is never chained.
"""

from __future__ import annotations

import re
import traceback
from typing import Any

import httpx2
from pydantic_ai import exceptions as lib

from allm_django.errors import AllmError, InvalidInputError, ProviderError, StreamBrokenError
from allm_django.providers.base import is_retryable_status

SHORT = 200
DETAILED = 1000
_SECRET = re.compile(r"(?i)\b(?:bearer\s+|sk-|aiza|key[-_=])[^\s\"',;]{4,}")

_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (lib.ModelAuthenticationError, "refused the key"),
    (lib.ModelNotFoundError, "does not know this model"),
    (lib.ModelContextWindowExceededError, "says that the conversation is too long for this model"),
    (lib.ModelRequestRejectedError, "refused the request"),
    (lib.ModelQuotaExceededError, "says that the account's quota is used up"),
    (lib.ModelRateLimitError, "asks for fewer requests"),
    (lib.ModelOverloadedError, "is overloaded"),
    (lib.ModelUnavailableError, "is not available now"),
    (lib.ModelServerError, "failed"),
    (lib.ModelTimeoutError, "did not answer in time"),
    (lib.ModelRequestTimeout, "did not answer in time"),
    (httpx2.TimeoutException, "did not answer in time"),
    (lib.ModelConnectionError, "could not be reached"),
    (httpx2.TransportError, "could not be reached"),
)
_TRANSPORT = (lib.ModelConnectionError, lib.ModelRequestTimeout, httpx2.TransportError)
_BROKEN = (lib.ModelAPIError, lib.UnexpectedModelBehavior)  # exactly these: an answer that ended or turned to nonsense
_PERMANENT = (lib.ModelQuotaExceededError, lib.ModelRequestRejectedError)


def to_error(error: Exception, provider: str, key: str, *, started: bool) -> AllmError:
    """Our error for one of the library's. ``started`` = something of the answer was already passed on."""
    if isinstance(error, AllmError):
        return error
    if isinstance(error, lib.UserError):
        return _refused_by_library(error, provider, key)
    detail = _redacted(f"{type(error).__name__}: {_provider_text(error) or error} {_place(error)}", key, DETAILED)
    status = getattr(error, "status_code", None)
    if started or type(error) in _BROKEN:
        message = f"The answer of {provider} broke off{_said(error, key)}"
        return StreamBrokenError(message, status=status, retryable=not started, detail=detail)
    retry_after = getattr(error, "retry_after", None)
    return ProviderError(
        _message(error, provider, status, key),
        status=status,
        retryable=_retryable(error, status),
        retry_after=retry_after,
        detail=detail,
    )


def _refused_by_library(error: lib.UserError, provider: str, key: str) -> AllmError:
    text = _redacted(str(error), key, DETAILED)
    if "tool_choice" in text:
        return InvalidInputError(f"tool_choice: {provider} cannot do this. {text}", field="tool_choice")
    return ProviderError(f"{provider} cannot do this. {text}")


def _message(error: Exception, provider: str, status: int | None, key: str) -> str:
    did = next((words for kind, words in _WORDS if isinstance(error, kind)), "did not answer as expected")
    return f"{provider} {did}{f' (status {status})' if status else ''}{_said(error, key)}"


def _retryable(error: Exception, status: int | None) -> bool:
    if isinstance(error, _PERMANENT):
        return False
    if status is None:
        transient = (lib.ModelRateLimitError, lib.ModelUnavailableError, lib.ModelServerError)
        return isinstance(error, _TRANSPORT + transient)
    return is_retryable_status(status)


def _said(error: Exception, key: str) -> str:
    said = _redacted(_provider_text(error), key, SHORT)
    return f": {said}" if said else "."


def _provider_text(error: Exception) -> str:
    """The provider's own short message out of its error body, if there is one."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    text = body.get("message") if isinstance(body, dict) else None
    return text if isinstance(text, str) else ""


def _redacted(text: str, key: str, length: int) -> str:
    if key:
        text = text.replace(key, "…")
    text = " ".join(_SECRET.sub("…", text).split())
    return text if len(text) <= length else text[:length] + "…"


def _place(error: Exception) -> str:
    """Where it was raised: the chain that would tell is cut off."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
