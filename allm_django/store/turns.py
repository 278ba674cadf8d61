"""The transactions of a run's turns, one function each; all under the session's lock and the lease's fence."""

from __future__ import annotations

from dataclasses import dataclass

from allm_django.core.compact import shown
from allm_django.core.decide import HaltRun, Snapshot, next_action
from allm_django.core.encode import to_json, to_text
from allm_django.core.history import NUDGE
from allm_django.core.kinds import EventKind
from allm_django.core.settle import NO_ENGINE
from allm_django.core.states import CallState, HaltedReason, Outcome
from allm_django.core.types import JSONObject, ModelRequest, Usage
from allm_django.core.types import Message as Neutral
from allm_django.errors import AllmError, InvalidInputError, LeaseLostError
from allm_django.models import Message, MessageChunk, Run, ToolCall
from allm_django.providers.base import Finished
from allm_django.store.approvals import Counts
from allm_django.store.grants import use_grants
from allm_django.store.judging import new_calls
from allm_django.store.known import Known, read_turn_calls, working
from allm_django.store.leases import break_off, mend_calls, mend_messages
from allm_django.store.offers import StoredOffer, offer_for
from allm_django.store.runs import add_usage, append_message, close_open_calls, halt_run
from allm_django.store.snapshots import output_so_far, snapshot_now, snapshot_of
from allm_django.store.streaks import facts_of
from allm_django.store.writing import Lease, alias

CANCELLED_TEXT = "Stopped."
OUT_OF_TIME_TEXT = "Broken off: the time for this message was used up."
COMPLETED = ("text", "thinking", "complete", "completed_at", "finish_reason", "dump", "usage")  # of a message


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn that was counted: what to send, and the message that the answer goes into."""

    request: ModelRequest
    message: Message
    offer: StoredOffer
    turns: int
    cancel_requested: bool


def load(lease: Lease, known: Known) -> Snapshot:
    """Where the run stands now."""
    run = Run.objects.using(alias()).select_related("session").get(pk=lease.run_id)
    session = run.session
    if (session.fence, session.lease_owner) != (lease.fence, lease.worker):
        raise LeaseLostError
    return snapshot_of(run, session.cancel_requested, read_turn_calls(session.id), known)


def begin_step(lease: Lease, known: Known, nudge: bool) -> Begun:
    """Count a turn, open its message, and assemble what the model is sent."""
    with working(lease, known) as work:
        tx, run = work.tx, work.run
        history = work.history(known.answer)
        offer = offer_for(tx.session, run.settings, known.versions)
        if known.past is not None:
            known.past = known.past.after(
                facts_of(call for call in work.calls if call.run_id == run.id and not call.parent_id)
            )
        run.turns += 1
        choice = _tool_choice(run, offer)
        message = append_message(tx, Message.Role.ASSISTANT, complete=False, model=run.settings["model"])
        tx.tell(EventKind.MESSAGE_STARTED, messages=[(message, ())])
        request = ModelRequest(
            (*history, Neutral("user", NUDGE)) if nudge else history,
            shown(offer.specs, choice),
            run.settings["system"],
            choice,
            run.settings["params"],
            run.request_id,
        )
        return Begun(request, message, offer, run.turns, tx.session.cancel_requested)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, and the message that it goes into; ``chunks``: pieces of it may have been stored."""

    message: Message
    finished: Finished
    chunks: bool


