"""Writing sessions: start, message, run, cancel."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from allm_django.core.encode import to_json
from allm_django.core.kinds import EventKind
from allm_django.core.settle import settle_answered
from allm_django.core.states import CallState, HaltedReason, Outcome, RunState
from allm_django.errors import AwaitingDecisionError, InvalidInputError, NotFoundError, SessionBusyError, StateError
from allm_django.models import Engine, Message, Run, Session, ToolCall
from allm_django.models.fields import check_text_list
from allm_django.store import keys
from allm_django.store.calls import apply, open_calls
from allm_django.store.expiry import expire_due
from allm_django.store.leases import mend_messages
from allm_django.store.record import record
from allm_django.store.runs import add_user_message, close_open_calls, end_if_closed, halt_run, queue_run, requeue_run
from allm_django.store.snapshots import may_format_again
from allm_django.store.writing import Writing, alias, writing

TITLE_LENGTH = 80
TIME_UP = "The time to decide or answer has run out, and the assistant goes on with that. Write once it halts."


def create_session(
    engine: Engine,
    owner: Any,
    *,
    text: str = "",
    title: str = "",
    context: Any = None,
    allowed_tools: Sequence[str] | None = None,
    key: str | None = None,
) -> Session:
    """A new session, with its first message and run if there is ``text``."""
    allowed = None if allowed_tools is None else list(allowed_tools)
    if allowed is not None:
        check_text_list(allowed, "allowed_tools")
    print_ = keys.fingerprint("start", engine.name, text, title, context, allowed)
    if before := keys.seen(owner, key, print_):
        return Session.objects.get(pk=before)
    try:
        with transaction.atomic(using=alias()):
            session = Session.objects.create(
                owner=owner,
                engine=engine,
                title=title or _title_of(text),
                context=to_json(context),
                allowed_tools=allowed,
            )
            keys.take(owner, key, print_, session.id)
            with writing(session.id) as tx:
                tx.tell(EventKind.SESSION_STARTED, session=True)
                if text:
                    queue_run(tx, engine)
                    add_user_message(tx, text)
    except keys.DuplicateRequestError as duplicate:
        return Session.objects.get(pk=duplicate.object_id)
    return Session.objects.select_related("engine", "active_run").get(pk=session.id)


def add_reply(session_id: uuid.UUID, text: str, *, user: Any = None, key: str | None = None) -> Message:
    """A user's message and its run; or, while exactly one question is open, the answer to it (S04).

    Raises SessionBusyError while a run is at work, AwaitingDecisionError while calls wait (H09).
    """
    print_ = keys.fingerprint("reply", session_id, text)
    if before := keys.seen(user, key, print_):
        return Message.objects.get(pk=before)
    try:
        with writing(session_id) as tx:
            keys.refuse_duplicate(user, key, print_)
            message = _reply(tx, text, user)
            keys.take(user, key, print_, message.id)
    except keys.DuplicateRequestError as duplicate:
        return Message.objects.get(pk=duplicate.object_id)
    return message


def start_run(
    session_id: uuid.UUID, *, kind: Run.Kind = Run.Kind.CHAT, user: Any = None, key: str | None = None
) -> None:
    """Go on from where the thread stands, without a new message (S02, S05)."""
    print_ = keys.fingerprint(f"run:{kind}", session_id)
    if keys.seen(user, key, print_):
        return
    try:
        with writing(session_id) as tx:
            keys.take(user, key, print_, session_id)
            _refuse_active(tx)
            last = tx.session.messages.filter(complete=True).order_by("-position").first()
            if last is None:
                raise StateError("There is nothing to go on from; write a message first.", state=tx.session.status)
            answered = last.role == Message.Role.ASSISTANT and last.text.strip() and not last.calls.exists()
            if answered and not may_format_again(tx.session):
                raise StateError("The assistant has answered; write a message to go on.", state=tx.session.status)
            queue_run(tx, tx.session.engine, kind)
    except keys.DuplicateRequestError:
        return


def request_cancel(session_id: uuid.UUID, *, user: Any = None, key: str | None = None) -> None:
    """Stop the active run: at once if nobody works on it, else its worker does within seconds (L15)."""
    print_ = keys.fingerprint("cancel", session_id)
    if keys.seen(user, key, print_):
        return
    try:
        with writing(session_id) as tx:
            keys.take(user, key, print_, session_id)
            if tx.run is None:
                raise StateError("Nothing is running that could be cancelled.", state=tx.session.status)
            if tx.session.cancel_requested:
                return
            tx.session.cancel_requested = True
            tx.tell(EventKind.CANCEL_REQUESTED, session=True)
            held = tx.session.lease_until is not None and tx.session.lease_until > tx.db_now
            if tx.run.state == RunState.WAITING or not held:
                tx.session.lease_owner, tx.session.lease_until = None, None  # who only stood still writes no more
                mend_messages(tx)
                close_open_calls(tx, Outcome.CANCELLED)
                end_if_closed(tx)
            tx.wake_after = True
    except keys.DuplicateRequestError:
        return


def rename_session(session_id: uuid.UUID, title: str) -> None:
    """Give a session another title."""
    if not title.strip() or len(title) > 200:
        raise InvalidInputError("title: 1 to 200 characters are needed.", field="title")
    with writing(session_id) as tx:
        tx.session.title = title.strip()
        tx.tell(EventKind.SESSION_RENAMED, session=True)
        tx.inbox_changed = True


def _reply(tx: Writing, text: str, user: Any) -> Message:
    if tx.run is not None and tx.run.state == RunState.WAITING:
        late = expire_due(tx)
        asking = list(open_calls(tx, (CallState.ASKING,)))
        if len(asking) == 1:
            return _answer_question(tx, asking[0], text, user)
        if tx.run.settings.get("typing") != Engine.Typing.SUPERSEDE:
            raise SessionBusyError(TIME_UP, state="queued") if late else AwaitingDecisionError(state=tx.session.status)
        _supersede(tx)
    _refuse_active(tx)
    if not tx.session.title:
        tx.session.title = _title_of(text)
    queue_run(tx, tx.session.engine)
    return add_user_message(tx, text)


def _answer_question(tx: Writing, call: ToolCall, text: str, user: Any) -> Message:
    """The owner's next words are the answer to the open question; they stand in the thread as that call's result."""
    record(tx, call, verb="answer", by=user, value=text, outcome=Outcome.ANSWERED)
    apply(tx, call, settle_answered(call.call_id, text))
    tx.tell(EventKind.CALL_ANSWERED, calls=[call])
    requeue_run(tx)
    return call.message


def _supersede(tx: Writing) -> None:
    """Close what waits, end the run, so that the new message goes on (H09)."""
    if open_calls(tx, (CallState.UNKNOWN, CallState.EXECUTING)).exists():
        raise AwaitingDecisionError(
            "A call's outcome is unknown; someone must settle it first.", state=tx.session.status
        )
    close_open_calls(tx, Outcome.SUPERSEDED)
    halt_run(tx, HaltedReason.CANCELLED, waiting=False, metadata={"superseded": True})
    tx.run = None


def _refuse_active(tx: Writing) -> None:
    if tx.run is not None:
        if tx.run.state == RunState.WAITING:
            raise AwaitingDecisionError(state=tx.session.status)
        raise SessionBusyError(state=tx.session.status)


def _title_of(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…"


def get_session(session_id: uuid.UUID) -> Session:
    """The session as it stands now. Raises NotFoundError."""
    session = Session.objects.select_related("engine", "active_run", "owner").filter(pk=session_id).first()
    if session is None:
        raise NotFoundError("There is no such session.")
    return session
