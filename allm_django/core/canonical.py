"""One text for each JSON value, whichever database it came back from; what is signed is made of it (H14)."""

from __future__ import annotations

import json
from decimal import Decimal

from allm_django.core.types import JSON


def canonical(value: JSON) -> str:
    """``value`` as text: names in order, each number in one spelling (PostgreSQL gives 1e16 back as a whole number).

    Two values that Python holds for equal, but for True and 1, have the same text, and no others do.
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value)
    return _number(value)


def _number(value: int | float) -> str:
    """Its digits without zeros at the end, and their exponent; exact for every whole number and every float."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    short = text.rstrip("0").lstrip("0")
    if not short:
        return "0"
    return f"{'-' if sign else ''}{short}e{int(exponent) + len(text) - len(text.rstrip('0'))}"
