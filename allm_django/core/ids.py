"""Call ids: the provider's own where it is usable, else ours (H01); and names that every provider takes back."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable

# What each provider takes back: Anthropic these characters, OpenAI at most 40 (a session's model may change, S06).
USABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_NAME = 64


def usable_ids(given: Iterable[str], taken: Container[str], new_id: Callable[[], str]) -> list[str]:
    """One id a call, unique in the conversation: ``given`` where it is well-formed and not yet taken."""
    chosen: list[str] = []
    for provider_id in given:
        usable = USABLE_ID.fullmatch(provider_id) and provider_id not in taken and provider_id not in chosen
        chosen.append(provider_id if usable else new_id())
    return chosen


def sendable_name(name: str) -> str:
    """A name that a model made up, in characters that providers take back; they refuse the whole request else."""
    return NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME] or "unknown"
