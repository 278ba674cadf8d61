"""What each verb does wherever a session or a call can stand (S02): one table, which the tests try out cell by cell.

``python -m tests.verbs`` writes docs/reference/verbs.md from it; a test fails when that is stale. A cell is the new
status (or call state), or the name of the error in ``allm_django.errors``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[1] / "docs/reference/verbs.md"

SESSION_VERBS = ("reply", "resume", "step", "cancel", "rename")
CALL_VERBS = ("approve", "edit", "answer", "reject", "retry", "reask", "submit_tool_result")

BUSY, AWAITING, REFUSED = "SessionBusyError", "AwaitingDecisionError", "StateError"
INVALID, CONFLICT, DECIDED = "InvalidInputError", "ConflictError", "AlreadyDecidedError"
ANSWERED, REJECTED = "settled: answered", "settled: rejected"

# Where a session stands: its status, what that means, and what each of SESSION_VERBS leads to.
SESSIONS: dict[str, tuple[str, str, Sequence[str]]] = {
    "idle": ("idle", "no message yet", ("running", REFUSED, REFUSED, REFUSED, "idle")),
    "running": ("running", "nobody works on it yet", (BUSY, BUSY, BUSY, "completed", "running")),
    "at_work": ("running", "a worker drives it", (BUSY, BUSY, BUSY, "running", "running")),
    "awaiting_user": (
        "awaiting_user",
        "one question is open: a reply is its answer",
        ("running", AWAITING, AWAITING, "completed", "awaiting_user"),
    ),
    "two_questions": (
        "awaiting_user",
        "several questions are open: answer each by its call",
        (AWAITING, AWAITING, AWAITING, "completed", "awaiting_user"),
    ),
    "awaiting_tools": (
        "awaiting_tools",
        "calls wait for a decision",
        (AWAITING, AWAITING, AWAITING, "completed", "awaiting_tools"),
    ),
    "superseding": (
        "awaiting_tools",
        "calls wait, and the engine lets people write on (`typing = supersede`)",
        ("running", AWAITING, AWAITING, "completed", "awaiting_tools"),
    ),
    "unknown": (
        "awaiting_tools",
        "a call's outcome is unknown: cancelling waits for it to be settled",
        (AWAITING, AWAITING, AWAITING, "awaiting_tools", "awaiting_tools"),
    ),
    "completed": (
        "completed",
        "the assistant has answered",
        ("running", REFUSED, REFUSED, REFUSED, "completed"),
    ),
    "out_of_turns": (
        "completed",
        "a limit was reached, or a tool or rule halted it",
        ("running", "running", "running", REFUSED, "completed"),
    ),
    "cancelled": ("completed", "it was cancelled", ("running", "running", "running", REFUSED, "completed")),
    "failed": ("error", "the run keeps its cause", ("running", "running", "running", REFUSED, "error")),
}

# Where a call stands: its state, what that means, and what each of CALL_VERBS leads to.
CALLS: dict[str, tuple[str, str, Sequence[str]]] = {
    "pending": (
        "pending",
        "waits for a decision",
        ("ready", "ready", ANSWERED, REJECTED, INVALID, INVALID, ANSWERED),
    ),
    "without_handler": (
        "pending",
        "its tool has no handler: nothing could run",
        (INVALID, INVALID, ANSWERED, REJECTED, INVALID, INVALID, ANSWERED),
    ),
    "changed": (
        "pending",
        "its tool was changed since it was asked",
        (CONFLICT, CONFLICT, ANSWERED, REJECTED, INVALID, "pending", ANSWERED),
    ),
    "disabled": (
        "pending",
        "its tool was disabled or deleted",
        (CONFLICT, CONFLICT, ANSWERED, REJECTED, INVALID, INVALID, ANSWERED),
    ),
    "asking": ("asking", "asks the owner", (INVALID, INVALID, ANSWERED, INVALID, INVALID, INVALID, ANSWERED)),
    "unknown": (
        "unknown",
        "may or may not have taken effect",
        (INVALID, INVALID, ANSWERED, REJECTED, "ready", INVALID, ANSWERED),
    ),
    "ready": ("ready", "is about to run", (DECIDED,) * 7),
    "executing": ("executing", "runs", (DECIDED,) * 7),
    "delegated": ("delegated", "a recipe whose steps run or wait: those are decided, each by itself", (DECIDED,) * 7),
    "settled": ("settled", "has its one result", (DECIDED,) * 7),
}

HEAD = """# Verbs

What each verb of `allm_django.sessions` leads to, wherever a session or a call can stand. A cell is the new status, or
the error that is raised, with nothing written; `error.info["state"]` names the status or state that was in the way.
`start` and `import_` make a session of their own; `export` and `wait` change nothing. A verb that is sent again under
its `key` gives the first answer again. Who may use a verb is another matter: NotFoundError, NotAllowedError.

This file is written by `python -m tests.verbs` from the table that the tests try out.

## Sessions
"""
BETWEEN = """
## Calls

`approve` with `arguments` is `edit`. All but `submit_tool_result` take the `version` of the call that the person saw;
another one than the call has now is a VersionMismatchError, a ConflictError as well. A verb that the tool's row does
not allow is an InvalidInputError.
"""


def document() -> str:
    """The text of docs/reference/verbs.md."""
    return f"{HEAD}\n{_table('status', SESSION_VERBS, SESSIONS)}{BETWEEN}\n{_table('state', CALL_VERBS, CALLS)}"


def cells(verbs: Sequence[str], rows: Mapping[str, tuple[str, str, Sequence[str]]]) -> list[tuple[str, str, str, str]]:
    """Each cell: the place, its status or state, the verb, and what it leads to."""
    return [
        (place, state, verb, end)
        for place, (state, _, ends) in rows.items()
        for verb, end in zip(verbs, ends, strict=True)
    ]


def _table(first: str, verbs: Sequence[str], rows: Mapping[str, tuple[str, str, Sequence[str]]]) -> str:
    def lines() -> Iterator[str]:
        yield f"| {first} | meaning | " + " | ".join(f"`{verb}`" for verb in verbs) + " |"
        yield "|---" * (len(verbs) + 2) + "|"
        for state, meaning, ends in rows.values():
            yield f"| {state} | {meaning} | " + " | ".join(ends) + " |"

    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
