"""Form fields for JSON columns, with errors that say where."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext as _

from allm_django.errors import InvalidInputError
from allm_django.models.fields import at_field

JSON_INPUT: dict[str, Any] = {"class": "vLargeTextField allm-json-input", "spellcheck": "false", "dir": "ltr"}
MAX_DEPTH = 200  # far more than any schema may have, far less than what makes Python stumble


def add_at_field(form: Any, error: InvalidInputError) -> None:
    """Put ``error`` at its field, whose name it need not say again there; above all fields if the form has none."""
    if error.field in form.fields:
        form.add_error(error.field, at_field(error, error.field))
    else:
        form.add_error(None, error.message)


class JSONTextField(forms.JSONField):
    """JSON in a text area. A name that stands twice, NaN and syntax errors are refused, with line and column."""

    def __init__(self, *, rows: int = 4, **kwargs: Any) -> None:
        super().__init__(widget=forms.Textarea(attrs=JSON_INPUT | {"rows": rows}), **kwargs)

    def to_python(self, value: Any) -> Any:
        """The value; empty text is the field's empty value."""
        if value in self.empty_values or not isinstance(value, str):
            return super().to_python(value)
        _check_depth(_read(value))
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What was typed, wrong as it may be."""
        return initial if self.disabled else data if data is None else InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> Any:
        """Indented, letters as they are."""
        if value is None or isinstance(value, InvalidJSONInput):
            return value
        return json.dumps(value, ensure_ascii=False, indent=2)


def _read(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValidationError(
            _("Not JSON: %(what)s at line %(line)d, column %(column)d."),
            params={"what": error.msg, "line": error.lineno, "column": error.colno},
        ) from error
    except RecursionError as error:
        raise ValidationError(_("Nested too deeply.")) from error


def _check_depth(value: Any) -> None:
    level = [value]
    for _level in range(MAX_DEPTH):
        level = [
            item
            for container in level
            if isinstance(container, (dict, list))
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    if level:
        raise ValidationError(_("Nested too deeply."))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen:
            raise ValidationError(_("The name “%(name)s” stands twice in one object."), params={"name": name})
        seen[name] = value
    return seen


def _no_constant(name: str) -> Any:
    raise ValidationError(_("%(name)s is not a JSON number."), params={"name": name})


class TextListField(forms.CharField):
    """A list of texts: one a line, or with commas between them (``sign=","``, shown as tags)."""

    def __init__(self, *, sign: str = "\n", **kwargs: Any) -> None:
        self.sign = sign
        widget: forms.Widget = forms.Textarea(attrs={"rows": 4, "class": "vLargeTextField"})
        if sign == ",":
            widget = forms.TextInput(attrs={"class": "vTextField", "data-allm-tags": "", "spellcheck": "false"})
        super().__init__(widget=widget, **kwargs)

    def to_python(self, value: Any) -> Any:
        """The texts, trimmed, without empty ones."""
        if isinstance(value, list):
            return value
        return [text for part in str(value or "").split(self.sign) if (text := part.strip())]

    def prepare_value(self, value: Any) -> Any:
        """As one text."""
        return (", " if self.sign == "," else self.sign).join(map(str, value)) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether the lists differ."""
        return bool(self.to_python(initial) != self.to_python(data))
