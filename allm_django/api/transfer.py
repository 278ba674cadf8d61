"""A session, or a whole result, to take away."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from allm_django import access, sessions
from allm_django.api import shapes
from allm_django.api.base import ApiView, documented
from allm_django.core.encode import to_text
from allm_django.core.states import Outcome
from allm_django.present.transcript import transcript


class SessionExport(ApiView):
    """One session as a file."""

    @documented("sessions_export", OpenApiTypes.OBJECT, path="session_id", problems=(404,))
    def get(self, request: Request, session_id: str) -> Response:
        """Versioned JSON, as `manage.py allm_import` reads it; sensitive fields are masked as on the page."""
        session = access.session_for(request.user, session_id)
        name = f'attachment; filename="session-{session.pk}.json"'
        return Response(sessions.export(session, by=request.user), headers={"Content-Disposition": name})


class SessionTranscript(ApiView):
    """One session to read."""

    @documented("sessions_transcript", OpenApiTypes.STR, path="session_id", media="text/markdown", problems=(404,))
    def get(self, request: Request, session_id: str) -> HttpResponse:
        """The same as Markdown, in the language of the request."""
        session = access.session_for(request.user, session_id)
        name = f'attachment; filename="session-{session.pk}.md"'
        text = transcript(sessions.export(session, by=request.user))
        return HttpResponse(text, content_type="text/markdown; charset=utf-8", headers={"Content-Disposition": name})


class CallResult(ApiView):
    """A call's result."""

    @documented("calls_result", shapes.ResultAnswer, path="call_id", problems=(404,))
    def get(self, request: Request, call_id: str) -> Response:
        """The whole result, of which the card shows the beginning and the model may have got a shortened copy."""
        call = access.call_for(request.user, call_id)
        whole = call.outcome in (Outcome.SUCCEEDED, Outcome.ANSWERED)
        return Response({"text": to_text(call.result) if whole else call.content})
