"""The verbs on stored sessions; what API, page, admin and host code all call.

Each returns once its fact is written (durable when the outermost transaction commits); the runner does the rest. Each
has an async twin, prefixed ``a``, and takes ``key=``: the same key and request again is harmless. With ``user`` or
``by`` the permission is checked (NotFoundError, NotAllowedError); without, the caller is trusted code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import transaction

from allm_django import access
from allm_django.apps import refuse_in_transaction
from allm_django.conf import conf
from allm_django.core.encode import to_json
from allm_django.core.states import CallState, SessionStatus
from allm_django.core.types import JSONObject
from allm_django.errors import (
    AlreadyDecidedError,
    InvalidInputError,
    LoopContextError,
    NotFoundError,
    StateError,
)
from allm_django.models import Engine, Grant, Run, Session, ToolCall
from allm_django.store import decisions
from allm_django.store import sessions as rows
from allm_django.store.decisions import Wish
from allm_django.store.exports import export_session
from allm_django.store.grants import revoke_grant
from allm_django.store.imports import import_session
from allm_django.store.runs import requeue_run
from allm_django.store.writing import alias

__all__ = [
    "aanswer", "aapprove", "acancel", "adecide", "aexport", "aimport", "answer", "approve", "areask", "areject",
    "arename", "areply", "aresume", "aretry", "arevoke", "astart", "astep", "asubmit_tool_result",
    "asubmit_tool_results", "await_", "cancel", "decide", "export", "import_", "reask", "reject", "rename", "reply",
    "resume", "retry", "revoke", "start", "step", "submit_tool_result", "submit_tool_results", "wait",
]  # fmt: skip

FIRST_WAIT, LONGEST_WAIT = 0.01, 0.25  # seconds between two looks; each is half as long again as the one before


def start(
    engine: Engine | str,
    *,
    user: Any,
    text: str = "",
    title: str = "",
    context: Any = None,
    allowed_tools: Sequence[str] | None = None,
    key: str | None = None,
) -> Session:
    """A new session of ``user`` with an engine (row or name), and its first message if there is ``text``.

    ``allowed_tools`` limits it to named tools (None: all that the engine offers; an empty list: none, R09). Raises
    NotFoundError for an engine that is not there, InvalidInputError for a text that is too long.
    """
    row = _engine(engine)
    if text:
        _check_text(text)
    return rows.create_session(row, user, text=text, title=title, context=context, allowed_tools=allowed_tools, key=key)


def reply(session: Session, text: str, *, user: Any = None, key: str | None = None) -> Session:
    """A message of the owner. While exactly one question is open, it is the answer (S04).

    Raises SessionBusyError while the loop is at work, AwaitingDecisionError while calls wait (H09).
    """
    _check_text(text)
    if user is not None:
        access.check_write(user, session)
    rows.add_reply(session.pk, text, user=user or session.owner, key=key)
    return rows.get_session(session.pk)


def resume(session: Session, *, user: Any = None, key: str | None = None) -> Session:
    """Go on without a new message: after an error, a limit, a halt of a tool's own. Raises StateError otherwise."""
    return _run_again(session, Run.Kind.CHAT, user, key)


def step(session: Session, *, user: Any = None, key: str | None = None) -> Session:
    """Go on for one turn only (S02)."""
    return _run_again(session, Run.Kind.STEP, user, key)


def cancel(session: Session, *, user: Any = None, key: str | None = None) -> Session:
    """Stop the active run, wherever it runs (L15). Raises StateError if there is none."""
    if user is not None:
        access.check_owner(user, session)
    rows.request_cancel(session.pk, user=user, key=key)
    return rows.get_session(session.pk)


def rename(session: Session, title: str, *, user: Any = None) -> Session:
    """Give the session another title of 1 to 200 characters."""
    if user is not None:
        access.check_owner(user, session)
    rows.rename_session(session.pk, title)
    return rows.get_session(session.pk)


