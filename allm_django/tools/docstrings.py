"""What a docstring says: to the model about the tool, and about each argument.

Google style (``Args:`` and ``name: text`` or ``name (type): text``), Sphinx (``:param name: text``), and bare
``name: text`` lines are understood; only names of real parameters count.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from dataclasses import dataclass, field

_ARGUMENTS = re.compile(r"(args|arguments|parameters|params):", re.IGNORECASE)
_SECTION = re.compile(r"(returns?|raises|yields?|examples?|notes?|attributes):", re.IGNORECASE)
_FIELD = re.compile(r":(param|returns?|rtype|raises?|type)\b.*")
_PARAMETER = re.compile(r"(?::param\s+(?:[^:]+\s)?)?\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:(?:\s+(?P<text>.*))?$")


@dataclass(slots=True)
class Docs:
    """A docstring's parts: the text before the sections, and a text per argument."""

    description: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def read_docstring(function: object, names: Collection[str]) -> Docs:
    """Take ``function``'s own docstring apart; ``names`` are its parameters."""
    docs, told = Docs(), []
    before, elsewhere = True, False  # before all sections; in one that is not about arguments
    about, depth = "", 0
    for line in inspect.cleandoc(getattr(function, "__doc__", None) or "").splitlines():
        indent, text = len(line) - len(line.lstrip()), line.strip()
        found = _PARAMETER.fullmatch(text)
        if found and found["name"] in names and (not elsewhere or text.startswith(":param")):
            before, about, depth = False, found["name"], indent
            docs.arguments[about] = found["text"] or ""
        elif _SECTION.fullmatch(text) or _ARGUMENTS.fullmatch(text) or _FIELD.fullmatch(text):
            before, elsewhere, about = False, not _ARGUMENTS.fullmatch(text), ""
        elif about and text and indent > depth:
            docs.arguments[about] = f"{docs.arguments[about]} {text}".strip()
        elif before:
            told.append(line.rstrip())
        elif text:
            about = ""
    docs.description = "\n".join(told).strip()
    return docs
