"""Sessions: the lock of everything below them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.encode import visible
from allm_django.core.states import SessionStatus
from allm_django.models.engine import Engine
from allm_django.models.fields import Literal
from allm_django.models.words import SESSION_STATUSES

# Sessions with something to run, in words that find their partial index on every database.
RUNNING_SESSIONS = models.Q(status=Literal(SessionStatus.RUNNING.value))


class Session(models.Model):
    """One conversation. Its row is the one lock of all its rows, and carries the event counter, the lease and
    its fence (design.md, "One lock").
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="allm_sessions", verbose_name=_("owner")
    )
    engine = models.ForeignKey(Engine, models.PROTECT, related_name="sessions", verbose_name=_("engine"))
    title = models.CharField(_("title"), max_length=200, blank=True)
    context = models.JSONField(_("context"), null=True, blank=True)
    allowed_tools = models.JSONField(_("allowed tools"), null=True, blank=True)
    status = models.CharField(_("status"), max_length=20, choices=SESSION_STATUSES, default=SessionStatus.IDLE)
    usage = models.JSONField(_("usage"), default=dict, blank=True)
    archived = models.BooleanField(_("archived"), default=False)
    event_count = models.PositiveBigIntegerField(_("events"), default=0)
    message_count = models.PositiveIntegerField(_("messages"), default=0)
    decision_count = models.PositiveIntegerField(_("decisions"), default=0, editable=False)
    decision_seal = models.CharField(max_length=64, blank=True, editable=False)
    waiting = models.PositiveIntegerField(_("waiting calls"), default=0)
    lease_owner = models.UUIDField(_("lease owner"), null=True, editable=False)
    lease_until = models.DateTimeField(_("lease until"), null=True, editable=False)
    fence = models.PositiveBigIntegerField(_("fence"), default=0, editable=False)
    cancel_requested = models.BooleanField(_("cancel requested"), default=False)
    active_run = models.OneToOneField(
        "allm_django.Run", models.SET_NULL, null=True, related_name="+", verbose_name=_("active run")
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        ordering = ("-updated_at",)
        permissions = (("chat", _("Can chat")),)
        indexes = (
            models.Index(fields=("owner", "-updated_at"), name="allm_session_by_owner"),
            models.Index(fields=("-updated_at",), name="allm_session_by_time"),
            models.Index(
                fields=("status",),
                name="allm_session_not_completed",
                condition=~models.Q(status=SessionStatus.COMPLETED),
            ),
            models.Index(
                fields=("updated_at",), name="allm_session_at_work", condition=models.Q(status=SessionStatus.RUNNING)
            ),
        )

    def __str__(self) -> str:
        return visible(self.title) or str(self.id)


class Overview(Session):
    """The admin's page of figures over all sessions; it has no rows of its own (M07)."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = _("overview")
        verbose_name_plural = _("overview")


class IdempotencyKey(models.Model):
    """A request that was carried out: a resend gets the first answer again."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", verbose_name=_("user")
    )
    key = models.CharField(_("key"), max_length=200)
    fingerprint = models.CharField(_("fingerprint"), max_length=64)
    object_id = models.UUIDField(_("object"))
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("idempotency key")
        verbose_name_plural = _("idempotency keys")
        constraints = (
            models.UniqueConstraint(fields=("user", "key"), name="allm_key_once"),
            models.UniqueConstraint(fields=("key",), condition=models.Q(user=None), name="allm_key_without_user_once"),
        )

    def __str__(self) -> str:
        return self.key
