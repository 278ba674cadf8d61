"""Acting on the times until which calls wait: they expire, and others are called in (H11).

The rows hold the times, so nobody waits for them: the sweeper comes by, and whoever decides looks under the lock.
"""

from __future__ import annotations

from uuid import UUID

from django.db import Error as DatabaseError
from django.db.models import QuerySet

from allm_django.core.kinds import EventKind
from allm_django.core.settle import NOT_ANSWERED, settle_closed
from allm_django.core.states import CallState, Outcome
from allm_django.errors import NotFoundError
from allm_django.logs import get_logger
from allm_django.models import ToolCall
from allm_django.models.call import OPEN_CALLS
from allm_django.store import clock
from allm_django.store.calls import apply, open_calls
from allm_django.store.runs import requeue_run
from allm_django.store.writing import Writing, alias, writing

TIMED = (CallState.PENDING, CallState.ASKING)
BATCH = 100  # calls a round; what is left over has its turn in the next

logger = get_logger("allm_django.store")


def fire_due(limit: int = BATCH) -> int:
    """Act on the calls whose time has come, the longest overdue first; returns in how many sessions.

    A session that can't be written now is left for the next round, and holds up no other.
    """
    fired = 0
    for session_id in sessions_due(limit):
        try:
            fire(session_id)
            fired += 1
        except NotFoundError:
            continue  # it was deleted meanwhile
        except DatabaseError:
            logger.warning("Calls of session %s could not be expired; tried again later.", session_id, exc_info=True)
    return fired


def sessions_due(limit: int = BATCH) -> list[UUID]:
    """Sessions of the ``limit`` calls whose time has come first; one query on the index of open calls with a time."""
    return list(dict.fromkeys(due_calls().values_list("session_id", flat=True)[:limit]))


def due_calls() -> QuerySet[ToolCall]:
    """The calls whose time has come, the longest overdue first."""
    rows = ToolCall.objects.using(alias()).filter(OPEN_CALLS, state__in=TIMED, wake_at__lte=clock.now())
    return rows.order_by("wake_at")


def fire(session_id: UUID) -> None:
    """Expire and escalate what is due in one session, and let its run go on."""
    with writing(session_id) as tx:
        if expire_due(tx):
            requeue_run(tx)
        _escalate_due(tx)


def expire_due(tx: Writing) -> list[ToolCall]:
    """Close the session's calls that nobody decided or answered in time. The caller queues the run."""
    due = list(open_calls(tx, TIMED).filter(expires_at__lte=tx.now))
    for call in due:
        words = NOT_ANSWERED if call.state == CallState.ASKING else ""
        apply(tx, call, settle_closed(call.call_id, Outcome.EXPIRED, words))
    if due:
        tx.tell(EventKind.CALL_EXPIRED, calls=due)
        tx.inbox_changed = True
    return due


def _escalate_due(tx: Writing) -> None:
    """Call the escalation groups in. They may decide from ``escalates_at`` on; this is how they hear of it."""
    due = list(open_calls(tx, (CallState.PENDING,)).filter(wake_at__lte=tx.now))
    for call in due:
        call.wake_at = call.expires_at
        call.save(using=alias(), update_fields=["wake_at"])
    if due:
        tx.tell(EventKind.CALL_ESCALATED, calls=due)
        tx.inbox_changed = True
