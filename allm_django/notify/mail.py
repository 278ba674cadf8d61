"""Sending one e-mail through Django."""

from __future__ import annotations

from typing import Any

from django.core import mail

from allm_django.conf import conf
from allm_django.models import Delivery, ToolCall
from allm_django.notify.people import address_of
from allm_django.notify.words import subject, text


def send_mail(row: Delivery, call: ToolCall) -> None:
    """Send it. Raises what the mail server's client raises, OSError among it."""
    message = mail.EmailMessage(subject(row.event, call), text(row.event, call), to=[address_of(row.user)])
    message.extra_headers = {
        "Message-ID": f"<{row.pk}@allm-django.invalid>",  # the same for each attempt: a mailbox can tell
        "Auto-Submitted": "auto-generated",
    }
    _mailer().send_messages([message])


def _mailer() -> Any:
    """Django's, which waits no longer than we do."""
    mailers = getattr(mail, "mailers", None)  # Django 6.1 and later
    mailer: Any = mailers["default"] if mailers is not None else mail.get_connection()
    if getattr(mailer, "timeout", 0) is None:
        mailer.timeout = conf().NOTIFY_TIMEOUT
    return mailer