def decide(
    call: ToolCall,
    verb: str,
    *,
    by: Any,
    version: int | None,
    arguments: JSONObject | None = None,
    reason: str = "",
    value: Any = None,
    grant: JSONObject | None = None,
    key: str | None = None,
) -> ToolCall:
    """Decide a call: ``approve``, ``edit`` (needs ``arguments``), ``reject``, ``answer``, ``retry`` or ``reask``.

    ``version`` is that of the call as the person saw it; ``by`` None is trusted code. Raises AlreadyDecidedError or
    VersionMismatchError with the call as it is now in ``info["call"]``, InvalidInputError for an unknown or
    impossible verb or arguments that do not fit; nothing is written then (H02–H05). Where a tool has a quorum, the
    call stays pending until that many people have approved the same version; an edit is a new one, and who has
    approved already is told so by AlreadyApprovedError (H10). A call whose time has run out is expired (H11).
    """
    wish = Wish(verb, version if version is not None else call.version, arguments, reason, to_json(value), grant)
    check = None if by is None else (lambda fresh: _check_may(by, fresh))
    return decisions.decide(
        call.session_id, call.pk, wish, by=by, key=key, check=check, counts=access.may_decide, requeue=requeue_run
    )


def approve(
    call: ToolCall,
    *,
    by: Any,
    version: int | None = None,
    arguments: JSONObject | None = None,
    grant: JSONObject | None = None,
    key: str | None = None,
) -> ToolCall:
    """Let a pending call run; with ``arguments``: with these instead (H05). See :func:`decide`.

    ``grant`` allows further calls of the tool beforehand, if the tool lets it (H13): ``scope`` (``session`` or
    ``user``: all sessions of this owner), ``match`` (``exact``, ``any``, or ``pattern`` with a JSON Schema in
    ``pattern``), ``seconds`` (60 to 90 days), and optionally ``uses``. Only without ``arguments``.
    """
    verb = "approve" if arguments is None else "edit"
    return decide(call, verb, by=by, version=version, arguments=arguments, grant=grant, key=key)


def reject(
    call: ToolCall, *, by: Any, version: int | None = None, reason: str = "", key: str | None = None
) -> ToolCall:
    """Close a call unrun; the model is told the reason."""
    return decide(call, "reject", by=by, version=version, reason=reason, key=key)


def answer(
    call: ToolCall, *, by: Any, version: int | None = None, value: Any = None, key: str | None = None
) -> ToolCall:
    """Give a call's result by hand; or, as the owner, answer the question it asks (T13)."""
    return decide(call, "answer", by=by, version=version, value=value, key=key)


def retry(call: ToolCall, *, by: Any, version: int | None = None, key: str | None = None) -> ToolCall:
    """Run a call of unknown outcome once more, on a person's word (H07)."""
    return decide(call, "retry", by=by, version=version, key=key)


def reask(call: ToolCall, *, by: Any, version: int | None = None, key: str | None = None) -> ToolCall:
    """The tool has changed since the call was asked: ask again, by the tool as it is now (H04)."""
    return decide(call, "reask", by=by, version=version, key=key)


def revoke(grant: Grant, *, by: Any = None) -> Grant:
    """End what was allowed beforehand (H13). Raises StateError if it was revoked already."""
    if by is not None:
        access.grant_for(by, grant.pk)
    return revoke_grant(grant.pk, by=by)


def submit_tool_result(session: Session, call_id: str, value: Any, *, by: Any = None) -> Session:
    """Give the result of one open call, named by its ``call_id``. See :func:`submit_tool_results`."""
    return submit_tool_results(session, {call_id: value}, by=by)


def submit_tool_results(session: Session, results: Mapping[str, Any], *, by: Any = None) -> Session:
    """Give results of open calls, all or none (S03); the last one lets the loop go on.

    Raises NotFoundError naming an id that the session does not know, AlreadyDecidedError for one that has its result.
    """
    if not results:
        raise InvalidInputError("results: empty; give at least one call id with its value.", field="results")
    with transaction.atomic(using=alias()):
        found = {call.call_id: call for call in ToolCall.objects.filter(session=session, call_id__in=list(results))}
        for call_id in results:
            if call_id not in found:
                raise NotFoundError(f"The session has no call {call_id!r}.")
            if found[call_id].state == CallState.SETTLED:
                raise AlreadyDecidedError(
                    f"The call {call_id!r} has its result already.", call=found[call_id], state=found[call_id].state
                )
        for call_id, value in results.items():
            answer(found[call_id], by=by, value=value)
    return rows.get_session(session.pk)


