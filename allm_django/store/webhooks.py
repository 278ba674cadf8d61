"""Writes of webhooks and e-mail subscriptions."""

from __future__ import annotations

import re

from django.utils.translation import gettext as _

from allm_django.conf import webhooks_inside
from allm_django.errors import InvalidInputError
from allm_django.models import MailSubscription, Webhook
from allm_django.store.cleaning import check_row
from allm_django.store.writing import alias
from allm_django.tools.addresses import split_url

# A name that is meant for this, so that nobody can have other secrets of the server tried out.
SECRET_NAME = re.compile(r"ALLM_WEBHOOK[A-Z0-9_]*")


def check_webhook(hook: Webhook) -> None:
    """Raise InvalidInputError, naming the field, unless ``hook`` may be saved."""
    check_row(hook)
    check_address(hook)


def check_address(hook: Webhook) -> None:
    """The part of :func:`check_webhook` that looks at the address and the secret's name."""
    if not SECRET_NAME.fullmatch(hook.secret_env):
        words = _("Write the name of an environment variable, such as ALLM_WEBHOOK_SECRET; never the secret itself.")
        raise InvalidInputError(words, field="secret_env")
    split_url(hook.url, inside=webhooks_inside(), field="url")


def save_webhook(hook: Webhook) -> Webhook:
    """Write ``hook``. Raises InvalidInputError, naming the field."""
    check_webhook(hook)
    hook.save(using=alias())
    return hook


def delete_webhook(hook: Webhook) -> None:
    """Remove ``hook``, and what was to be sent to it."""
    hook.delete(using=alias())


def save_subscription(subscription: MailSubscription) -> MailSubscription:
    """Write whether a person wants e-mails."""
    subscription.save(using=alias())
    return subscription


def delete_subscription(subscription: MailSubscription) -> None:
    """Remove it."""
    subscription.delete(using=alias())
