"""Sessions as their viewers see them: in lists, and whole."""

from __future__ import annotations

import uuid

from django.db.models import OuterRef, QuerySet, Subquery

from allm_django import access
from allm_django.access import Person
from allm_django.core.states import CallState, RunState
from allm_django.core.types import JSONObject
from allm_django.models import Engine, Message, Run, Session, ToolCall
from allm_django.present.cards import staff_error
from allm_django.present.people import person
from allm_django.present.threads import thread_page
from allm_django.store.shapes import moment, session_shape
from allm_django.store.snapshots import may_format_again


def with_session_rows(sessions: QuerySet[Session]) -> QuerySet[Session]:
    """``sessions`` with owner, engine and the id of the latest run."""
    latest = Run.objects.filter(session=OuterRef("pk")).order_by("-created_at").values("pk")[:1]
    return sessions.select_related("owner", "engine").annotate(latest_run=Subquery(latest))


def session_shapes(user: Person, sessions: QuerySet[Session]) -> list[JSONObject]:
    """The sessions in their order; two queries, however many."""
    rows = list(with_session_rows(sessions))
    runs = Run.objects.in_bulk([pk for row in rows if (pk := _latest_run(row)) is not None])
    return [_shape(user, row, runs.get(_latest_run(row) or uuid.UUID(int=0))) for row in rows]


def session_view(user: Person, session_id: uuid.UUID) -> JSONObject:
    """One session that ``user`` may see. Raises NotFoundError."""
    access.session_for(user, session_id)
    return session_shapes(user, Session.objects.filter(pk=session_id))[0]


def session_detail(user: Person, session_id: object) -> JSONObject:
    """A session with what the viewer may do, its last messages and their cards. Raises NotFoundError.

    ``event`` is read first: a client that then applies all later events ends where a fresh load would.
    """
    session = access.session_for(user, session_id)
    shape = session_shapes(user, Session.objects.filter(pk=session.pk))[0]
    shape["can"] = {
        "reply": _may(user, session) and _may_reply(session),
        "cancel": _owns(user, session) and session.active_run is not None and not session.cancel_requested,
        "supersede": _may(user, session) and _supersedes(session),
        "resume": _may(user, session) and session.active_run is None and _may_resume(session),
    }
    return {"session": shape, **thread_page(user, session), "event": session.event_count}


def _latest_run(session: Session) -> uuid.UUID | None:
    found: uuid.UUID | None = session.latest_run  # type: ignore[attr-defined]  # annotated above
    return found


def _shape(user: Person, session: Session, run: Run | None) -> JSONObject:
    shape = session_shape(session, run)
    if run is not None:
        staff_error(shape["run"], run.error, user)
    return {
        **shape,
        "owner": person(session.owner),
        "engine": {
            "name": session.engine.name,
            "title": session.engine.title or session.engine.name,
            "notice": session.engine.notice,
        },
        "created_at": moment(session.created_at),
        "updated_at": moment(session.updated_at),
    }


def _may(user: Person, session: Session) -> bool:
    return _owns(user, session) and access.usable_engines(user).filter(pk=session.engine_id).exists()


def _owns(user: Person, session: Session) -> bool:
    return access.owns(user, session) and access.may(user, "chat")


def _may_reply(session: Session) -> bool:
    """A message starts a run, answers the one open question, or closes what waits (H09, S04)."""
    run = session.active_run
    if run is None:
        return True
    if run.state != RunState.WAITING:
        return False
    return _asking(session) == 1 or _supersedes(session)


def _supersedes(session: Session) -> bool:
    """Whether a message would close calls that wait: it is no answer, and no call's outcome is unknown."""
    run = session.active_run
    if run is None or run.state != RunState.WAITING or run.settings.get("typing") != Engine.Typing.SUPERSEDE:
        return False
    return _asking(session) != 1 and not session.calls.filter(state=CallState.UNKNOWN).exists()


def _asking(session: Session) -> int:
    return ToolCall.objects.filter(session=session, state=CallState.ASKING)[:2].count()


def _may_resume(session: Session) -> bool:
    """Whether the thread's end asks for the model: a message without an answer, or calls with their results."""
    last = session.messages.filter(complete=True).order_by("-position").first()
    if last is None:
        return False
    if last.role != Message.Role.ASSISTANT or not last.text.strip() or last.calls.exists():
        return True
    return may_format_again(session)
