"""Tools as the admin configures them, and the immutable versions that calls were judged by."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.encode import visible
from allm_django.core.schema import lint
from allm_django.core.types import ToolSpec, check_tool_name
from allm_django.errors import AllmError
from allm_django.models.durations import as_json, check_escalation, check_lasts
from allm_django.models.fields import at_field, check_text_list

FOUR_EYES = _("Nobody decides calls of their own conversations, whatever else they may: someone else has to.")
QUORUM = _(
    "How many different people have to approve the same arguments before the call runs. Who edits them begins "
    "anew; one rejection closes the call."
)
GRANTS = _("Whoever approves a call may also allow further calls beforehand, for a time. Never with a quorum above 1.")
EXPIRY = _(
    "How long a call waits for a decision, such as 15:00 (minutes), 8:00:00 (hours) or 2 00:00:00 (days); then it ends "
    "undecided and does not run. Empty: for ever. It holds for a question that the tool asks, too."
)
ESCALATE_AFTER = _(
    "How long a call waits before the groups below may decide it, too, such as 15:00 (minutes). Empty: they never may."
)
ESCALATION_GROUPS = _("Who may decide it then, beside the approver groups. None: it is only told once more.")
VERBS = ("approve", "edit", "answer", "reject")
# What makes a new version when it changes: all that a call is offered, shown or judged by.
VERSIONED = (
    "name",
    "title",
    "description",
    "schema",
    "handler",
    "manual",
    "enabled",
    "verbs",
    "timeout",
    "idempotent",
    "sensitive",
    "four_eyes",
    "quorum",
    "expiry",
    "escalate_after",
    "grants",
    "compact",
    "summary",
    "metadata",
)


def default_verbs() -> list[str]:
    """All verbs a person may decide with."""
    return list(VERBS)


def default_schema() -> dict[str, Any]:
    """The schema of a tool without arguments."""
    return {"type": "object", "properties": {}, "additionalProperties": False}


class Tool(models.Model):
    """A tool on offer to models. ``handler`` is a key of the registry, never an import path (T06)."""

    name = models.CharField(_("name"), max_length=64, unique=True, help_text=_("What the model calls it by."))
    title = models.CharField(_("title"), max_length=120, blank=True, help_text=_("What people see on cards."))
    description = models.TextField(_("description"), help_text=_("Tells the model what it does and when to use it."))
    schema = models.JSONField(_("schema"), default=default_schema, help_text=_("JSON Schema of the arguments."))
    handler = models.CharField(
        _("handler"), max_length=255, blank=True, help_text=_("One of the handlers that code registered.")
    )
    manual = models.BooleanField(_("manual"), default=True, help_text=_("Halt until a person decides."))
    enabled = models.BooleanField(_("enabled"), default=False)
    verbs = models.JSONField(_("verbs"), default=default_verbs, blank=True, help_text=_("What a person may do."))
    timeout = models.FloatField(
        _("timeout"),
        default=30.0,
        validators=[MinValueValidator(0.001)],
        help_text=_("Seconds that one call may take; then it fails, or its outcome is unknown."),
    )
    idempotent = models.BooleanField(
        _("idempotent"), default=False, help_text=_("Running it twice has the effect of running it once.")
    )
    sensitive = models.JSONField(_("sensitive fields"), default=list, blank=True)
    approver_groups = models.ManyToManyField(
        Group, blank=True, related_name="+", verbose_name=_("approver groups"), help_text=_("None: all who may decide.")
    )
    four_eyes = models.BooleanField(_("four eyes"), default=False, help_text=FOUR_EYES)
    quorum = models.PositiveSmallIntegerField(
        _("quorum"), default=1, validators=[MinValueValidator(1)], help_text=QUORUM
    )
    grants = models.BooleanField(_("grants"), default=False, help_text=GRANTS)
    expiry = models.DurationField(_("expiry"), null=True, blank=True, help_text=EXPIRY)
    escalate_after = models.DurationField(_("escalate after"), null=True, blank=True, help_text=ESCALATE_AFTER)
    escalation_groups = models.ManyToManyField(
        Group, blank=True, related_name="+", verbose_name=_("escalation groups"), help_text=ESCALATION_GROUPS
    )
    compact = models.BooleanField(_("compact"), default=False)
    summary = models.CharField(_("summary"), max_length=200, blank=True)
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    version = models.PositiveIntegerField(_("version"), default=1, editable=False)
    synced = models.JSONField(_("as code has it"), default=dict, editable=False)  # what sync_tools last saw in code
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        verbose_name = _("tool")
        verbose_name_plural = _("tools")
        ordering = ("name",)
        permissions = (
            ("configure_tool", _("Can change handler, manual flag, schema and rules of tools")),
            ("try_tool", _("Can run a tool from the admin")),
        )

    def __str__(self) -> str:
        return visible(self.title or self.name)

    def clean(self) -> None:
        """Check name, schema, verbs and sensitive fields; whether the handler is registered is the store's matter."""
        errors: dict[str, list[str]] = {}
        for field, check in (
            ("name", lambda: check_tool_name(self.name)),
            ("schema", lambda: lint(self.schema)),
            ("verbs", lambda: check_text_list(self.verbs, "verbs", allowed=VERBS)),
            ("sensitive", lambda: check_text_list(self.sensitive, "sensitive")),
            ("expiry", lambda: check_lasts(self.expiry, "expiry")),
            ("escalate_after", lambda: check_escalation(self.escalate_after, self.expiry)),
        ):
            try:
                check()
            except AllmError as error:
                errors.setdefault(field, []).append(at_field(error, field))
        if not isinstance(self.metadata, dict):
            errors["metadata"] = [_("A JSON object is needed.")]  # type: ignore[list-item]
        if errors:
            raise ValidationError(errors)

    def versioned(self) -> dict[str, Any]:
        """All that a call is offered, shown or judged by, as JSON."""
        return {name: as_json(getattr(self, name)) for name in VERSIONED}


class ToolVersion(models.Model):
    """An immutable copy of a tool: what a call was offered, shown and judged by (H04)."""

    tool = models.ForeignKey(Tool, models.SET_NULL, null=True, related_name="versions", verbose_name=_("tool"))
    name = models.CharField(_("name"), max_length=64)
    version = models.PositiveIntegerField(_("version"))
    data = models.JSONField(_("data"))
    who = models.CharField(_("who"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("tool version")
        verbose_name_plural = _("tool versions")
        ordering = ("name", "-version")
        constraints = (models.UniqueConstraint(fields=("tool", "version"), name="allm_tool_version_once"),)

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def spec(self) -> ToolSpec:
        """This version as the loop's value; the handler stays a key."""
        data = self.data
        return ToolSpec(
            name=data["name"],
            title=data["title"],
            description=data["description"],
            schema=data["schema"],
            handler=data["handler"] or None,
            manual=data["manual"],
            metadata=data["metadata"],
            compact=data["compact"],
            summary=data["summary"],
            timeout=data["timeout"],
            idempotent=data["idempotent"],
            sensitive=tuple(data["sensitive"]),
        )
