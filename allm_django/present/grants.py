"""Grants as those see them who may revoke them (H13)."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from allm_django.core.types import JSONObject
from allm_django.models import Grant
from allm_django.present.people import person
from allm_django.store import clock
from allm_django.store.shapes import masked_arguments, moment


def with_grant_rows(grants: QuerySet[Grant]) -> QuerySet[Grant]:
    """``grants`` with all that their shapes are made of."""
    return grants.select_related("owner", "tool_version__tool")


def grant_shapes(grants: Iterable[Grant]) -> list[JSONObject]:
    """The grants in their order; one query, however many."""
    return [grant_shape(grant) for grant in grants]


def grant_shape(grant: Grant) -> JSONObject:
    """A grant; its arguments always masked."""
    data = grant.tool_version.data
    return {
        "id": str(grant.pk),
        "by": grant.who,
        "name": grant.name,
        "title": data.get("title") or grant.name,
        "scope": grant.scope,
        "match": grant.match,
        "arguments": masked_arguments(grant.arguments, data.get("sensitive", ())),
        "pattern": grant.pattern,
        "rule": grant.rule,
        "session": str(grant.session_id),
        "owner": person(grant.owner),
        "uses_left": grant.uses_left,
        "used": grant.used,
        "created_at": moment(grant.created_at),
        "expires_at": moment(grant.expires_at),
        "state": state_of(grant),
        "revoked_by": grant.revoked_by,
    }


def state_of(grant: Grant) -> str:
    """``active``, or why it lets nothing go any more: ``revoked``, ``expired``, ``used_up``, ``tool_changed``.

    Whether who gave it still may is asked at each use.
    """
    tool = grant.tool_version.tool
    if grant.revoked_at is not None:
        return "revoked"
    if grant.expires_at <= clock.now():
        return "expired"
    if grant.uses_left == 0:
        return "used_up"
    if tool is None or not tool.enabled or tool.version != grant.tool_version.version:
        return "tool_changed"
    return "active"
