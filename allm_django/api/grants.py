"""What people have allowed beforehand: listed, and ended (H13)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from allm_django import access, sessions
from allm_django.api import inputs, shapes
from allm_django.api.base import ApiView, documented
from allm_django.core.types import JSONObject
from allm_django.models import Grant
from allm_django.present.grants import grant_shape, grant_shapes, with_grant_rows

GRANTS_PAGE = 100


class GrantList(ApiView):
    """Grants."""

    @documented("grants_list", shapes.GrantsAnswer)
    def get(self, request: Request) -> Response:
        """The latest 100 that one gave or that are for one's own conversations; all for who configures tools."""
        rows = with_grant_rows(access.visible_grants(request.user)).order_by("-created_at", "pk")
        return Response({"results": grant_shapes(rows[:GRANTS_PAGE])})


class GrantDetail(ApiView):
    """One grant."""

    @documented("grants_read", shapes.GrantShape, path="grant_id", problems=(404,))
    def get(self, request: Request, grant_id: str) -> Response:
        """What it allows, and whether it still does."""
        return Response(_shape(request, access.grant_for(request.user, grant_id)))


class GrantRevoke(ApiView):
    """The end of a grant."""

    @documented("grants_revoke", shapes.GrantAnswer, request=inputs.NothingInput, path="grant_id", problems=(404, 409))
    def post(self, request: Request, grant_id: str) -> Response:
        """Revoke it; calls that it has let go already are not stopped."""
        inputs.checked(inputs.NothingInput, request.data)
        grant = access.grant_for(request.user, grant_id)
        sessions.revoke(grant, by=request.user)
        return Response({"grant": _shape(request, grant)})


def _shape(request: Request, grant: Grant) -> JSONObject:
    return grant_shape(with_grant_rows(access.visible_grants(request.user)).get(pk=grant.pk))
