"""The record of decisions as a file: CSV for spreadsheets, JSON lines for programs (H14)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import QuerySet

from allm_django.core.encode import mask
from allm_django.core.types import JSONObject
from allm_django.models import Decision
from allm_django.store.shapes import moment

COLUMNS = (
    "session",
    "number",
    "call",
    "call_version",
    "created_at",
    "who",
    "who_id",
    "verb",
    "tool",
    "outcome",
    "reason",
    "arguments_before",
    "arguments_after",
    "value",
    "shown",
    "hmac",
)
PAGE = 500
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a spreadsheet takes for the start of a formula


class _Echo:
    """A file that gives back what is written to it."""

    def write(self, text: str) -> str:
        return text


def as_csv(decisions: QuerySet[Decision], *, clear: bool = False) -> Iterator[str]:
    """Lines of CSV, with a head. No cell starts a formula. ``clear``: sensitive fields are shown."""
    writer: Any = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    for decision in _read(decisions):
        yield writer.writerow([_cell(value) for value in _row(decision, clear).values()])


def as_lines(decisions: QuerySet[Decision], *, clear: bool = False) -> Iterator[str]:
    """A JSON object a line. ``clear``: sensitive fields are shown."""
    for decision in _read(decisions):
        yield json.dumps(_row(decision, clear), ensure_ascii=False) + "\n"


def _read(decisions: QuerySet[Decision]) -> Iterable[Decision]:
    return decisions.select_related("call__tool_version").iterator(chunk_size=PAGE)


def _row(decision: Decision, clear: bool) -> JSONObject:
    version = decision.call.tool_version
    sensitive = [] if clear or version is None else version.data.get("sensitive", [])
    return {
        "session": str(decision.session_id),
        "number": decision.number,
        "call": str(decision.call_id),
        "call_version": decision.call_version,
        "created_at": moment(decision.created_at),
        "who": decision.who,
        "who_id": decision.who_id,
        "verb": decision.verb,
        "tool": decision.name,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "arguments_before": mask(decision.arguments_before, sensitive),
        "arguments_after": mask(decision.arguments_after, sensitive),
        "value": mask(decision.value, sensitive),
        "shown": decision.shown,
        "hmac": decision.hmac,
    }


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text
