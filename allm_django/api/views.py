"""The endpoints. Each reads its input, asks access for the object, calls the verb, and shows what is there now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import Exists, OuterRef, Q, QuerySet
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from allm_django import access, sessions
from allm_django.api import inputs, shapes
from allm_django.api.base import ApiView, documented
from allm_django.api.throttles import check_running
from allm_django.models import Message, Session, ToolCall
from allm_django.models.call import OPEN_CALLS
from allm_django.present.cards import card, cards, with_card_rows
from allm_django.present.engines import engine_shapes
from allm_django.present.records import events_after, latest_decision
from allm_django.present.sessions import session_detail, session_shapes, session_view
from allm_django.present.threads import message_for_view, thread_page

SESSIONS_PAGE = 30
CALLS_PAGE = 200


class SessionList(ApiView):
    """Sessions: list and start."""

    @documented("sessions_list", shapes.SessionsAnswer, query=inputs.SessionsQuery)
    def get(self, request: Request) -> Response:
        """Sessions, the latest first. ``scope``: one's own, those where something waits, or all that one may see."""
        query = inputs.checked(inputs.SessionsQuery, request.query_params)
        rows = _scoped(access.visible_sessions(request.user).filter(archived=False), query["scope"], request.user)
        if words := query.get("q", "").strip():
            rows = rows.filter(_matching(words, query["scope"]))
        if before := query.get("before"):
            rows = rows.filter(inputs.below_cursor(before))
        page = rows.order_by("-updated_at", "-pk")[: SESSIONS_PAGE + 1]
        found = list(page.only("pk", "updated_at"))
        more = len(found) > SESSIONS_PAGE
        shown = Session.objects.filter(pk__in=[row.pk for row in found[:SESSIONS_PAGE]])
        return Response(
            {
                "results": session_shapes(request.user, shown.order_by("-updated_at", "-pk")),
                "next": inputs.cursor_after(found[SESSIONS_PAGE - 1]) if more else None,
            }
        )

    @documented("sessions_start", shapes.SessionAnswer, status=201, request=inputs.StartInput, problems=(404, 409, 413))
    def post(self, request: Request) -> Response:
        """Start a session; with ``text``, the assistant begins at once."""
        given, key = inputs.checked(inputs.StartInput, request.data), inputs.idempotency_key(request)
        engine = access.engine_for(request.user, given.pop("engine", None))
        check_running(request.user, key)
        session = sessions.start(engine, user=request.user, key=key, **given)
        return Response({"session": session_view(request.user, session.pk)}, status.HTTP_201_CREATED)


class SessionDetail(ApiView):
    """One session."""

    @documented("sessions_read", shapes.DetailAnswer, path="session_id", problems=(404,))
    def get(self, request: Request, session_id: str) -> Response:
        """The session, its last messages with their calls, and what the viewer may do."""
        return Response(session_detail(request.user, session_id))


class MessageList(ApiView):
    """The messages of a session."""

    @documented("messages_list", shapes.ThreadAnswer, query=inputs.MessagesQuery, path="session_id", problems=(404,))
    def get(self, request: Request, session_id: str) -> Response:
        """Messages with their calls, a page before a position."""
        query = inputs.checked(inputs.MessagesQuery, request.query_params)
        session = access.session_for(request.user, session_id)
        return Response(thread_page(request.user, session, before=query.get("before"), limit=query["limit"]))

    @documented(
        "messages_write",
        shapes.MessageAnswer,
        status=202,
        request=inputs.MessageInput,
        path="session_id",
        problems=(404, 409, 413),
    )
    def post(self, request: Request, session_id: str) -> Response:
        """Write a message, or answer the one question that is open."""
        given, key = inputs.checked(inputs.MessageInput, request.data), inputs.idempotency_key(request)
        session = access.session_for(request.user, session_id)
        check_running(request.user, key, session)
        sessions.reply(session, given["text"], user=request.user, key=key)
        last = session.messages.filter(role=Message.Role.USER).order_by("-position").first()
        written = last if last is not None and last.text == given["text"] else None
        return Response(
            {
                "session": session_view(request.user, session.pk),
                "message": message_for_view(written) if written is not None else None,
            },
            status.HTTP_202_ACCEPTED,
        )


class EventList(ApiView):
    """The events of a session."""

    @documented("events_list", shapes.EventsAnswer, query=inputs.EventsQuery, path="session_id", problems=(404,))
    def get(self, request: Request, session_id: str) -> Response:
        """Events after a number, in order: what the socket would tell."""
        query = inputs.checked(inputs.EventsQuery, request.query_params)
        session = access.session_for(request.user, session_id)
        return Response(events_after(session, query["after"], query["limit"]))


class SessionVerb(ApiView):
    """A verb on a session that takes no fields."""

    verb: ClassVar[Callable[..., Session]]
    runs: ClassVar[bool] = True

    def act(self, request: Request, session_id: str) -> Response:
        """Do it, and show the session as it is then."""
        inputs.checked(inputs.NothingInput, request.data)
        key = inputs.idempotency_key(request)
        session = access.session_for(request.user, session_id)
        if self.runs:
            check_running(request.user, key, session)
        type(self).verb(session, user=request.user, key=key)
        return Response({"session": session_view(request.user, session.pk)}, status.HTTP_202_ACCEPTED)


