"""Workers: a heartbeat per process."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils.translation import gettext_lazy as _


class Worker(models.Model):
    """A process that runs sessions: where it is, when it was last alive, and how it is set up."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveIntegerField(_("process id"))
    version = models.CharField(_("version"), max_length=32)
    layer = models.CharField(_("channel layer"), max_length=255, blank=True)
    hung_threads = models.PositiveIntegerField(_("hung threads"), default=0)
    sweeps = models.BooleanField(_("sweeps"), default=True, help_text=_("Takes up what dead processes left."))
    sessions = models.PositiveIntegerField(_("sessions at work"), default=0)
    started_at = models.DateTimeField(_("started at"))
    seen_at = models.DateTimeField(_("seen at"))

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        ordering = ("-seen_at",)

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
