"""What bench_streaming's servers run: a model that speaks at a steady pace, and the bare socket that is the baseline.

Each token is the moment at which it was made, so that whoever receives it knows how old it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from allm_django.core.types import ModelRequest
from allm_django.providers.base import Delta, Finished, TextDelta

PER_SECOND = int(os.environ.get("ALLM_BENCH_RATE", "50"))


START = Path(os.environ.get("ALLM_BENCH", ".")) / "start"  # holds the moment (Unix time) to begin at, once it is known


async def moments(seconds: float, place: float) -> AsyncGenerator[str, None]:
    """Tokens from the start on; ``place`` from 0 to 1 shifts a client's beat against others'."""
    while not (known := _read_start()):  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.1)
    start = float(known)
    for number in range(int(seconds * PER_SECOND)):
        due = start + (number + place) / PER_SECOND
        await asyncio.sleep(max(due - time.time(), 0))
        yield f"{time.time():.6f} "


def _read_start() -> str:
    return START.read_text() if START.exists() else ""


class Tokens:
    """Speaks as the last message says: ``{"seconds", "place"}``."""

    id = "tokens:steady"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Stream one answer."""
        pieces = []
        async for token in moments(**json.loads(request.messages[-1].content)):
            pieces.append(token)
            yield TextDelta(token)
        yield Finished(text="".join(pieces), finish_reason="stop")


def tokens(name: str) -> Tokens:
    """The provider's factory, named in the settings."""
    return Tokens()


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """A socket that sends the same tokens one by one, and nothing else."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    wanted = json.loads((await receive())["text"])
    offset = 0
    async for token in moments(**wanted):
        await send({"type": "websocket.send", "text": json.dumps({"type": "text", "offset": offset, "text": token})})
        offset += len(token)
    await send({"type": "websocket.close"})
