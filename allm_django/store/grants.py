"""Grants: given with an approval, used under the lock of the session that calls, ended by whoever may (H13)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet

from allm_django.core.grants import GrantTerms, answers
from allm_django.core.settle import Settlement
from allm_django.core.states import CallState
from allm_django.errors import InvalidInputError, NotFoundError, StateError
from allm_django.models import Grant, ToolCall
from allm_django.store import clock
from allm_django.store.approvals import Counts, approve_version, quorum_of
from allm_django.store.calls import apply
from allm_django.store.record import name_of, record, shown_of
from allm_django.store.writing import Writing, alias


def not_grantable(call: ToolCall) -> str:
    """Why further calls can't be allowed on this call's card, in words, or ``""``."""
    data = call.tool_version.data if call.tool_version is not None else {}
    if not data.get("grants"):
        return "This tool's calls can only be approved one by one."
    if not data.get("handler"):
        return "There is nothing that could run; each result is given by hand."
    if quorum_of(call) > 1:
        return "Several people have to approve each call of this tool."
    return ""


def give_grant(tx: Writing, call: ToolCall, terms: GrantTerms, by: Any) -> Grant:
    """Note what ``by`` allows together with the approval of ``call``. Raises InvalidInputError if that can't be."""
    if by is None:
        raise InvalidInputError("grant: a person has to give it; say who in by=.", field="grant")
    version, why_not = call.tool_version, not_grantable(call)
    if version is None or why_not:
        raise InvalidInputError(f"grant: {why_not}", field="grant")
    if terms.scope == "user" and tx.session.owner_id is None:
        raise InvalidInputError("grant.scope: nobody owns this conversation; “session” is left.", field="grant.scope")
    grant: Grant = Grant.objects.using(alias()).create(
        call=call,
        session=tx.session,
        tool_version=version,
        name=call.name,
        user=by,
        who=name_of(by),
        owner_id=tx.session.owner_id,
        scope=terms.scope,
        match=terms.match,
        arguments=call.arguments if terms.match == "exact" else None,
        pattern=terms.pattern,
        rule=call.rule,
        uses_left=terms.uses,
        created_at=tx.now,
        expires_at=tx.now + timedelta(seconds=terms.seconds),
    )
    return grant


def use_grants(tx: Writing, calls: Iterable[ToolCall], may_decide: Counts) -> None:
    """Let those of ``calls`` go that wait and were allowed beforehand, by someone who still may decide them.

    The grants' rows are locked, in one order, so that the last use of one is had once (H13).
    """
    waiting = [call for call in calls if call.state == CallState.PENDING and not not_grantable(call)]
    grants = list(_alive_for(tx, waiting)) if waiting else []
    for call in waiting:
        for grant in grants:
            if _lets_go(grant, call) and may_decide(grant.user, call):
                _use(tx, grant, call, may_decide)
                break


def alive(now: datetime) -> Q:
    """Grants that are neither revoked, over, nor used up; of which version the tool is, is another matter."""
    return Q(revoked_at=None, expires_at__gt=now) & (Q(uses_left=None) | Q(uses_left__gt=0))


def revoke_grant(grant_id: UUID, *, by: Any) -> Grant:
    """End a grant. Raises NotFoundError, and StateError if it was revoked already."""
    with transaction.atomic(using=alias()):
        rows = Grant.objects.using(alias()).filter(pk=grant_id)
        changed = rows.filter(revoked_at=None).update(revoked_at=clock.now(), revoked_by=name_of(by))
        grant: Grant | None = rows.first()
    if grant is None:
        raise NotFoundError("There is no such grant.")
    if not changed:
        raise StateError(f"This grant was already revoked by {grant.revoked_by}.", state="revoked")
    return grant


def revoke_given_under(rule: str, by: Any) -> None:
    """End the grants that were given where ``rule`` had asked: it is not what those people saw any more."""
    rows = Grant.objects.using(alias()).filter(rule=rule, revoked_at=None)
    rows.update(revoked_at=clock.now(), revoked_by=name_of(by))


def _alive_for(tx: Writing, calls: list[ToolCall]) -> QuerySet[Grant]:
    here = Q(scope="session", session=tx.session)
    if tx.session.owner_id is not None:
        here |= Q(scope="user", owner=tx.session.owner_id)
    versions = {call.tool_version_id for call in calls}
    rows = Grant.objects.using(alias()).select_for_update(of=("self",)).select_related("user")
    return rows.filter(here, alive(tx.now), tool_version__in=versions, user__isnull=False).order_by("created_at", "pk")


def _lets_go(grant: Grant, call: ToolCall) -> bool:
    if grant.uses_left == 0 or grant.tool_version_id != call.tool_version_id:
        return False
    return answers(grant.spec, rule=call.rule, arguments=call.arguments)


def _use(tx: Writing, grant: Grant, call: ToolCall, may_decide: Counts) -> None:
    left = None if grant.uses_left is None else grant.uses_left - 1
    Grant.objects.using(alias()).filter(pk=grant.pk).update(used=F("used") + 1, uses_left=left)
    grant.uses_left = left
    given, until = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (grant.created_at, grant.expires_at))
    shown = shown_of(call)
    approve_version(call, call.version, grant.user, grant.who, tx.now, may_decide)
    call.why = f"granted by {grant.who} on {given} until {until}"
    value = {"grant": str(grant.pk)}
    record(tx, call, verb="grant", by=grant.user, outcome=CallState.READY, reason=call.why, value=value, shown=shown)
    apply(tx, call, Settlement(CallState.READY))
