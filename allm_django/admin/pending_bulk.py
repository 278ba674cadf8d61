"""Several calls approved or rejected at once: explicit ids and versions, each decided for itself (H06, M06)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from allm_django import access, sessions
from allm_django.admin.display import age, json_block, plain
from allm_django.core.encode import visible
from allm_django.errors import AllmError
from allm_django.models import ToolCall
from allm_django.present.cards import cards, with_card_rows

if TYPE_CHECKING:
    from allm_django.admin.pending import PendingCallAdmin

TEMPLATE = "admin/allm_django/pendingcall/decide.html"
MOST = 200
VERBS = {
    "approve": (gettext_lazy("Approve calls"), gettext_lazy("Approve these calls")),
    "reject": (gettext_lazy("Reject calls"), gettext_lazy("Reject these calls")),
}
MORE_REASON = 2_000


@dataclass(frozen=True, slots=True)
class Line:
    """One call on the page that asks: what is decided, or why not."""

    ticket: str
    headline: str
    facts: str
    arguments: Any
    problem: str = ""


def decide_many(admin: PendingCallAdmin, request: HttpRequest) -> HttpResponse:
    """Ask for a word of confirmation, or carry out what was confirmed."""
    back = _back(request)
    verb = request.POST.get("verb") or request.POST.get("all", "")
    if not admin.has_view_permission(request):
        raise PermissionDenied
    if request.method != "POST" or verb not in VERBS:
        return HttpResponseRedirect(back)
    tickets = _tickets(request.POST.getlist("shown" if request.POST.get("all") else "chosen"))
    if not tickets or len(tickets) > MOST:
        words = _("Choose at least one call, and at most %(most)d.") % {"most": MOST}
        admin.message_user(request, words, messages.WARNING)
        return HttpResponseRedirect(back)
    reason = request.POST.get("reason", "").strip()[:MORE_REASON]
    confirmed = request.POST.get("confirmed") == "yes"
    if not confirmed or (verb == "reject" and not reason):
        return _ask(admin, request, verb, tickets, missing=confirmed)
    _carry_out(admin, request, verb, tickets, reason)
    return HttpResponseRedirect(back)


def _back(request: HttpRequest) -> str:
    """The list with its filters; only the part after the question mark is taken from the request."""
    return reverse("admin:allm_django_pendingcall_changelist") + "?" + request.POST.get("back", "").lstrip("?")


def _tickets(values: Iterable[str]) -> dict[UUID, int]:
    """Ids and the versions that the person saw; what is no such pair is dropped."""
    found = {}
    for value in values:
        key, _sign, version = value.partition(":")
        try:
            found[UUID(key)] = int(version)
        except ValueError:
            continue
    return found


def _ask(
    admin: PendingCallAdmin, request: HttpRequest, verb: str, tickets: Mapping[UUID, int], *, missing: bool
) -> HttpResponse:
    lines = _lines(request.user, verb, tickets)
    title, button = VERBS[verb]
    context = {
        **admin.admin_site.each_context(request),
        "title": title,
        "button": button,
        "verb": verb,
        "lines": [line for line in lines if not line.problem],
        "left_out": [line for line in lines if line.problem],
        "missing": missing,
        "back": request.POST.get("back", ""),
        "back_url": _back(request),
        "opts": admin.opts,
        "media": admin.media,
    }
    return TemplateResponse(request, TEMPLATE, context)


def _lines(viewer: Any, verb: str, tickets: Mapping[UUID, int]) -> list[Line]:
    """The same cards as those of the chat page, oldest first."""
    rows = access.visible_calls(viewer).filter(pk__in=list(tickets)).order_by("created_at", "position")
    calls = list(with_card_rows(rows))
    return [_line(call, card, verb, tickets[call.pk]) for call, card in zip(calls, cards(viewer, calls), strict=True)]


def _line(call: ToolCall, card: Mapping[str, Any], verb: str, version: int) -> Line:
    facts = " · ".join((card["asked_by"]["name"], card["session_title"] or str(call.session_id), age(call.created_at)))
    headline = visible(card["headline"])
    return Line(
        f"{call.pk}:{version}",
        headline,
        visible(facts),
        json_block(card["arguments"]),
        _problem(call, card, verb, version),
    )


def _problem(call: ToolCall, card: Mapping[str, Any], verb: str, version: int) -> str:
    """Why it can't be decided so, as far as one can tell before trying; ``""`` if nothing speaks against it."""
    if call.version != version:
        return _("It changed since the list was shown: %(state)s.") % {"state": call.get_state_display()}
    if not card["may_decide"]:
        return _("You may not decide it.")
    if verb not in card["verbs"]:
        return plain(card["changed"]) or _("This is not possible for it; open its card.")
    return ""


def _carry_out(
    admin: PendingCallAdmin, request: HttpRequest, verb: str, tickets: Mapping[UUID, int], reason: str
) -> None:
    """Each in a transaction of its own; those that are refused are named one by one, the others are done."""
    rows = access.visible_calls(request.user).filter(pk__in=list(tickets)).select_related("tool_version")
    calls = list(rows.order_by("created_at", "position"))
    done = 0
    for call in calls:
        try:
            sessions.decide(call, verb, by=request.user, version=tickets[call.pk], reason=reason)
        except AllmError as error:
            admin.message_user(request, f"{_name(call)}: {error.message}", messages.ERROR)
        else:
            done += 1
    for _unseen in range(len(tickets) - len(calls)):
        admin.message_user(request, _("A call is no longer there."), messages.ERROR)
    if done:
        admin.message_user(request, _done(verb, done), messages.SUCCESS)


def _name(call: ToolCall) -> str:
    data = call.tool_version.data if call.tool_version else {}
    return visible(f"{data.get('title') or call.name} ({str(call.pk)[:8]})")


def _done(verb: str, number: int) -> str:
    if verb == "approve":
        return ngettext("%(n)d call was approved.", "%(n)d calls were approved.", number) % {"n": number}
    return ngettext("%(n)d call was rejected.", "%(n)d calls were rejected.", number) % {"n": number}
