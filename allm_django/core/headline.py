"""The one sentence at the top of a card: what will happen."""

from __future__ import annotations

import re
from collections.abc import Sequence

from allm_django.core.encode import to_text, visible
from allm_django.core.types import JSON, JSONObject

MAX_VALUES = 4
MAX_LENGTH = 60
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")


def headline(title: str, arguments: JSONObject | None, template: str = "", first: Sequence[str] = ()) -> str:
    """From ``template`` with its ``{argument}`` places filled, else the title and some plain arguments.

    Those come as in ``first``, then the shorter names first: databases do not keep an object's order. Values are
    data: shortened, and with hidden characters made visible (security row 20).
    """
    given = arguments or {}
    if template:
        return PLACEHOLDER.sub(lambda match: _short(given.get(match[1], "…")), template)
    plain = [(key, value) for key, value in given.items() if not isinstance(value, (dict, list))]
    plain.sort(key=lambda item: (first.index(item[0]) if item[0] in first else len(first), len(item[0]), item[0]))
    shown = ", ".join(f"{visible(key)} {_short(value)}" for key, value in plain[:MAX_VALUES])
    return f"{title}: {shown}" if shown else title


def _short(value: JSON) -> str:
    text = visible(to_text(value))
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
