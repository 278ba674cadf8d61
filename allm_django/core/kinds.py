"""The kinds of events. Apart from the events, which are many classes, so that Django starts without them."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """The kinds that a stored session numbers."""

    SESSION_STARTED = "SessionStarted"
    SESSION_RENAMED = "SessionRenamed"
    MESSAGE_ADDED = "MessageAdded"
    RUN_QUEUED = "RunQueued"
    RUN_STARTED = "RunStarted"
    MESSAGE_STARTED = "MessageStarted"
    MESSAGE_COMPLETED = "MessageCompleted"
    MESSAGE_BROKEN = "MessageBroken"
    ANSWER_FORMATTED = "AnswerFormatted"
    CALL_PENDING = "CallPending"
    CALL_PARTLY_APPROVED = "CallPartlyApproved"
    CALL_APPROVED = "CallApproved"
    CALL_EDITED = "CallEdited"
    CALL_REJECTED = "CallRejected"
    CALL_ANSWERED = "CallAnswered"
    CALL_REASKED = "CallReasked"
    CALL_ESCALATED = "CallEscalated"
    CALL_EXPIRED = "CallExpired"
    CALL_DELEGATED = "CallDelegated"
    CALL_STARTED = "CallStarted"
    CALL_ASKED = "CallAsked"
    CALL_SUCCEEDED = "CallSucceeded"
    CALL_FAILED = "CallFailed"
    CALL_UNKNOWN = "CallUnknown"
    CALL_RETRIED = "CallRetried"
    CALL_CLOSED = "CallClosed"
    CANCEL_REQUESTED = "CancelRequested"
    RUN_HALTED = "RunHalted"
    RUN_ENDED = "RunEnded"
    RUN_FAILED = "RunFailed"
