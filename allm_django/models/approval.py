"""Approvals: who has approved which version of a call, for calls that take several people (H10)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.encode import visible
from allm_django.models.call import ToolCall


class Approval(models.Model):
    """One person's approval of one version of a call; it counts while they may decide the call.

    Working rows, gone with the person; what was decided stands in :class:`Decision`.
    """

    call = models.ForeignKey(ToolCall, models.CASCADE, related_name="approvals", verbose_name=_("call"))
    call_version = models.PositiveIntegerField(_("call version"))
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", verbose_name=_("user"))
    who = models.CharField(_("who"), max_length=200)
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        ordering = ("created_at", "pk")
        constraints = (models.UniqueConstraint(fields=("call", "call_version", "user"), name="allm_approval_once"),)

    def __str__(self) -> str:
        return visible(f"{self.who} · {self.call_version}")
