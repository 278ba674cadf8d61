"""What the children's model and tools do. The ledger is the witness: a file outside the database, written through to
the disk at the moment of each effect.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from django.conf import settings

import allm_django as allm
from allm_django.core.types import ModelRequest
from allm_django.providers.base import CallDelta, Delta, Finished, RawCall, TextDelta
from allm_django.tools.context import ToolContext


def enter(kind: str, key: str) -> None:
    """Write one effect into the ledger, for good."""
    ledger = os.open(settings.LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(ledger, f"{kind} {key}\n".encode())
        os.fsync(ledger)
    finally:
        os.close(ledger)


@allm.tool(idempotent=True)
def note(label: str, ctx: ToolContext) -> str:
    """Do something that may be done again with the same key."""
    enter("note", ctx.idempotency_key)
    return f"noted {label}"


@allm.tool
def charge(label: str, ctx: ToolContext) -> str:
    """Do something that must never be done twice."""
    enter("charge", ctx.idempotency_key)
    return f"charged {label}"


@allm.tool(manual=True)
def refund(label: str, ctx: ToolContext) -> str:
    """Do something that a person has to allow, and that must never be done twice."""
    enter("refund", ctx.idempotency_key)
    return f"refunded {label}"


@allm.tool(timeout=20)
def hang(label: str, ctx: ToolContext) -> str:
    """Do something once, then wait until the file ``label`` is there."""
    enter("hang", ctx.idempotency_key)
    _until(Path(label))
    return "came back"


@allm.tool(timeout=20, idempotent=True)
def hang_harmless(label: str, ctx: ToolContext) -> str:
    """The same, of the kind that may be done again."""
    enter("hang_harmless", ctx.idempotency_key)
    _until(Path(label))
    return "came back"


@allm.recipe
def errand(label: str) -> allm.Plan:
    """Note something, then charge at once and refund when a person allows it."""
    return allm.Plan(
        serial=[allm.Step(note, {"label": label})],
        parallel=[
            allm.Step(charge, lambda results: {"label": results["note"]}),
            allm.Step(refund, lambda results: {"label": results["note"]}),
        ],
    )


def is_there(path: str) -> bool:
    """Whether there is such a file."""
    return Path(path).exists()


def _until(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


class Story:
    """A model without a memory: calls the tools that the last user's message names, then says that it is done.

    The message is JSON: ``{"calls": [[name, label], …], "until": path}``; with ``until`` it speaks until that file
    is there.
    """

    id = "story:once"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Stream one answer."""
        place, wanted = self._wanted(request)
        done = any(message.role == "tool" for message in request.messages[place:])
        text = ""
        pieces = 0
        while pieces < 3 or not is_there(wanted.get("until", "/")):
            await asyncio.sleep(0.005)
            pieces += 1
            text += f"piece {pieces} "
            yield TextDelta(f"piece {pieces} ")
        calls: list[RawCall] = []
        if not done:
            for index, (name, label) in enumerate(wanted["calls"]):
                calls.append(RawCall(f"c{index}", name, json.dumps({"label": label})))
                yield CallDelta(index, f"c{index}", name, calls[-1].arguments)
        yield Finished(text=text, calls=tuple(calls), finish_reason="tool_calls" if calls else "stop")

    @staticmethod
    def _wanted(request: ModelRequest) -> tuple[int, dict[str, Any]]:
        place = max(index for index, message in enumerate(request.messages) if message.role == "user")
        return place, json.loads(request.messages[place].content)


def story(name: str) -> Story:
    """The provider's factory, named in the settings."""
    return Story()
