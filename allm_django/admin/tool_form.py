"""The forms of tools: handlers are picked from what code registered, errors name field and place (M02)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from allm_django.admin.fields import JSONTextField, TextListField, add_at_field
from allm_django.errors import InvalidInputError
from allm_django.models import Tool
from allm_django.models.tool import VERBS, default_schema, default_verbs
from allm_django.store.tool_floor import check_floor
from allm_django.tools.registry import ToolDefinition, registry

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[Tool]
else:
    ModelForm = forms.ModelForm

VERB_LABELS = {
    "approve": gettext_lazy("approve"),
    "edit": gettext_lazy("edit the arguments and approve"),
    "answer": gettext_lazy("answer instead of running it"),
    "reject": gettext_lazy("reject"),
}


class FlooredForm(ModelForm):
    """Compares with what code says, when something changed; the error stands at its field."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = self.instance
        self.stored = Tool(handler=stored.handler, enabled=stored.enabled) if stored.pk else None

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.errors or not self.has_changed():
            return
        try:
            check_floor(self.instance, self.stored)
        except InvalidInputError as error:
            add_at_field(self, error)


class ToolListForm(FlooredForm):
    """The switches in the list."""

    class Meta:
        model = Tool
        fields = ("enabled", "manual")


class ToolForm(FlooredForm):
    """The whole tool."""

    handler = forms.ChoiceField(
        required=False, label=gettext_lazy("Handler"), help_text=gettext_lazy("One of those that code registered.")
    )
    schema = JSONTextField(
        rows=16,
        initial=default_schema,
        label=gettext_lazy("Schema"),
        help_text=Tool._meta.get_field("schema").help_text,
    )
    metadata = JSONTextField(required=False, initial=dict, label=gettext_lazy("Metadata"))
    verbs = forms.MultipleChoiceField(
        choices=[(verb, VERB_LABELS[verb]) for verb in VERBS],
        initial=default_verbs,
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("Verbs"),
        help_text=gettext_lazy("What a person may do with a call that waits."),
    )
    sensitive = TextListField(
        sign=",",
        required=False,
        label=gettext_lazy("Sensitive fields"),
        help_text=gettext_lazy(
            "Masked for all who may not decide. A name hides it at any depth, card.number one place."
        ),
    )

    class Meta:
        model = Tool
        fields = ()  # the admin says which

    class Media:
        js = ("allm_django/admin/tags.js",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "handler" in self.fields:
            self._offer_handlers(self.fields["handler"])

    def clean_metadata(self) -> Any:
        """Empty text is no metadata."""
        return self.cleaned_data["metadata"] or {}

    def _offer_handlers(self, field: Any) -> None:
        """What code registered may be chosen; an unknown key that the row has is shown, but not accepted anew."""
        field.choices = [
            ("", _("none: a person gives each result")),
            *((d.key, floor_words(d)) for d in registry.all()),
        ]
        present = self.instance.handler
        if present and registry.get(present) is None:
            kept = (present, _("%(key)s (not registered)") % {"key": present})
            field.choices = [*field.choices, kept]


def floor_words(definition: ToolDefinition) -> str:
    """A handler with what code says of it, in one line."""
    words = [
        _("always manual") if definition.manual_fixed else _("manual at first") if definition.manual else "",
        _("safe to repeat") if definition.idempotent else _("not safe to repeat"),
        _("%(n)g s") % {"n": definition.timeout},
        _("sensitive: %(names)s") % {"names": ", ".join(definition.sensitive)} if definition.sensitive else "",
    ]
    return f"{definition.key} · {definition.title} ({', '.join(word for word in words if word)})"
