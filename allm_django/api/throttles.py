"""How much one person may ask for (security row 35). Limits come from ``ALLM``; no DRF settings are needed."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from allm_django.conf import conf
from allm_django.core.states import SessionStatus
from allm_django.models import IdempotencyKey, Session


class RequestsPerUser(SimpleRateThrottle):
    """``REQUESTS_PER_MINUTE`` of each person, counted in the host's default cache (Django's own needs no set-up)."""

    scope = "allm_django"

    def get_rate(self) -> str:
        """The setting, in DRF's words."""
        return f"{conf().REQUESTS_PER_MINUTE}/min"

    def get_cache_key(self, request: Request, view: Any) -> str | None:
        """One count a person; who is not logged in does not get this far."""
        return f"allm_django.requests.{request.user.pk}" if request.user.is_authenticated else None


class TooManyRunningError(exceptions.APIException):
    """As many sessions as one person may have at work are at work."""

    status_code = HTTPStatus.TOO_MANY_REQUESTS
    default_code = "too_many_running"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} of your sessions are at work already. Wait for one to halt, or stop one.")


def check_running(user: AbstractBaseUser | AnonymousUser, key: str | None, session: Session | None = None) -> None:
    """Raise TooManyRunningError if ``user`` has ``RUNNING_PER_USER`` sessions at work besides ``session``.

    A resent request (its key is known) started its session before and is let through. Racing requests may go over the
    limit by a few: it protects the server, it is no exact account.
    """
    limit = conf().RUNNING_PER_USER
    running = Session.objects.filter(owner=user.pk, status=SessionStatus.RUNNING)
    if session is not None:
        running = running.exclude(pk=session.pk)
    if running.count() < limit:
        return
    if key is None or not IdempotencyKey.objects.filter(user=user.pk, key=key).exists():
        raise TooManyRunningError(limit)
