"""The transactions of calls at work: they start, end, or are closed; all under the session's lock."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from allm_django.core.decide import Snapshot
from allm_django.core.encode import to_json
from allm_django.core.kinds import EventKind
from allm_django.core.settle import OUT_OF_TIME, Settlement, settle_closed
from allm_django.core.states import CALL_TRANSITIONS, CallState, Outcome
from allm_django.core.types import JSONObject
from allm_django.loop.journal import RecipeProgress
from allm_django.models import ToolCall
from allm_django.store.calls import apply
from allm_django.store.deadlines import set_deadlines
from allm_django.store.judging import stale
from allm_django.store.known import Known, working
from allm_django.store.offers import handler_of
from allm_django.store.recipes import go_on, plans, progress_of
from allm_django.store.runs import close_open_calls
from allm_django.store.snapshots import snapshot_now
from allm_django.store.writing import Lease, Writing, alias, writing
from allm_django.tools.registry import BoundHandler

ENDINGS = {key for key in CALL_TRANSITIONS if key[0] in (CallState.EXECUTING, CallState.DELEGATED)}
SETTLED_KINDS = {Outcome.SUCCEEDED: EventKind.CALL_SUCCEEDED, Outcome.FAILED: EventKind.CALL_FAILED}
STATE_KINDS = {
    CallState.ASKING: EventKind.CALL_ASKED,
    CallState.UNKNOWN: EventKind.CALL_UNKNOWN,
    CallState.READY: EventKind.CALL_RETRIED,
    CallState.EXECUTING: EventKind.CALL_STARTED,
}


@dataclass(frozen=True, slots=True)
class Started:
    """What became of a wish to start a call: the call and what runs it, if it may; of a recipe, how far it is; of a
    step, the recipe.
    """

    snapshot: Snapshot
    call: ToolCall | None = None
    handler: BoundHandler | None = None
    recipe: RecipeProgress | None = None
    parent: ToolCall | None = None


def start_call(lease: Lease, known: Known, call_id: str, refuse: Any) -> Started:
    """Commit that a ready call starts, or settle it if it may not any more (H04, H07; security rows 10 and 19).
    A recipe that is begun goes on from its steps (R07).
    """
    with working(lease, known) as work:
        tx = work.tx
        call = next((row for row in work.calls if row.call_id == call_id), None)
        may = False
        if call is not None and not tx.session.cancel_requested:
            if call.state == CallState.READY:
                may = _start(tx, lease, call, stale(call) or refuse(call))
            elif call.state == CallState.DELEGATED:
                may = go_on(tx, call, work.calls)
        snapshot = snapshot_now(work, known)
        return _started(call, work.calls, snapshot) if call is not None and may else Started(snapshot)


def _started(call: ToolCall, calls: Iterable[ToolCall], snapshot: Snapshot) -> Started:
    assert call.tool_version is not None
    parent = next((row for row in calls if row.pk == call.parent_id), None)
    return Started(snapshot, call, handler_of(call.tool_version), progress_of(call, calls), parent)


def _start(tx: Writing, lease: Lease, call: ToolCall, why_not: str) -> bool:
    if why_not:
        apply(tx, call, settle_closed(call.call_id, Outcome.UNAVAILABLE, why_not))
        tx.tell(EventKind.CALL_CLOSED, calls=[call])
        return False
    call.started_at, call.worker, call.attempt = tx.now, lease.worker, call.attempt + 1
    apply(tx, call, Settlement(CallState.DELEGATED if plans(call.tool_version) else CallState.EXECUTING))
    tx.tell(EventKind.CALL_STARTED, calls=[call])
    return True


def finish_call(lease: Lease, known: Known, call_id: str, settlement: Settlement) -> Snapshot:
    """Record how a started call ended."""
    with working(lease, known) as work:
        tx = work.tx
        call = next(row for row in work.calls if row.call_id == call_id)
        if (CallState(call.state), settlement.state) in ENDINGS:  # else it was closed meanwhile
            if settlement.state is CallState.ASKING:
                set_deadlines(call, tx.now, question=True)
            apply(tx, call, settlement)
            kind = SETTLED_KINDS.get(settlement.outcome) if settlement.outcome else STATE_KINDS[settlement.state]
            tx.tell(kind or EventKind.CALL_CLOSED, calls=[call])
            if settlement.state in (CallState.ASKING, CallState.UNKNOWN):
                tx.derive_status()
        return snapshot_now(work, known)


def drop_calls(lease: Lease, known: Known, ids: Collection[str]) -> Snapshot:
    """Close calls for which the run has no time any more (L10)."""
    with working(lease, known) as work:
        late = [call for call in work.calls if call.call_id in ids and call.state == CallState.READY]
        for call in late:
            apply(work.tx, call, settle_closed(call.call_id, Outcome.UNAVAILABLE, OUT_OF_TIME))
        if late:
            work.tx.tell(EventKind.CALL_CLOSED, calls=late)
        return snapshot_now(work, known)


def close_calls(lease: Lease, known: Known) -> Snapshot:
    """After a cancel: close what has not started (L15)."""
    with working(lease, known) as work:
        close_open_calls(work.tx, Outcome.CANCELLED)
        work.known_calls = None
        return snapshot_now(work, known)


def record_late(call_id: uuid.UUID, session_id: uuid.UUID, late: JSONObject) -> None:
    """Keep what came after a timeout, a cancel or a takeover; it changes nothing else (T17)."""
    with writing(session_id) as tx:
        call = ToolCall.objects.using(alias()).select_related("tool_version").get(pk=call_id)
        if call.outcome == Outcome.SUCCEEDED:
            return  # it was recorded after all
        call.late_result = to_json(late)
        call.version += 1
        call.save(using=alias(), update_fields=["late_result", "version"])
        tx.tell(EventKind.CALL_UNKNOWN if call.state == CallState.UNKNOWN else EventKind.CALL_CLOSED, calls=[call])
