"""Reading one answer from a model: deltas as they come, retries before the first one (L14)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing

from allm_django.core.types import ModelRequest
from allm_django.errors import AllmError, ProviderError, StreamBrokenError
from allm_django.loop.options import LoopOptions
from allm_django.loop.points import at
from allm_django.providers.assembly import Assembly
from allm_django.providers.base import Delta, Model


class Reading:
    """One answer being read. ``assembly`` holds what has come so far, also after a failure."""

    def __init__(
        self, model: Model, request: ModelRequest, options: LoopOptions, note: Callable[[Delta], None]
    ) -> None:
        self.model = model
        self.request = request
        self.options = options
        self.note = note
        self.assembly = Assembly()
        self._begun = False

    async def read(self) -> None:
        """Read to the end. Raises ProviderError, StreamBrokenError when it ends without being complete."""
        attempt = 1
        while True:
            try:
                return await self._read_once()
            except ProviderError as error:
                if self._begun or not error.retryable or attempt >= self.options.attempts:
                    raise
                wait = self._pause(error, attempt)
                if wait > self.options.retry_after_max:
                    raise
            await at("retry", asyncio.sleep(wait))
            attempt += 1

    async def _read_once(self) -> None:
        add, note = self.assembly.add, self.note
        try:
            async with aclosing(self.model.stream(self.request)) as deltas:
                async for delta in deltas:
                    self._begun = True
                    add(delta)
                    note(delta)
        except (AllmError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise ProviderError(detail=f"{type(error).__name__}: {error}") from error
        if self.assembly.finished is None:
            raise StreamBrokenError(retryable=not self._begun)

    def _pause(self, error: ProviderError, attempt: int) -> float:
        """Seconds before the next attempt: what the provider asks for, else doubling with some chance in it."""
        if error.retry_after is not None:
            return error.retry_after
        return self.options.backoff * float(2 ** (attempt - 1)) * (0.75 + random.random() / 2)
