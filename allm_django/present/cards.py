"""Cards: a call as one viewer sees it, and what they may do with it (H03, H04, H10, T26)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from allm_django import access
from allm_django.access import DECIDABLE_STATES, Person
from allm_django.core.encode import visible
from allm_django.core.states import CallState
from allm_django.core.types import JSON, JSONObject
from allm_django.models import ToolCall, Worker
from allm_django.present.changes import change_shapes, changed_words
from allm_django.present.people import name_of, person
from allm_django.present.unknown import known_of, workers_of
from allm_django.store.drift import allowed_verbs
from allm_django.store.shapes import call_shape


def with_card_rows(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """``calls`` with all that cards are made of: two queries, however many calls."""
    related = calls.select_related("session__owner", "message", "tool_version__tool", "decided_by")
    return related.prefetch_related("tool_version__tool__approver_groups")


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
        "verbs": list(allowed_verbs(call)) if may_decide or may_answer else [],
        "waiting_for": "" if may_decide or may_answer else _waiting_for(user, call),
        "asked_by": person(call.session.owner),
        "session_title": call.session.title,
        "said": call.message.text,
        "changed": changed_words(call) if call.state == CallState.PENDING else "",
        "changes": change_shapes(call) if call.state == CallState.PENDING and may_decide else [],
        "hidden_characters": _hides([call.name, call.arguments, call.raw_arguments]),
    }


def _known(user: Person, call: ToolCall, rights: set[uuid.UUID], workers: dict[uuid.UUID, Worker]) -> JSONObject | None:
    """For those who are to find out what happened."""
    return known_of(call, workers) if call.pk in rights or access.may_inspect(user) else None


def staff_error(shape: JSONObject, error: JSONObject | None, user: Person) -> JSONObject:
    """``shape`` with the error's details, if there are any and ``user`` is one of those who may inspect."""
    if error and error.get("detail") and access.may_inspect(user):
        shape["error"] = {**shape["error"], "detail": error["detail"]}
    return shape


def _waiting_for(user: Person, call: ToolCall) -> str:
    if call.state == CallState.ASKING:
        return _("Waiting for %(name)s to answer.") % {"name": name_of(call.session.owner)}
    if call.state not in DECIDABLE_STATES:
        return ""
    version = call.tool_version
    tool = version.tool if version else None
    title = (version.data.get("title") if version else "") or call.name
    if groups := [group.name for group in tool.approver_groups.all()] if tool else []:
        return _("Waiting for someone of %(groups)s to decide “%(title)s”.") % {
            "groups": ", ".join(sorted(groups)),
            "title": title,
        }
    return _("Waiting for someone who may decide “%(title)s”.") % {"title": title}


def _hides(value: JSON) -> bool:
    """Whether a text in ``value``, keys included, holds characters that hide or reorder others (security row 20)."""
    if isinstance(value, str):
        return visible(value) != value
    if isinstance(value, dict):
        return any(_hides(key) or _hides(item) for key, item in value.items())
    return isinstance(value, list) and any(_hides(item) for item in value)
