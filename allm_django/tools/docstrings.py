"""What a docstring says: to the model about the tool, and about each argument.

Google style (``Args:`` and ``name: text`` or ``name (type): text``), Sphinx (``:param name: text``), and bare
``name: text`` lines are understood; only names of real parameters count.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from dataclasses import dataclass, field

_SECTION = re.compile(
    r"(args|arguments|parameters|params|returns?|raises|yields?|examples?|notes?|attributes):\s*", re.IGNORECASE
)
_FIELD = re.compile(r":(param|returns?|rtype|raises?|type)\b.*")
_PARAMETER = re.compile(r"(?::param\s+(?:[^:]+\s)?)?\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:(?:\s+(?P<text>.*))?$")


@dataclass(slots=True)
class Docs:
    """A docstring's parts: the text before the sections, and a text per argument."""

    description: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def read_docstring(function: object, names: Collection[str]) -> Docs:
    """Take ``function``'s own docstring apart; ``names`` are its parameters."""
    text = inspect.cleandoc(getattr(function, "__doc__", None) or "")
    docs, told, about, depth = Docs(), [], "", 0
    before = True
    for line in text.splitlines():
        indent, stripped = len(line) - len(line.lstrip()), line.strip()
        found = _PARAMETER.fullmatch(stripped)
        if found and found["name"] in names:
            before, about, depth = False, found["name"], indent
            docs.arguments[about] = found["text"] or ""
        elif _SECTION.fullmatch(stripped) or _FIELD.fullmatch(stripped):
            before, about = False, ""
        elif about and stripped and indent > depth:
            docs.arguments[about] = f"{docs.arguments[about]} {stripped}".strip()
        elif before:
            told.append(line.rstrip())
        else:
            about = about if not stripped else ""
    docs.description = "\n".join(told).strip()
    return docs
