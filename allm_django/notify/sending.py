"""Sending what is due, by a few threads that live no longer than there is something to send (H15)."""

from __future__ import annotations

import threading

from django.db import Error as DatabaseError
from django.db import connections

from allm_django.conf import conf
from allm_django.core.states import OPEN_STATES
from allm_django.errors import AllmError
from allm_django.logs import get_logger
from allm_django.models import Delivery, ToolCall, Webhook
from allm_django.notify.mail import send_mail
from allm_django.notify.people import those_to_mail
from allm_django.notify.webhook import send_webhook
from allm_django.notify.words import payload
from allm_django.store import deliveries
from allm_django.store.writing import alias

logger = get_logger("allm_django.notify")
OPEN_ONLY = ("call.pending", "call.escalated", "call.asked")  # an e-mail of these is of no use once it is decided


def send_due(stop: threading.Event | None = None) -> None:
    """Send all that is due, one after the other; what fails is put off."""
    calls = ToolCall.objects.using(alias()).select_related("session", "tool_version__tool")
    while not (stop and stop.is_set()) and (row := deliveries.claim()) is not None:
        call = calls.filter(pk=row.call_id).first()
        if call is None:
            deliveries.finish(row, Delivery.State.OBSOLETE)
        elif row.channel == Delivery.Channel.FAN_OUT:
            deliveries.fan_out(row, _addressed(row, call))
        else:
            _attempt(row, call)


def _addressed(row: Delivery, call: ToolCall) -> list[Delivery]:
    """One delivery for each webhook and person who wants to hear of it."""
    told = payload(row, call)
    hooks = [hook for hook in Webhook.objects.filter(enabled=True) if row.event in hook.events]
    people = those_to_mail(row.event, call)
    return [Delivery(channel=Delivery.Channel.WEBHOOK, webhook=hook, payload=told) for hook in hooks] + [
        Delivery(channel=Delivery.Channel.MAIL, user=user) for user in people
    ]


def _attempt(row: Delivery, call: ToolCall) -> None:
    status: int | None = None
    try:
        if row.webhook is not None:
            if not row.webhook.enabled:
                return deliveries.finish(row, Delivery.State.OBSOLETE)
            status = send_webhook(row, row.webhook)
            if not 200 <= status < 300:
                return deliveries.put_off(row, f"The receiver answered {status}.", status)
        elif row.event in OPEN_ONLY and call.state not in OPEN_STATES:
            return deliveries.finish(row, Delivery.State.OBSOLETE)
        else:
            send_mail(row, call)
    except DatabaseError:
        raise
    except AllmError as error:
        return deliveries.put_off(row, error.message)
    except Exception as error:  # whatever a mail server's client or a network may raise; never the content
        logger.info("Delivery %s failed: %s", row.pk, type(error).__name__)
        return deliveries.put_off(row, _told(error))
    return deliveries.finish(row, Delivery.State.SENT, status)


def _told(error: Exception) -> str:
    """The kind of error and, of the network's own, its words: others might quote what was sent."""
    if isinstance(error, TimeoutError):
        return f"No answer within {conf().NOTIFY_TIMEOUT:g} s."
    return f"{type(error).__name__}: {error.strerror or ''}" if isinstance(error, OSError) else type(error).__name__


class Senders:
    """Up to ``ALLM["NOTIFY_THREADS"]`` threads; each ends when nothing is due."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def look(self) -> None:
        """Send what is due, if anything is; returns at once."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if self._stop.is_set() or len(self._threads) >= conf().NOTIFY_THREADS or not deliveries.is_due():
            return
        thread = threading.Thread(target=self._work, name="allm-notify", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self, timeout: float) -> None:
        """Begin nothing more; wait for what is under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout)

    def _work(self) -> None:
        try:
            send_due(self._stop)
        except DatabaseError:
            logger.warning("The database failed while notifications were sent; they are tried again.", exc_info=True)
        finally:
            connections.close_all()
