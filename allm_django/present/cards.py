"""Cards: a call as one viewer sees it, and what they may do with it (H03, H04, H10, T26)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db.models import QuerySet

from allm_django import access
from allm_django.access import DECIDABLE_STATES, Person
from allm_django.core.encode import visible
from allm_django.core.states import CallState
from allm_django.core.types import JSON, JSONObject
from allm_django.models import ToolCall, Worker
from allm_django.present.changes import change_shapes, changed_words
from allm_django.present.deciders import terms, verbs_for, waiting_for
from allm_django.present.people import person
from allm_django.present.unknown import known_of, workers_of
from allm_django.store.grants import not_grantable
from allm_django.store.shapes import call_shape


def with_card_rows(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """``calls`` with all that cards are made of: four queries, however many calls."""
    related = calls.select_related("session__owner", "message", "tool_version__tool", "decided_by")
    return related.prefetch_related(
        "tool_version__tool__approver_groups", "tool_version__tool__escalation_groups", "approvals"
    )


def cards(user: Person, calls: Iterable[ToolCall]) -> list[JSONObject]:
    """The cards of ``calls``, in their order, for ``user``."""
    rows = list(calls)
    rights = access.decidable_among(user, [call for call in rows if call.state in DECIDABLE_STATES])
    workers = workers_of(rows)
    return [_card(user, call, rights) | {"known": _known(user, call, rights, workers)} for call in rows]


def card(user: Person, call_id: object) -> JSONObject:
    """The card of one call that ``user`` may see. Raises NotFoundError."""
    call = access.call_for(user, call_id)
    return cards(user, with_card_rows(ToolCall.objects.filter(pk=call.pk)))[0]


def _card(user: Person, call: ToolCall, rights: set[uuid.UUID]) -> JSONObject:
    """Clear arguments only while the viewer may decide; what was decided is masked again."""
    may_decide = call.pk in rights
    may_answer = call.state == CallState.ASKING and access.owns(user, call.session) and access.may(user, "chat")
    data = call.tool_version.data if call.tool_version else {}
    return {
        **staff_error(call_shape(call, masked=not may_decide), call.error, user),
        "schema": data.get("schema", {}),
        "description": data.get("description", ""),
        "sensitive": data.get("sensitive", []),
        "may_decide": may_decide,
        "may_answer": may_answer,
        "verbs": verbs_for(user, call) if may_decide or may_answer else [],
        "waiting_for": "" if may_decide or may_answer else waiting_for(user, call),
        **terms(user, call),
        "asked_by": person(call.session.owner),
        "session_title": call.session.title,
        "said": call.message.text,
        "changed": changed_words(call) if call.state == CallState.PENDING else "",
        "changes": change_shapes(call) if call.state == CallState.PENDING and may_decide else [],
        "hidden_characters": _hides([call.name, call.arguments, call.raw_arguments]),
        "may_grant": may_decide and call.state == CallState.PENDING and not not_grantable(call),
    }


def _known(user: Person, call: ToolCall, rights: set[uuid.UUID], workers: dict[uuid.UUID, Worker]) -> JSONObject | None:
    """For those who are to find out what happened."""
    return known_of(call, workers) if call.pk in rights or access.may_inspect(user) else None


def staff_error(shape: JSONObject, error: JSONObject | None, user: Person) -> JSONObject:
    """``shape`` with the error's details, if there are any and ``user`` is one of those who may inspect."""
    if error and error.get("detail") and access.may_inspect(user):
        shape["error"] = {**shape["error"], "detail": error["detail"]}
    return shape


def _hides(value: JSON) -> bool:
    """Whether a text in ``value``, keys included, holds characters that hide or reorder others (security row 20)."""
    if isinstance(value, str):
        return visible(value) != value
    if isinstance(value, dict):
        return any(_hides(key) or _hides(item) for key, item in value.items())
    return isinstance(value, list) and any(_hides(item) for item in value)