def export(session: Session, *, by: Any = None, clear: bool = False) -> JSONObject:
    """The session as versioned JSON: messages, calls with results and decisions, runs (S07).

    Sensitive fields are masked, but of calls that ``by`` may decide now; ``clear``: none is. The session's context and
    the staff's details of errors are for trusted code (``by`` None) and for who may inspect. Raises NotFoundError.
    """
    if by is not None:
        access.session_for(by, session.pk)

    def shown(calls: list[ToolCall]) -> set[UUID]:
        waiting = [call for call in calls if call.state in access.DECIDABLE_STATES]
        return {call.pk for call in calls} if clear else access.decidable_among(by, waiting) if by else set()

    detail = by is None or access.may_inspect(by)
    return export_session(session.pk, clear=shown, trusted=by is None, detail=detail)


def import_(data: Any, *, user: Any, engine: Engine | str, context: Any = None) -> Session:
    """A new session of ``user`` from what :func:`export` gave, older versions of the format included (S07).

    It arrives at rest, with ids of its own: runs ended, open calls cancelled, so nothing in it can run or be decided.
    Its context is not taken from ``data``; give ``context``. Raises InvalidInputError naming the field, NotFoundError
    for the engine; nothing is written then. Who wrote the file decides what the model believes was said: take none
    from people you would not let speak for the assistant.
    """
    return import_session(data, _engine(engine), user, context=context)


def wait(session: Session, *, timeout: float = 30.0) -> Session:
    """Wait until the session halts; for scripts and tests. ``timeout`` in seconds; raises TimeoutError.

    Raises LoopContextError inside a transaction or on a running event loop (await ``await_`` there).
    """
    _refuse_loop()
    refuse_in_transaction()
    end, pause = time.monotonic() + timeout, FIRST_WAIT
    while (fresh := rows.get_session(session.pk)).status == SessionStatus.RUNNING:
        if time.monotonic() > end:
            raise TimeoutError(f"The session is still running after {timeout:g} s.")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_WAIT)
    return fresh


async def await_(session: Session, *, timeout: float = 30.0) -> Session:
    """The async twin of :func:`wait` (``await`` itself is Python's own word)."""
    pause = FIRST_WAIT
    async with asyncio.timeout(timeout):  # the rows change in other processes, too: there is nothing to be woken by
        while (fresh := await _get(session.pk)).status == SessionStatus.RUNNING:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_WAIT)
    return fresh


astart = sync_to_async(start)
areply = sync_to_async(reply)
aresume = sync_to_async(resume)
astep = sync_to_async(step)
acancel = sync_to_async(cancel)
arename = sync_to_async(rename)
adecide = sync_to_async(decide)
aapprove = sync_to_async(approve)
areject = sync_to_async(reject)
aanswer = sync_to_async(answer)
aretry = sync_to_async(retry)
areask = sync_to_async(reask)
arevoke = sync_to_async(revoke)
aexport = sync_to_async(export)
aimport = sync_to_async(import_)
asubmit_tool_result = sync_to_async(submit_tool_result)
asubmit_tool_results = sync_to_async(submit_tool_results)
_get = sync_to_async(rows.get_session)


def _run_again(session: Session, kind: Run.Kind, user: Any, key: str | None) -> Session:
    if user is not None:
        access.check_write(user, session)
    rows.start_run(session.pk, kind=kind, user=user, key=key)
    return rows.get_session(session.pk)


def _check_may(by: Any, call: ToolCall) -> None:
    if call.state == CallState.ASKING:
        access.check_answer(by, call)
    else:
        access.check_decide(by, call)


def _engine(engine: Engine | str) -> Engine:
    if isinstance(engine, Engine):
        if not engine.enabled:
            raise StateError(f"The engine {engine.name!r} is switched off.", state="disabled")
        return engine
    row = Engine.objects.filter(name=engine, enabled=True).first()
    if row is None:
        raise NotFoundError(f"There is no engine {engine!r} that is switched on.")
    return row


def _check_text(text: Any) -> None:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError("text: empty; write something.", field="text")
    if to_json(text) != text:
        raise InvalidInputError("text: holds U+0000 or half of a surrogate pair, which can't be stored.", field="text")
    if len(text) > conf().MAX_TEXT:
        raise InvalidInputError(f"text: {len(text)} characters; at most {conf().MAX_TEXT} are allowed.", field="text")


def _refuse_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise LoopContextError("An event loop is running in this thread; await sessions.await_(…) instead.")
