"""System checks on the record of decisions and on notifications. docs/reference/checks.md lists them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.db.utils import DatabaseError

from allm_django import conf
from allm_django.errors import ConfigurationError, InvalidInputError
from allm_django.models import MailSubscription, Webhook
from allm_django.store.chain import audit_keys
from allm_django.store.webhooks import check_address


def check_audit_key(**kwargs: Any) -> list[CheckMessage]:
    """E020: the key that signs decisions is not there, so none could be recorded."""
    if conf.problems():
        return []
    try:
        audit_keys()
    except ConfigurationError as error:
        return [Error(error.message, hint="Set it, in every process that decides.", id="allm_django.E020")]
    return []


def check_notifications(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W020–W022 (need ``--database``): notifications without links, webhooks that can't be sent."""
    if Webhook.objects.db not in (databases or ()) or conf.problems():
        return []
    try:
        hooks = list(Webhook.objects.filter(enabled=True))
        told = bool(hooks) or MailSubscription.objects.filter(enabled=True).exists()
    except DatabaseError:  # before the first migration
        return []
    messages = [message for hook in hooks for message in _of_webhook(hook)]
    if told and not conf.conf().SITE_URL:
        words = 'ALLM["SITE_URL"] is not set: notifications have no link to the card.'
        hint = 'Set it to where the site is, such as "https://shop.example".'
        messages.append(Warning(words, hint=hint, id="allm_django.W020"))
    return messages


def _of_webhook(hook: Webhook) -> Iterator[CheckMessage]:
    if not os.environ.get(hook.secret_env):
        words = f"The webhook {hook} needs the environment variable {hook.secret_env!r}, which is not set."
        yield Warning(words, hint="Set it in every process, or disable the webhook.", id="allm_django.W021")
    try:
        check_address(hook)
    except InvalidInputError as error:
        words = f"The webhook {hook} can't be sent: {error.message}"
        yield Warning(words, hint="Correct it in the admin, or disable it.", id="allm_django.W022")
