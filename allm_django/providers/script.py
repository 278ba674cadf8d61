"""The words of a script: what a :class:`~allm_django.providers.scripted.ScriptedModel` can be told to do."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from allm_django.core.types import ModelRequest, Usage
from allm_django.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Say:
    """Visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; ``id`` None = the model numbers it."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """An error of the provider; a broken stream if something was sent before."""

    status: int | None
    retry_after: float | None
    message: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection drops here."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing more is sent until the event is set."""

    until: threading.Event | asyncio.Event


@dataclass(frozen=True, slots=True)
class Count:
    """What the answer says that it used."""

    usage: Usage


Part: TypeAlias = Say | Think | Call | Fail | Cut | Hold | Count
Parts: TypeAlias = str | Part | Sequence["Parts"]
Entry: TypeAlias = Parts | Callable[[ModelRequest], Parts]


def say(text: str) -> Say:
    """Answer with text."""
    return Say(text)


def think(text: str) -> Think:
    """Reason aloud."""
    return Think(text)


def call(name: str, arguments: Mapping[str, Any] | None = None, id: str | None = None) -> Call:
    """Call a tool with arguments (a JSON object). ``id`` may be ``""`` or repeated, as a bad server might send it."""
    return Call(name, json.dumps(dict(arguments or {}), ensure_ascii=False), id)


def raw_call(name: str, text: str, id: str | None = None) -> Call:
    """Call a tool with arguments written as a model might write them: empty, cut short, not JSON."""
    return Call(name, text, id)


def fail(
    status: int | None = 500, *, retry_after: float | None = None, message: str = "", after: str | None = None
) -> Parts:
    """Fail as a provider does, or in mid-stream ``after`` a text. ``status`` None = it could not be reached."""
    failure = Fail(status, retry_after, message)
    return failure if after is None else [Say(after), failure]


def cut(text: str = "") -> Parts:
    """Break the stream after ``text``."""
    return [Say(text), Cut()]


def hold(until: threading.Event | asyncio.Event) -> Hold:
    """Send nothing more until ``until`` is set. For tests that must act in mid-stream."""
    return Hold(until)


def usage(**figures: Any) -> Count:
    """Let this answer report its usage (fields of :class:`~allm_django.core.types.Usage`)."""
    return Count(Usage(**figures))


def flatten(parts: Parts) -> Iterator[Part]:
    """The parts of an entry, one after the other. Raises InvalidInputError for what is no part."""
    if isinstance(parts, str):
        yield Say(parts)
    elif isinstance(parts, Part):
        yield parts
    elif isinstance(parts, Sequence):
        for part in parts:
            yield from flatten(part)
    else:
        raise InvalidInputError(
            f"script: {type(parts).__name__} given; a part such as say(…) or call(…), text or a list is needed.",
            field="script",
        )
