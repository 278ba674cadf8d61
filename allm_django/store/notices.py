"""Which facts are told to people and machines outside, and noting them in the transaction of the fact (H15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.dispatch import Signal

from allm_django import signals
from allm_django.core.states import Outcome
from allm_django.models import Delivery, MailSubscription, Webhook

Notice = tuple[str, UUID, Mapping[str, str]]

EVENTS: dict[Signal, str] = {
    signals.call_pending: "call.pending",
    signals.call_asked: "call.asked",
    signals.call_escalated: "call.escalated",
    signals.call_decided: "call.decided",
}


def event_of(signal: Signal, words: Mapping[str, str]) -> str:
    """The event that a signal stands for outside, or ``""``."""
    if signal is signals.call_settled:
        return "call.expired" if words.get("outcome") == Outcome.EXPIRED else ""
    return EVENTS.get(signal, "")


def note(using: str, session_id: UUID, notices: Sequence[Notice], now: datetime) -> None:
    """Write what is to be told, if anyone wants to hear anything."""
    if not _anyone(using):
        return
    Delivery.objects.using(using).bulk_create(
        Delivery(
            channel=Delivery.Channel.FAN_OUT,
            event=event,
            session_id=session_id,
            call_id=call_id,
            payload={"verb": words["verb"]} if "verb" in words else {},
            next_at=now,
            created_at=now,
        )
        for event, call_id, words in notices
    )


def _anyone(using: str) -> bool:
    hooks = Webhook.objects.using(using).filter(enabled=True)
    return hooks.exists() or MailSubscription.objects.using(using).filter(enabled=True).exists()
