"""Named set-ups of a model, its tools and its rules."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from allm_django.core.encode import visible
from allm_django.core.output import check_response_schema
from allm_django.core.types import Limits
from allm_django.errors import AllmError
from allm_django.models.fields import at_field, check_text_list
from allm_django.models.tool import Tool

TYPING = _("What a message does that the owner writes while calls wait for a decision.")
MOST_TURNS = _("Answers of the model in one run. Empty: what the project’s settings say.")
LIMITS = _(
    "What one run may use, as JSON: max_calls (tool calls), max_tokens (in and out together), max_cost (US dollars), "
    "max_seconds (time at work); and how often in a row: max_identical_calls, max_rejections, max_parse_failures. "
    'Such as {"max_calls": 20, "max_cost": 0.5}; null: none; what is left out: as the project’s settings say.'
)
HALT_WHEN = _("A registered function, asked after each turn of the model; if it says yes, the run halts.")
TERMINAL_TOOL = _("Name of a tool whose call ends the run: it is not executed, its arguments are the result.")

RESPONSE_SCHEMA = _(
    "A JSON schema of type object. Once the assistant has answered, it is asked to put its answer into this form, too."
)


class Engine(models.Model):
    """A model id with its instructions, tools, parameters and limits. Holds no secret: ``api_key_env`` is the
    *name* of an environment variable; functions are registered keys only.
    """

    class Mode(models.TextChoices):
        """Whether calls run by themselves (L03)."""

        AUTO = "auto", _("automatic")
        MANUAL = "manual", _("every call waits")

    class Typing(models.TextChoices):
        """What a message does while calls wait (H09)."""

        BLOCK = "block", _("refuse the message")
        SUPERSEDE = "supersede", _("close the waiting calls")

    name = models.SlugField(_("name"), max_length=64, unique=True)
    title = models.CharField(_("title"), max_length=120, blank=True)
    description = models.TextField(_("description"), blank=True)
    notice = models.CharField(_("notice"), max_length=300, blank=True, help_text=_("Shown on the page."))
    examples = models.JSONField(_("examples"), default=list, blank=True, help_text=_("Things to try, as a list."))
    model = models.CharField(_("model"), max_length=200, help_text=_("Such as openai:gpt-5-mini."))
    base_url = models.URLField(_("base URL"), blank=True, help_text=_("Of an OpenAI-compatible server."))
    api_key_env = models.CharField(
        _("key variable"), max_length=100, blank=True, help_text=_("Name of the environment variable with the key.")
    )
    system = models.TextField(_("system text"), blank=True)
    params = models.JSONField(_("parameters"), default=dict, blank=True)
    tools = models.ManyToManyField(
        Tool, blank=True, related_name="engines", verbose_name=_("tools"), help_text=_("None: all enabled tools.")
    )
    tool_choice = models.CharField(_("tool choice"), max_length=64, default="auto")
    mode = models.CharField(_("mode"), max_length=10, choices=Mode, default=Mode.AUTO)
    typing = models.CharField(
        _("typing while halted"), max_length=10, choices=Typing, default=Typing.BLOCK, help_text=TYPING
    )
    max_turns = models.PositiveSmallIntegerField(
        _("most turns"), null=True, blank=True, validators=[MinValueValidator(1)], help_text=MOST_TURNS
    )
    limits = models.JSONField(_("limits"), default=dict, blank=True, help_text=LIMITS)
    on_tool_error = models.CharField(_("on tool error"), max_length=255, default="continue")
    halt_when = models.CharField(_("halt when"), max_length=255, blank=True, help_text=HALT_WHEN)
    encoder = models.CharField(_("encoder"), max_length=255, blank=True)
    executor = models.CharField(_("executor"), max_length=255, blank=True)
    terminal_tool = models.CharField(_("terminal tool"), max_length=64, blank=True, help_text=TERMINAL_TOOL)
    response_schema = models.JSONField(_("response schema"), null=True, blank=True, help_text=RESPONSE_SCHEMA)
    context = models.JSONField(_("context"), null=True, blank=True)
    groups = models.ManyToManyField(
        Group, blank=True, related_name="+", verbose_name=_("groups"), help_text=_("None: all who may chat.")
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        verbose_name = _("engine")
        verbose_name_plural = _("engines")
        ordering = ("name",)

    def __str__(self) -> str:
        return visible(self.title or self.name)

    def clean(self) -> None:
        """Check limits, parameters and examples."""
        errors: dict[str, str] = {}
        try:
            Limits.of(self.limits)
        except AllmError as error:
            errors["limits"] = error.message.removeprefix("limits: ")
        if not isinstance(self.params, dict):
            errors["params"] = str(_("A JSON object is needed."))
        try:
            check_response_schema(self.response_schema)
        except AllmError as error:
            errors["response_schema"] = at_field(error, "response_schema")
        try:
            check_text_list(self.examples, "examples")
        except AllmError as error:
            errors["examples"] = at_field(error, "examples")
        if errors:
            raise ValidationError(errors)
