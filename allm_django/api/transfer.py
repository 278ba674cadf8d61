"""A session to take away."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from allm_django import access, sessions
from allm_django.api.base import ApiView, documented


class SessionExport(ApiView):
    """One session as a file."""

    @documented("sessions_export", OpenApiTypes.OBJECT, path="session_id", problems=(404,))
    def get(self, request: Request, session_id: str) -> Response:
        """Versioned JSON, as `manage.py allm_import` reads it; sensitive fields are masked as on the page."""
        session = access.session_for(request.user, session_id)
        name = f'attachment; filename="session-{session.pk}.json"'
        return Response(sessions.export(session, by=request.user), headers={"Content-Disposition": name})
