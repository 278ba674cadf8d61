"""Grants: calls that a person allowed beforehand (H13)."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.encode import visible
from allm_django.core.grants import GrantSpec
from allm_django.models.call import ToolCall
from allm_django.models.session import Session
from allm_django.models.tool import ToolVersion
from allm_django.models.words import GRANT_MATCHES, GRANT_SCOPES


class Grant(models.Model):
    """Given on the card of ``call``; good for later calls of the same version of its tool.

    ``scope`` says where: in ``session``, or in all sessions of ``owner``. ``arguments`` (match exact) or ``pattern``
    (a JSON Schema) say which; ``rule`` is the ask rule that the person saw. ``uses_left`` None: any number until
    ``expires_at``.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    call = models.ForeignKey(ToolCall, models.CASCADE, related_name="grants", verbose_name=_("given on"))
    session = models.ForeignKey(Session, models.CASCADE, related_name="grants", verbose_name=_("session"))
    tool_version = models.ForeignKey(ToolVersion, models.CASCADE, related_name="+", verbose_name=_("tool version"))
    name = models.CharField(_("tool"), max_length=64)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("given by")
    )
    who = models.CharField(_("given by"), max_length=200)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+", verbose_name=_("for")
    )
    scope = models.CharField(_("scope"), max_length=7, choices=GRANT_SCOPES)
    match = models.CharField(_("arguments"), max_length=7, choices=GRANT_MATCHES)
    arguments = models.JSONField(_("exact arguments"), null=True)
    pattern = models.JSONField(_("pattern"), null=True)
    rule = models.CharField(_("rule"), max_length=120, blank=True)
    uses_left = models.PositiveIntegerField(_("uses left"), null=True)
    used = models.PositiveIntegerField(_("used"), default=0)
    created_at = models.DateTimeField(_("given at"))
    expires_at = models.DateTimeField(_("until"))
    revoked_at = models.DateTimeField(_("revoked at"), null=True)
    revoked_by = models.CharField(_("revoked by"), max_length=200, blank=True)

    class Meta:
        verbose_name = _("grant")
        verbose_name_plural = _("grants")
        ordering = ("-created_at",)
        indexes = (
            models.Index(
                fields=("tool_version", "created_at"), name="allm_grant_alive", condition=models.Q(revoked_at=None)
            ),
            models.Index(fields=("-created_at",), name="allm_grant_by_time"),
        )

    def __str__(self) -> str:
        return visible(f"{self.who}: {self.name}")

    @property
    def spec(self) -> GrantSpec:
        """This row as the policy's value."""
        return GrantSpec(self.match, self.arguments, self.pattern, self.rule)
