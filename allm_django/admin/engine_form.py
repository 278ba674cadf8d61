"""The form of engines, with what each kind of provider needs and whether its key is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from allm_django.admin.fields import JSONTextField, TextListField, add_at_field
from allm_django.conf import conf
from allm_django.errors import InvalidInputError
from allm_django.models import Engine
from allm_django.store.engines import FUNCTIONS, check_references
from allm_django.tools.registry import registry

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[Engine]
else:
    ModelForm = forms.ModelForm

WORDS = {
    "": gettext_lazy("none"),
    "continue": gettext_lazy("continue: the model is told"),
    "halt": gettext_lazy("halt the run"),
}


class EngineForm(ModelForm):
    """The whole engine. Functions are picked from what code registered."""

    params = JSONTextField(
        required=False,
        label=gettext_lazy("Parameters"),
        help_text=gettext_lazy("temperature, max_tokens, top_p, seed, stop, timeout, parallel_tool_calls."),
    )
    limits = JSONTextField(
        required=False, label=gettext_lazy("Limits"), help_text=Engine._meta.get_field("limits").help_text
    )
    response_schema = JSONTextField(
        required=False,
        label=gettext_lazy("Response schema"),
        help_text=Engine._meta.get_field("response_schema").help_text,
    )
    context = JSONTextField(
        required=False, label=gettext_lazy("Context"), help_text=gettext_lazy("Given to handlers; never to the model.")
    )
    examples = TextListField(
        required=False, label=gettext_lazy("Examples"), help_text=gettext_lazy("Things to try, one a line.")
    )

    class Meta:
        model = Engine
        fields = ()  # the admin says which

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for kind, words in FUNCTIONS.items():
            if kind in self.fields:
                old = self.fields[kind]
                self.fields[kind] = forms.ChoiceField(
                    choices=[*((word, WORDS[word]) for word in words), *((k, k) for k in registry.function_keys(kind))],
                    required=False,
                    label=old.label,
                    help_text=old.help_text,
                    initial=words[0],
                )

    def clean_params(self) -> Any:
        """Empty text is no parameters."""
        return self.cleaned_data["params"] or {}

    def clean_limits(self) -> Any:
        """Empty text is no limits."""
        return self.cleaned_data["limits"] or {}

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.errors:
            return
        try:
            check_references(self.instance)
        except InvalidInputError as error:
            add_at_field(self, error)


def key_status(engine: Engine) -> str:
    """Whether the engine's key is in this server's environment; never the key."""
    from allm_django.providers.resolve import KINDS  # not at every start of Django

    kind = KINDS.get(engine.model.partition(":")[0])
    name = engine.api_key_env or (kind.key_env if kind else "")
    if kind and kind.key_name in conf().KEYS and not engine.api_key_env:
        return _("in the settings")
    if not name:
        return _("no key needed")
    return _status(name)


def provider_table() -> SafeString:
    """What each prefix of a model id needs, and what of it is there."""
    return format_html(
        '<table class="allm-providers"><thead><tr><th>{}</th><th>{}</th><th>{}</th></tr></thead>'
        "<tbody>{}</tbody></table>",
        _("model id"),
        _("key"),
        _("library"),
        format_html_join("", "<tr><td><code>{}:…</code></td><td>{}</td><td>{}</td></tr>", _provider_rows()),
    )


def _provider_rows() -> Iterator[tuple[str, str, str]]:
    from allm_django.providers.resolve import BASE_URL_ENV, KINDS  # not at every start of Django

    for prefix, kind in KINDS.items():
        missing = [library for library in kind.libraries if not _is_installed(library)]
        words = _("pip install allm-django[%(extra)s]") % {"extra": kind.extra} if missing else _("installed")
        needs = _("in the settings") if kind.key_name in conf().KEYS else _status(kind.key_env)
        if kind.needs_base_url:
            needs += "; " + _("needs a base URL here or in %(name)s") % {"name": BASE_URL_ENV}
        yield prefix, needs, words
    for prefix in conf().PROVIDERS:
        yield prefix, _("no key needed"), _("this project’s own")


def _status(name: str) -> str:
    words = _("%(name)s is set") if os.environ.get(name) else _("%(name)s is not set")
    return words % {"name": name}


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ImportError:
        return False
