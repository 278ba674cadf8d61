"""Decisions: who did what to a call, when, and having seen what."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.encode import visible
from allm_django.models.appendonly import AppendOnlyModel
from allm_django.models.call import ToolCall
from allm_django.models.session import Session
from allm_django.models.words import DECISION_OUTCOMES, DECISION_VERBS


class Decision(AppendOnlyModel):
    """One decision on one version of a call; chained by HMAC to the session's previous one (H14).

    ``user`` is empty once that account is deleted; ``who`` and ``who_id`` stay. ``shown``: what the person saw besides
    the name and the arguments.
    """

    session = models.ForeignKey(Session, models.PROTECT, related_name="decisions", verbose_name=_("session"))
    call = models.ForeignKey(ToolCall, models.PROTECT, related_name="decisions", verbose_name=_("call"))
    number = models.PositiveIntegerField(_("number"))
    call_version = models.PositiveIntegerField(_("call version"))
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        related_name="allm_decisions",
        db_constraint=False,
        verbose_name=_("user"),
    )
    who = models.CharField(_("who"), max_length=200)
    who_id = models.CharField(_("key of who"), max_length=64, blank=True)
    verb = models.CharField(_("verb"), max_length=12, choices=DECISION_VERBS)
    name = models.CharField(_("tool"), max_length=255)
    shown = models.JSONField(_("shown"), default=dict)
    arguments_before = models.JSONField(_("arguments before"), null=True)
    arguments_after = models.JSONField(_("arguments after"), null=True)
    reason = models.TextField(_("reason"), blank=True)
    value = models.JSONField(_("value"), null=True)
    outcome = models.CharField(_("outcome"), max_length=12, choices=DECISION_OUTCOMES)
    created_at = models.DateTimeField(_("created at"))
    hmac = models.CharField(_("HMAC"), max_length=64)

    class Meta:
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        ordering = ("session", "number")
        constraints = (models.UniqueConstraint(fields=("session", "number"), name="allm_decision_number_once"),)
        indexes = (models.Index(fields=("-created_at",), name="allm_decision_by_time"),)

    def __str__(self) -> str:
        return visible(f"{self.who}: {self.get_verb_display()} · {self.name}")
