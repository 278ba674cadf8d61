"""Calls: one row each, with its verdict, its decision and its one result."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.encode import visible
from allm_django.core.states import OPEN_STATES, CallState
from allm_django.models.fields import Literal
from allm_django.models.message import Message
from allm_django.models.run import Run
from allm_django.models.session import Session
from allm_django.models.tool import ToolVersion
from allm_django.models.words import CALL_STATES, DECISION_VERBS, OUTCOMES

# Calls that wait for a person, in words that find their partial index on every database.
OPEN_CALLS = models.Q(state__in=[Literal(state.value) for state in sorted(OPEN_STATES)])


class ToolCall(models.Model):
    """One call as the model made it, and what became of it (H01, R11).

    ``asked_arguments`` is what the model wanted, ``arguments`` what will run; ``raw_arguments`` the model's own
    text. A recipe's steps have it as ``parent``, and a ``label``; ``plan_shape`` is its plan's hash (R07).
    ``rule`` is the name of the rule that decided its verdict, ``shadow`` what rules on trial would have done (H12).
    ``version`` grows whenever what a person would see changes; ``approved_version`` is the one that people let run,
    None if code did. ``wake_at`` is the next of ``expires_at`` and ``escalates_at`` still to be acted on (H11).
    ``content`` is the model's copy of the result, ``result`` the whole value.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(
        Session, models.CASCADE, db_index=False, related_name="calls", verbose_name=_("session")
    )
    run = models.ForeignKey(Run, models.CASCADE, related_name="calls", verbose_name=_("run"))
    message = models.ForeignKey(Message, models.CASCADE, related_name="calls", verbose_name=_("message"))
    parent = models.ForeignKey("self", models.CASCADE, null=True, related_name="steps", verbose_name=_("parent"))
    label = models.CharField(_("label"), max_length=200, blank=True)
    plan_shape = models.CharField(_("plan's shape"), max_length=64, blank=True, editable=False)
    position = models.PositiveIntegerField(_("position"))
    call_id = models.CharField(_("call id"), max_length=128)
    provider_id = models.CharField(_("provider's id"), max_length=255, blank=True)
    name = models.CharField(_("name"), max_length=255)
    tool_version = models.ForeignKey(
        ToolVersion, models.PROTECT, null=True, related_name="calls", verbose_name=_("tool version")
    )
    raw_arguments = models.TextField(_("arguments as written"), blank=True)
    asked_arguments = models.JSONField(_("arguments asked"), null=True)
    arguments = models.JSONField(_("arguments"), null=True)
    why = models.TextField(_("why"), blank=True)
    rule = models.CharField(_("rule"), max_length=120, blank=True)
    shadow = models.JSONField(_("what rules on trial would have done"), null=True, blank=True)
    version = models.PositiveIntegerField(_("version"), default=1)
    state = models.CharField(_("state"), max_length=10, choices=CALL_STATES)
    outcome = models.CharField(_("outcome"), max_length=12, blank=True, choices=OUTCOMES)
    effect = models.CharField(_("effect"), max_length=80, blank=True)
    question = models.JSONField(_("question"), null=True, blank=True)
    result = models.JSONField(_("result"), null=True, blank=True)
    content = models.TextField(_("result as the model sees it"), blank=True)
    error = models.JSONField(_("error"), null=True, blank=True)
    late_result = models.JSONField(_("late result"), null=True, blank=True)
    progress = models.JSONField(_("progress"), null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(_("attempt"), default=0)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("decided by")
    )
    decided_name = models.CharField(_("decided by"), max_length=200, blank=True)
    decided_verb = models.CharField(_("verb"), max_length=12, blank=True, choices=DECISION_VERBS)
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    decided_reason = models.TextField(_("reason"), blank=True)
    approved_version = models.PositiveIntegerField(_("version approved"), null=True, blank=True, editable=False)
    worker = models.UUIDField(_("worker"), null=True, editable=False)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    escalates_at = models.DateTimeField(_("escalates at"), null=True, blank=True)
    wake_at = models.DateTimeField(_("next looked at"), null=True, blank=True, editable=False)
    started_at = models.DateTimeField(_("started at"), null=True, blank=True)
    finished_at = models.DateTimeField(_("finished at"), null=True, blank=True)

    class Meta:
        verbose_name = _("tool call")
        verbose_name_plural = _("tool calls")
        ordering = ("created_at", "position")
        permissions = (
            ("decide_toolcall", _("Can decide calls that wait")),
            ("decide_own_toolcall", _("Can decide calls of their own sessions")),
        )
        constraints = (
            models.UniqueConstraint(fields=("session", "call_id"), name="allm_call_id_once"),
            models.UniqueConstraint(
                fields=("message", "position"), condition=models.Q(parent=None), name="allm_call_position_once"
            ),
            models.UniqueConstraint(
                fields=("parent", "position"), condition=~models.Q(parent=None), name="allm_step_position_once"
            ),
            models.CheckConstraint(
                condition=models.Q(state=CallState.SETTLED) ^ models.Q(outcome=""), name="allm_call_settled_has_outcome"
            ),
        )
        indexes = (
            models.Index(
                fields=("created_at",), name="allm_call_open", condition=models.Q(state__in=sorted(OPEN_STATES))
            ),
            models.Index(
                fields=("wake_at",),
                name="allm_call_to_wake",
                condition=models.Q(state__in=sorted(OPEN_STATES), wake_at__isnull=False),
            ),
            models.Index(fields=("name", "-created_at", "outcome", "state"), name="allm_call_by_name"),
            models.Index(fields=("-created_at",), name="allm_call_by_time"),
            models.Index(
                fields=("outcome", "-created_at"),
                name="allm_call_by_outcome",
                condition=models.Q(state=CallState.SETTLED),
            ),
            models.Index(fields=("state",), name="allm_call_not_settled", condition=~models.Q(state=CallState.SETTLED)),
        )

    def __str__(self) -> str:
        return f"{visible(self.name)} ({self.get_state_display()})"

    @property
    def escalated(self) -> bool:
        """Whether its escalation groups were called in."""
        return self.escalates_at is not None and self.wake_at != self.escalates_at

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call (H07)."""
        return f"allm-{self.id.hex}"


class PendingCall(ToolCall):
    """The admin's view of the calls that wait for a person."""

    class Meta:
        proxy = True
        verbose_name = _("pending call")
        verbose_name_plural = _("pending calls")