def _documented_verb(operation: str) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    return documented(
        operation,
        shapes.SessionAnswer,
        status=202,
        request=inputs.NothingInput,
        path="session_id",
        problems=(404, 409),
    )


class Cancel(SessionVerb):
    """Stop what runs."""

    verb = staticmethod(sessions.cancel)
    runs = False

    @_documented_verb("sessions_cancel")
    def post(self, request: Request, session_id: str) -> Response:
        """Stop the run; open calls are closed."""
        return self.act(request, session_id)


class Resume(SessionVerb):
    """Go on without a new message."""

    verb = staticmethod(sessions.resume)

    @_documented_verb("sessions_resume")
    def post(self, request: Request, session_id: str) -> Response:
        """Go on from where the thread stands, after an error or a limit."""
        return self.act(request, session_id)


class Step(SessionVerb):
    """Go one turn on."""

    verb = staticmethod(sessions.step)

    @_documented_verb("sessions_step")
    def post(self, request: Request, session_id: str) -> Response:
        """One model round trip, then halt."""
        return self.act(request, session_id)


class Rename(ApiView):
    """Another title."""

    @documented(
        "sessions_rename", shapes.SessionAnswer, request=inputs.TitleInput, path="session_id", problems=(404, 413)
    )
    def post(self, request: Request, session_id: str) -> Response:
        """Give the session another title; its owner may."""
        given = inputs.checked(inputs.TitleInput, request.data)
        session = access.session_for(request.user, session_id)
        sessions.rename(session, given["title"], user=request.user)
        return Response({"session": session_view(request.user, session.pk)})


class CallList(ApiView):
    """Calls that wait."""

    @documented("calls_list", shapes.CallsAnswer, query=inputs.CallsQuery)
    def get(self, request: Request) -> Response:
        """Open calls, oldest first: those that one may decide, or all of one's own sessions."""
        query = inputs.checked(inputs.CallsQuery, request.query_params)
        own = ToolCall.objects.filter(session__in=access.visible_sessions(request.user).filter(owner=request.user.pk))
        rows = access.decidable_calls(request.user) if query["scope"] == "decide" else own
        rows = rows.filter(OPEN_CALLS) if query["state"] == "open" else rows.filter(state=query["state"])
        shown = list(with_card_rows(rows).order_by("created_at", "position")[:CALLS_PAGE])
        count = rows.count() if len(shown) == CALLS_PAGE else len(shown)
        return Response({"results": cards(request.user, shown), "count": count})


class CallDetail(ApiView):
    """One call."""

    @documented("calls_read", shapes.CardShape, path="call_id", problems=(404,))
    def get(self, request: Request, call_id: str) -> Response:
        """The call's card."""
        return Response(card(request.user, call_id))


class Decide(ApiView):
    """A decision on a call."""

    @documented(
        "calls_decide", shapes.DecideAnswer, request=inputs.DecideInput, path="call_id", problems=(404, 409, 413)
    )
    def post(self, request: Request, call_id: str) -> Response:
        """Decide the version of the call that was seen. On a conflict the answer holds the winner's card."""
        given, key = inputs.checked(inputs.DecideInput, request.data), inputs.idempotency_key(request)
        call = access.call_for(request.user, call_id)
        decided = sessions.decide(call, given.pop("verb"), by=request.user, key=key, **given)
        return Response({"call": card(request.user, decided.pk), "decision": latest_decision(decided)})


class EngineList(ApiView):
    """Engines on offer."""

    @documented("engines_list", shapes.EnginesAnswer)
    def get(self, request: Request) -> Response:
        """The engines that one may use, with their tools and examples."""
        return Response({"results": engine_shapes(request.user)})


class Schema(ApiView):
    """The OpenAPI document of this API."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        """As JSON, with the address at which the host project has mounted the API."""
        root = reverse("allm_django:session-list", request=request).removesuffix("sessions/")
        about = {"TITLE": "allm_django", "VERSION": "1", "SERVERS": [{"url": root.removesuffix("/")}]}
        generator: Any = SchemaGenerator
        with patched_settings(about):
            return Response(generator(urlconf="allm_django.api.urls").get_schema(request=request, public=True))


def _scoped(rows: QuerySet[Session], scope: str, user: Any) -> QuerySet[Session]:
    if scope == "mine":
        return rows.filter(owner=user.pk)
    return rows.filter(waiting__gt=0) if scope == "waiting" else rows


def _matching(words: str, scope: str) -> Q:
    """Titles; in one's own sessions what was said, too."""
    found = Q(title__icontains=words)
    if scope == "mine":
        found |= Q(Exists(Message.objects.filter(session=OuterRef("pk"), text__icontains=words)))
    return found
