"""Tombstones: what is left of sessions that were purged."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.models.appendonly import AppendOnlyModel


class Tombstone(AppendOnlyModel):
    """A session that is gone: when, why, and how much it held; nothing of anyone's (H14).

    ``last_hmac`` is its last decision's, ``intact`` whether its chain held when it was purged. Signed like a decision.
    """

    class Why(models.TextChoices):
        """What made it go."""

        RETENTION = "retention", _("older than is kept")
        ERASURE = "erasure", _("its owner's data were erased")

    session_id = models.UUIDField(_("session"), unique=True)
    why = models.CharField(_("why"), max_length=10, choices=Why)
    counts = models.JSONField(_("rows"), default=dict)
    intact = models.BooleanField(_("chain intact"))
    last_hmac = models.CharField(_("last HMAC"), max_length=64, blank=True)
    purged_at = models.DateTimeField(_("purged at"))
    hmac = models.CharField(_("HMAC"), max_length=64)

    class Meta:
        verbose_name = _("tombstone")
        verbose_name_plural = _("tombstones")
        ordering = ("-purged_at",)

    def __str__(self) -> str:
        return str(self.session_id)
