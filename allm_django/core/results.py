"""What a handler may return besides a plain value: a question, or a halt with its reason (T13, T14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from allm_django.core.states import HaltedReason
from allm_django.errors import ToolDefinitionError


@dataclass(frozen=True, slots=True)
class AskUser:
    """Ask the session's owner. The loop halts with ``ask_user``; the answer becomes this call's result (T13)."""

    question: str
    options: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.question, str) or not self.question.strip():
            raise ToolDefinitionError("AskUser: the question is empty; give text.", field="question")
        if isinstance(self.options, str) or not all(isinstance(option, str) for option in self.options):
            raise ToolDefinitionError("AskUser: options are a list of texts.", field="options")
        object.__setattr__(self, "options", tuple(self.options))


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop the loop for a reason of one's own; ``value`` is this call's result (T14).

    Raises ToolDefinitionError for a reason that the loop itself uses (L05) or that is not a short word.
    """

    reason: str
    value: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip() or len(self.reason) > 64:
            raise ToolDefinitionError("Halt: the reason is a short text of 1 to 64 characters.", field="reason")
        if self.reason in set(HaltedReason):
            raise ToolDefinitionError(
                f"Halt: {self.reason!r} is a reason of the loop itself; use a word of your own.", field="reason"
            )
