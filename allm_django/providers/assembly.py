"""Deltas become one answer. The only place that knows how the pieces fit together."""

from __future__ import annotations

from collections.abc import Iterable

from allm_django.errors import ProviderError
from allm_django.providers.base import CallDelta, Delta, Finished, RawCall, TextDelta, ThinkingDelta


class _Text:
    """Text that grows by pieces: O(1) to add to, joined when it is asked for."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def joined(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class _Call:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = _Text()


class Assembly:
    """Folds the deltas of one answer.

    Adding a delta is O(1). ``text``, ``thinking`` and ``calls`` are what came so far; once ``finished`` is
    set they are what the provider says they are, and nothing may be added any more.
    """

    __slots__ = ("_calls", "_text", "_thinking", "finished")

    def __init__(self, deltas: Iterable[Delta] = ()) -> None:
        self._text = _Text()
        self._thinking = _Text()
        self._calls: dict[int, _Call] = {}
        self.finished: Finished | None = None
        for delta in deltas:
            self.add(delta)

    def add(self, delta: Delta) -> None:
        """Fold one delta in. Raises ProviderError for one that comes after the end."""
        if self.finished is not None:
            raise ProviderError("The model sent more after the end of its answer.")
        kind = type(delta)
        if kind is TextDelta:
            self._text.pieces.append(delta.text)  # type: ignore[union-attr]
        elif kind is CallDelta:
            self._add_call(delta)  # type: ignore[arg-type]
        elif kind is ThinkingDelta:
            self._thinking.pieces.append(delta.text)  # type: ignore[union-attr]
        elif isinstance(delta, Finished):
            self.finished = delta
        else:
            raise ProviderError(f"The model sent a {kind.__name__}, which is not a delta.")

    def _add_call(self, delta: CallDelta) -> None:
        call = self._calls.get(delta.index)
        if call is None:
            call = self._calls[delta.index] = _Call()
        if delta.id:
            call.id = delta.id
        if delta.name:
            call.name = delta.name
        if delta.arguments:
            call.arguments.pieces.append(delta.arguments)

    @property
    def text(self) -> str:
        """The visible text."""
        return (self.finished.text if self.finished else "") or self._text.joined()

    @property
    def thinking(self) -> str:
        """The reasoning, where the provider shows it."""
        return (self.finished.thinking if self.finished else "") or self._thinking.joined()

    @property
    def calls(self) -> tuple[RawCall, ...]:
        """The calls in the order they began. Partial, and not to be run, until ``finished`` is set."""
        if self.finished is not None:
            return self.finished.calls
        return tuple(RawCall(call.id, call.name, call.arguments.joined()) for call in self._calls.values())
