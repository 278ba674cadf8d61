"""Telling people and machines of calls that wait: who wants to hear, and what was sent (H15)."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from allm_django.core.encode import visible
from allm_django.errors import InvalidInputError
from allm_django.models.fields import at_field, check_text_list

EVENTS = ("call.pending", "call.asked", "call.escalated", "call.expired", "call.decided")


def all_events() -> list[str]:
    """Every event that can be told."""
    return list(EVENTS)


class Webhook(models.Model):
    """An address that is told of events. ``secret_env`` is the *name* of an environment variable."""

    name = models.CharField(_("name"), max_length=100, unique=True)
    url = models.CharField(_("address"), max_length=500, help_text=_("An https address that takes POST."))
    events = models.JSONField(_("events"), default=all_events)
    secret_env = models.CharField(
        _("secret's variable"),
        max_length=100,
        help_text=_("Name of the environment variable with the secret; it begins with ALLM_WEBHOOK."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ("name",)

    def __str__(self) -> str:
        return visible(self.name)

    def clean(self) -> None:
        """The events are some of those that there are."""
        try:
            check_text_list(self.events, "events", EVENTS)
        except InvalidInputError as error:
            raise ValidationError({"events": at_field(error, "events")}) from error


class MailSubscription(models.Model):
    """A person who wants e-mails of calls that they may decide, and of questions in their own sessions."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="allm_mail", verbose_name=_("user")
    )
    enabled = models.BooleanField(_("enabled"), default=True)

    class Meta:
        verbose_name = _("e-mail subscription")
        verbose_name_plural = _("e-mail subscriptions")

    def __str__(self) -> str:
        return visible(str(self.user))


class Delivery(models.Model):
    """Something to tell someone, and how far that has come. ``id`` stays over all attempts.

    A ``fan_out`` is written in the transaction of what it tells; the sender makes of it one delivery for each
    who wants to hear, in one transaction as well: so nothing is told of what was rolled back, and nothing is lost.
    """

    class Channel(models.TextChoices):
        """How it goes."""

        FAN_OUT = "fan_out", _("to be addressed")
        MAIL = "mail", _("e-mail")
        WEBHOOK = "webhook", _("webhook")

    class State(models.TextChoices):
        """How far it has come."""

        WAITING = "waiting", pgettext_lazy("delivery", "waiting")
        SENT = "sent", pgettext_lazy("delivery", "sent")
        FAILED = "failed", pgettext_lazy("delivery", "given up")
        OBSOLETE = "obsolete", pgettext_lazy("delivery", "no longer of use")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    channel = models.CharField(_("channel"), max_length=10, choices=Channel)
    event = models.CharField(_("event"), max_length=20)
    session_id = models.UUIDField(_("session"), db_index=True)
    call_id = models.UUIDField(_("call"))
    webhook = models.ForeignKey(Webhook, models.CASCADE, null=True, related_name="+", verbose_name=_("webhook"))
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", verbose_name=_("user")
    )
    payload: Any = models.JSONField(_("content"), default=dict)
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    next_at = models.DateTimeField(_("next attempt"))
    last_status = models.PositiveSmallIntegerField(_("last status"), null=True)
    last_error = models.CharField(_("last error"), max_length=300, blank=True)
    created_at = models.DateTimeField(_("created at"))
    finished_at = models.DateTimeField(_("finished at"), null=True)

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        ordering = ("-created_at",)
        indexes = (
            models.Index(fields=("next_at",), name="allm_delivery_due", condition=models.Q(state="waiting")),
            models.Index(fields=("-created_at",), name="allm_delivery_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.event} {self.id}"
