"""The words of the form that shows a call's arguments, wherever it stands."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

FORM_WORDS = {
    "nothing": _("nothing"),
    "was": _("was"),
    "hidden_in_field": _("With its invisible characters:"),
}