def complete_message(lease: Lease, known: Known, answer: Answer, offer: StoredOffer, may_decide: Counts) -> Snapshot:
    """Record the whole answer and its calls, each with its verdict; those that were allowed beforehand may run."""
    message, finished, using = answer.message, answer.finished, alias()
    with working(lease, known) as work:
        tx, run = work.tx, work.run
        message.text, message.thinking = to_text(finished.text), to_text(finished.thinking)
        message.complete, message.completed_at = True, tx.now
        message.finish_reason, message.dump = to_text(finished.finish_reason)[:64], to_json(finished.dump)
        message.usage = finished.usage.as_json()
        message.save(using=using, update_fields=COMPLETED)
        if answer.chunks:
            MessageChunk.objects.using(using).filter(message=message).delete()
        calls = new_calls(tx, message, offer, finished.calls)
        work.known_calls, known.answer = calls, message
        ToolCall.objects.using(using).bulk_create(calls)
        use_grants(tx, calls, may_decide)
        add_usage(run, tx.session, finished.usage)
        run.calls_used += len(calls)
        ids = [str(call.id) for call in calls]
        tx.tell(EventKind.MESSAGE_COMPLETED, messages=[(message, ids)], calls=calls, session=True)
        if pending := [call for call in calls if call.state == CallState.PENDING]:
            tx.derive_status()
            tx.tell(EventKind.CALL_PENDING, calls=pending)
        return snapshot_now(work, known)


def break_message(
    lease: Lease, known: Known, message: Message, text: str, thinking: str, error: AllmError | None, failed: bool
) -> Snapshot:
    """Keep what came, marked as broken; ``failed``: the run ends with ``error`` (L14)."""
    with working(lease, known) as work:
        tx, run = work.tx, work.run
        why = error.message if error else OUT_OF_TIME_TEXT if known.is_over else CANCELLED_TEXT
        break_off(message, why, to_text(text), to_text(thinking))
        if failed and error is not None:
            run.error = error_record(error)
        if text or thinking:  # what it cost is unknown
            add_usage(run, tx.session, Usage())
        tx.tell(EventKind.MESSAGE_BROKEN, messages=[(message, ())])
        return snapshot_now(work, known)


def halt(lease: Lease, known: Known, wanted: HaltRun) -> bool:
    """Halt and give the lease back, if the same still follows under the lock; else False."""
    with working(lease, known) as work:
        tx, run = work.tx, work.run
        if known.error:
            run.error = run.error or {
                "code": "halt_when",
                "message": "The engine's halt_when failed.",
                "detail": known.error,
            }
        snapshot = snapshot_now(work, known)
        if next_action(snapshot) != wanted:
            return False
        if wanted.reason == HaltedReason.ERROR and not run.error:
            run.error = _last_error(run, wanted)
        halt_run(tx, wanted.reason, waiting=wanted.waiting, metadata=wanted.metadata)
        run.seconds = max(run.seconds, snapshot.seconds)
        return True


def _last_error(run: Run, wanted: HaltRun) -> JSONObject:
    output = output_so_far(run)
    if wanted.metadata.get("error") == "invalid_output" and output is not None:
        return output.error()
    return {"code": "blank_answers", "message": "The model gave empty answers only.", "detail": ""}


def fail_run(lease: Lease, error: AllmError) -> None:
    """End a run that can't be driven at all: its model or one of its functions is not to be had."""
    with working(lease, Known(asks=False)) as work:
        tx = work.tx
        work.run.error = error_record(error)
        close_open_calls(tx, Outcome.CANCELLED, NO_ENGINE)
        mend_messages(tx)
        mend_calls(tx, again=False)
        waiting = any(call.state != CallState.SETTLED for call in read_turn_calls(lease.session_id))
        halt_run(tx, HaltedReason.ERROR, waiting=waiting)


def error_record(error: AllmError) -> JSONObject:
    """An error as a run keeps it; ``detail`` is for staff."""
    retryable = bool(getattr(error, "retryable", False))
    words = {"message": to_text(error.message), "detail": to_text(error.detail)}
    return {"code": error.code, **words, "retryable": retryable}


def _tool_choice(run: Run, offer: StoredOffer) -> str:
    """The engine's tool choice (T23). Raises InvalidInputError for a tool that is not on offer now."""
    choice: str = run.settings["tool_choice"]
    if choice not in ("auto", "none", "required") and choice not in offer.offer.tools:
        raise InvalidInputError(
            f"tool_choice: this assistant is set to use {choice!r}, which is not on offer.", field="tool_choice"
        )
    return choice
