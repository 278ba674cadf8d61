"""Events: what happened in a session, numbered without gaps."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.models.appendonly import AppendOnlyModel
from allm_django.models.session import Session


class Event(AppendOnlyModel):
    """One fact, written in the transaction of the fact it tells; arguments masked; never a text delta (S08).

    ``data`` holds what changed in full: ``{"session": …, "messages": […], "calls": […]}``, so that a client
    that applies all events has what a fresh load shows.
    """

    session = models.ForeignKey(
        Session, models.PROTECT, db_index=False, related_name="events", verbose_name=_("session")
    )
    number = models.PositiveBigIntegerField(_("number"))
    kind = models.CharField(_("kind"), max_length=32)
    data = models.JSONField(_("data"), default=dict)
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        ordering = ("session", "number")
        constraints = (models.UniqueConstraint(fields=("session", "number"), name="allm_event_number_once"),)

    def __str__(self) -> str:
        return f"{self.number} {self.kind}"
