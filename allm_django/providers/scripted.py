"""A model that says what it was told to say (L18): for tests, and for a start without a key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import count
from weakref import WeakValueDictionary

from allm_django.core.types import ModelRequest, Usage
from allm_django.errors import InvalidInputError, ProviderError, StreamBrokenError
from allm_django.providers.base import (
    CallDelta,
    Delta,
    Finished,
    RawCall,
    TextDelta,
    ThinkingDelta,
    is_retryable_status,
)
from allm_django.providers.script import (
    Call,
    Count,
    Cut,
    Entry,
    Fail,
    Hold,
    Part,
    Say,
    Think,
    call,
    cut,
    fail,
    flatten,
    hold,
    raw_call,
    say,
    think,
    usage,
)

__all__ = ["ScriptedModel", "call", "cut", "fail", "find_scripted", "hold", "raw_call", "say", "think", "usage"]

DEFAULT_CHUNK_SIZE = 8
BREATHE_EVERY = 64  # deltas after which even a script without delays lets other tasks run

_models: WeakValueDictionary[str, ScriptedModel] = WeakValueDictionary()
_numbers = count(1)


def find_scripted(id: str) -> ScriptedModel | None:
    """The living ScriptedModel of that id (``scripted:…``), or None."""
    return _models.get(id)


class ScriptedModel:
    """Answers each request with the next entry.

    An entry is a part (``say``, ``call``, …), text, a list of these in one answer, or a function
    ``(ModelRequest) -> entry``. ``id`` gets the prefix ``scripted:`` if it has none; while the object lives,
    ``resolve_model(model.id)`` finds it. ``delay`` = seconds before each delta; ``chunk_size`` = characters a
    delta; ``usage`` = what an answer reports unless a part says otherwise (default: unknown); ``loop`` = start
    over after the last entry. ``requests`` holds every ModelRequest it was sent. Usable from any loop and thread.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        id: str | None = None,
        delay: float = 0.0,
        chunk_size: int | None = None,
        usage: Usage | None = None,
        loop: bool = False,
    ) -> None:
        if chunk_size is not None and chunk_size < 1:
            raise InvalidInputError(f"chunk_size: {chunk_size!r} given; at least 1 is needed.", field="chunk_size")
        name = str(next(_numbers)) if id is None else id.removeprefix("scripted:")
        self.id = f"scripted:{name}"
        self.requests: list[ModelRequest] = []
        self._entries = tuple(entries)
        self._delay = delay
        self._chunk_size = chunk_size or DEFAULT_CHUNK_SIZE
        self._usage = usage or Usage()
        self._loop = loop
        self._call_numbers = count(1)
        self._lock = threading.Lock()
        _models[self.id] = self

    def __repr__(self) -> str:
        return f"<ScriptedModel {self.id}: {len(self.requests)} of {len(self._entries)} entries used>"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Stream the next entry. Raises ProviderError when there is none left."""
        entry = self._next_entry(request)
        answer = _Answer(self._chunk_size, self._call_numbers, self._usage)
        await asyncio.sleep(0)
        sent = 0
        for part in flatten(entry(request) if callable(entry) else entry):
            if isinstance(part, Hold):
                await _until(part.until)
            for delta in answer.deltas(part):
                sent += 1
                if self._delay:
                    await asyncio.sleep(self._delay)
                elif sent % BREATHE_EVERY == 0:
                    await asyncio.sleep(0)
                yield delta
        yield answer.finished()

    def _next_entry(self, request: ModelRequest) -> Entry:
        with self._lock:
            position = len(self.requests)
            self.requests.append(request)
        if self._loop and self._entries:
            position %= len(self._entries)
        if position >= len(self._entries):
            raise ProviderError(
                f"The scripted model {self.id!r} has no answer for request {position + 1}: "
                f"its script has {len(self._entries)} entries."
            )
        return self._entries[position]


class _Answer:
    """One answer while it is given: what was sent, for the end and for errors in its midst."""

    def __init__(self, chunk_size: int, call_numbers: Iterator[int], usage: Usage) -> None:
        self._chunk_size = chunk_size
        self._call_numbers = call_numbers
        self._usage = usage
        self._text = ""
        self._thinking = ""
        self._calls: list[RawCall] = []

    def deltas(self, part: Part) -> Iterator[Delta]:
        if isinstance(part, Say):
            self._text += part.text
            yield from map(TextDelta, self._chunks(part.text))
        elif isinstance(part, Think):
            self._thinking += part.text
            yield from map(ThinkingDelta, self._chunks(part.text))
        elif isinstance(part, Call):
            yield from self._call(part)
        elif isinstance(part, Count):
            self._usage = part.usage
        elif isinstance(part, Cut):
            raise StreamBrokenError(retryable=not self._started)
        elif isinstance(part, Fail):
            self._fail(part)

    def _call(self, part: Call) -> Iterator[Delta]:
        id = f"call_{next(self._call_numbers)}" if part.id is None else part.id
        index = len(self._calls)
        self._calls.append(RawCall(id, part.name, part.arguments))
        yield CallDelta(index, id, part.name)
        for chunk in self._chunks(part.arguments):
            yield CallDelta(index, arguments=chunk)

    def _fail(self, part: Fail) -> None:
        message = part.message or f"The scripted model failed with status {part.status}."
        if self._started:
            raise StreamBrokenError(message, status=part.status)
        raise ProviderError(
            message, status=part.status, retryable=is_retryable_status(part.status), retry_after=part.retry_after
        )

    @property
    def _started(self) -> bool:
        return bool(self._text or self._thinking or self._calls)

    def _chunks(self, text: str) -> Iterator[str]:
        return (text[at : at + self._chunk_size] for at in range(0, len(text), self._chunk_size))

    def finished(self) -> Finished:
        return Finished(
            text=self._text,
            thinking=self._thinking,
            calls=tuple(self._calls),
            usage=self._usage,
            finish_reason="tool_calls" if self._calls else "stop",
        )


async def _until(event: threading.Event | asyncio.Event) -> None:
    if isinstance(event, asyncio.Event):
        await event.wait()
        return
    while not event.is_set():  # noqa: ASYNC110 - another thread sets it; there is nothing to await
        await asyncio.sleep(0.002)
