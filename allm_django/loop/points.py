"""Named points around everything the engine waits for, where tests stop or kill a process.

In production the hook is None and a point costs one comparison.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")

hook: Callable[[str], None] | None = None


def point(name: str) -> None:
    """Tell the hook, if there is one, that the engine is at ``name`` (``"finish_call:before"``)."""
    if hook is not None:
        hook(name)


async def at(name: str, work: Awaitable[T]) -> T:
    """Await ``work`` between its two points."""
    try:
        point(f"{name}:before")
    except BaseException:
        if isinstance(work, Coroutine):
            work.close()  # it will never be awaited, and need not say so
        raise
    result = await work
    point(f"{name}:after")
    return result
