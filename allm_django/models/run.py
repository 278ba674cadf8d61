"""Runs: one drive of the loop from a message to its end; halts that wait for people are inside it."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.states import RunState
from allm_django.models.session import Session
from allm_django.models.words import RUN_STATES


class Run(models.Model):
    """One drive of the loop. ``settings`` is a copy of the engine's at its start; usage and ``seconds``
    count over halts, waiting for people left out. ``output`` is the structured answer, or what came of trying (L13).
    """

    class Kind(models.TextChoices):
        """Whether it goes on to a halt, or is one turn only (S02)."""

        CHAT = "chat", _("chat")
        STEP = "step", _("one step")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, db_index=False, related_name="runs", verbose_name=_("session"))
    kind = models.CharField(_("kind"), max_length=10, choices=Kind, default=Kind.CHAT)
    state = models.CharField(_("state"), max_length=10, choices=RUN_STATES, default=RunState.QUEUED)
    halted_reason = models.CharField(_("halted reason"), max_length=64, blank=True)
    halted_metadata = models.JSONField(_("halted metadata"), default=dict, blank=True)
    request_id = models.CharField(_("request id"), max_length=64)
    settings = models.JSONField(_("settings"), default=dict)
    error = models.JSONField(_("error"), null=True, blank=True)
    usage = models.JSONField(_("usage"), default=dict, blank=True)
    turns = models.PositiveIntegerField(_("turns"), default=0)
    calls_used = models.PositiveIntegerField(_("calls"), default=0)
    seconds = models.FloatField(_("seconds at work"), default=0)
    working_since = models.DateTimeField(_("at work since"), null=True, blank=True)
    output = models.JSONField(_("output"), null=True, blank=True)
    claims = models.PositiveIntegerField(_("claims"), default=0)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    started_at = models.DateTimeField(_("started at"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended at"), null=True, blank=True)

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        ordering = ("-created_at",)
        indexes = (
            models.Index(fields=("session", "-created_at"), name="allm_run_by_session"),
            models.Index(fields=("-created_at",), name="allm_run_by_time"),
            models.Index(fields=("state",), name="allm_run_not_ended", condition=~models.Q(state=RunState.ENDED)),
        )
        constraints = (
            models.CheckConstraint(
                condition=~models.Q(state=RunState.ENDED) | ~models.Q(halted_reason=""),
                name="allm_run_ended_with_reason",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
