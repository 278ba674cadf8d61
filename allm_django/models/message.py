"""Messages, and the pieces of one that is still streaming."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.models.run import Run
from allm_django.models.session import Session


class Message(models.Model):
    """A system, user or assistant message. Results of calls live on the calls' rows."""

    class Role(models.TextChoices):
        """Who speaks."""

        SYSTEM = "system", _("system")
        USER = "user", _("user")
        ASSISTANT = "assistant", _("assistant")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(
        Session, models.CASCADE, db_index=False, related_name="messages", verbose_name=_("session")
    )
    run = models.ForeignKey(Run, models.CASCADE, null=True, related_name="messages", verbose_name=_("run"))
    position = models.PositiveIntegerField(_("position"))
    role = models.CharField(_("role"), max_length=10, choices=Role)
    text = models.TextField(_("text"), blank=True)
    thinking = models.TextField(_("thinking"), blank=True)
    complete = models.BooleanField(_("complete"), default=True)
    broken = models.CharField(_("broken off"), max_length=300, blank=True)
    model = models.CharField(_("model"), max_length=200, blank=True)
    finish_reason = models.CharField(_("finish reason"), max_length=64, blank=True)
    dump = models.JSONField(_("provider's own message"), null=True, blank=True)
    usage = models.JSONField(_("usage"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    completed_at = models.DateTimeField(_("completed at"), null=True, blank=True)

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ("session", "position")
        constraints = (models.UniqueConstraint(fields=("session", "position"), name="allm_message_position_once"),)

    def __str__(self) -> str:
        return f"{self.role} {self.position}"

    @property
    def streaming(self) -> bool:
        """Whether its text is still coming."""
        return not self.complete and not self.broken


class MessageChunk(models.Model):
    """A piece of a streaming message: ``offset`` in code points; deleted when the message is complete."""

    message = models.ForeignKey(
        Message, models.CASCADE, db_index=False, related_name="chunks", verbose_name=_("message")
    )
    offset = models.PositiveIntegerField(_("offset"))
    text = models.TextField(_("text"))

    class Meta:
        verbose_name = _("message chunk")
        verbose_name_plural = _("message chunks")
        ordering = ("message", "offset")
        constraints = (models.UniqueConstraint(fields=("message", "offset"), name="allm_chunk_offset_once"),)

    def __str__(self) -> str:
        return f"{self.message_id} at {self.offset}"
