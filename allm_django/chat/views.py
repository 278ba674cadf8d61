"""The chat page's shell. Everything in it comes from the API and the sockets; this serves the frame and its policy."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from allm_django import access
from allm_django.chat.words import page_words
from allm_django.present.spoken import spoken
from allm_django.store import clock

# Nothing inline, nothing from elsewhere, no eval (security row 31); HTML from a string only where safe.js cleaned it.
# 'self' in connect-src covers the sockets.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "object-src 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types default dompurify",
    )
)


@require_safe
@never_cache
@ensure_csrf_cookie
@login_required
def page(request: HttpRequest, session_id: uuid.UUID | None = None) -> HttpResponse:
    """The page, for those who may chat, decide or read; others get 403 with words they can act on.

    ``session_id`` is only handed on: whether it exists and may be seen is the API's answer. ``?card=<call id>``
    opens one card.
    """
    if not access.may_use_page(request.user):
        return _guarded(render(request, "allm_django/no_permission.html", status=403))
    settings = page_config(request, session_id)
    return _guarded(render(request, "allm_django/page.html", {"config": settings, "words": page_words()}))


def page_config(request: HttpRequest, session_id: uuid.UUID | None) -> dict[str, Any]:
    """What the scripts need to know before they ask: addresses, who looks, and what they may."""
    user = request.user
    root = reverse("allm_django:page")
    return {
        "title": _("Assistant"),
        "page": root,
        "api": reverse("allm_django:session-list").removesuffix("sessions/"),
        "ws": f"{get_script_prefix()}ws/allm/",
        "session": str(session_id) if session_id else None,
        "card": _card_id(request.GET.get("card", "")),
        "engines": _set_up_url(user),
        "now": clock.now().isoformat(),
        "spoken": spoken(),
        "user": {"id": str(user.pk), "name": _name(user)},
        "can": {
            "chat": access.may(user, "chat"),
            "decide": access.may(user, "decide_toolcall"),
            "read": access.may(user, "view_session"),
        },
    }


def _set_up_url(user: Any) -> str:
    """Where ``user`` may set up an engine, or ``""``."""
    if not (access.may_inspect(user) and access.may(user, "add_engine")):
        return ""
    try:
        return reverse("admin:allm_django_engine_add")
    except NoReverseMatch:
        return ""


def _name(user: Any) -> str:
    full = user.get_full_name() if hasattr(user, "get_full_name") else ""
    return full or (user.get_username() if isinstance(user, AbstractBaseUser) else str(user))


def _card_id(value: str) -> str | None:
    try:
        return str(uuid.UUID(value))
    except ValueError:
        return None


def _guarded(response: HttpResponse) -> HttpResponse:
    response["Content-Security-Policy"] = POLICY
    response["Referrer-Policy"] = "same-origin"
    response["X-Content-Type-Options"] = "nosniff"
    return response
