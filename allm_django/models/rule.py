"""Rules over calls' arguments, and the record of their changes (H12)."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.encode import visible
from allm_django.core.rules import EFFECTS, MAX_NAME, MAX_REASON, RuleSpec, check_rule
from allm_django.errors import InvalidInputError
from allm_django.models.appendonly import AppendOnlyModel
from allm_django.models.fields import at_field
from allm_django.models.tool import Tool
from allm_django.models.words import RULE_EFFECTS

WHEN = _(
    "JSON Schema of the arguments that the rule is about; empty: all. Name what it looks at under “required”, too, and "
    "give its type: a schema says nothing of what is absent or of another kind."
)
FIELDS = ("name", "effect", "when", "reason", "position", "enabled", "shadow")


class Rule(models.Model):
    """Denies, asks for, or allows calls. ``when`` is a predicate: a JSON Schema of the subset that tools use."""

    name = models.CharField(
        _("name"), max_length=MAX_NAME, unique=True, help_text=_("People read it on cards: “refund over 100”.")
    )
    tool = models.ForeignKey(
        Tool,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="rules",
        verbose_name=_("tool"),
        help_text=_("None: every tool."),
    )
    effect = models.CharField(
        _("effect"),
        max_length=5,
        choices=RULE_EFFECTS,
        help_text=_("Deny goes before ask, ask before allow. Allow frees no tool that code makes manual."),
    )
    when = models.JSONField(_("when"), default=dict, blank=True, help_text=WHEN)
    reason = models.CharField(
        _("reason"),
        max_length=MAX_REASON,
        blank=True,
        help_text=_("Told to the model of a denied call, to people on the card."),
    )
    position = models.PositiveIntegerField(
        _("position"), default=0, help_text=_("Of several with the same effect the one with the lowest is named.")
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    shadow = models.BooleanField(
        _("on trial"), default=False, help_text=_("Only notes on each call what it would have done.")
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        verbose_name = _("rule")
        verbose_name_plural = _("rules")
        ordering = ("position", "pk")
        constraints = (models.CheckConstraint(condition=models.Q(effect__in=EFFECTS), name="allm_rule_effect"),)

    def __str__(self) -> str:
        return visible(self.name)

    def clean(self) -> None:
        """Lint the predicate."""
        try:
            check_rule(RuleSpec(name=self.name, effect="ask", when=self.when))
        except InvalidInputError as error:
            name = error.field.split("/")[0]
            raise ValidationError({name if name in FIELDS else "when": at_field(error, name)}) from error

    @property
    def spec(self) -> RuleSpec:
        """This row as the loop's value."""
        return RuleSpec(
            name=self.name,
            effect=self.effect,  # type: ignore[arg-type]  # the database holds it to the three
            when=self.when,
            tool=self.tool.name if self.tool is not None else "",
            reason=self.reason,
            shadow=self.shadow,
        )

    def content(self) -> dict[str, Any]:
        """All that a change is told of, as JSON."""
        return {
            "tool": self.tool.name if self.tool is not None else "",
            **{name: getattr(self, name) for name in FIELDS},
        }


class RuleChange(AppendOnlyModel):
    """What a rule was after one change; ``data`` is null where it was deleted."""

    rule = models.ForeignKey(Rule, models.SET_NULL, null=True, related_name="changes", verbose_name=_("rule"))
    name = models.CharField(_("name"), max_length=MAX_NAME)
    data = models.JSONField(_("data"), null=True)
    who = models.CharField(_("who"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("change of a rule")
        verbose_name_plural = _("changes of rules")
        ordering = ("-pk",)

    def __str__(self) -> str:
        return visible(self.name)
