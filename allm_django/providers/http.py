"""One HTTP client per event loop, shared by every model and closed with its loop.

A connection belongs to the loop that opened it: a client used from another one fails with "Event loop is
closed". Building one costs tens of milliseconds (certificates), so it is not built per request either.
Imported only when a real provider is used.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from http.cookiejar import DefaultCookiePolicy
from typing import Any, TypeVar

import httpx2
from pydantic_ai.models import create_async_httpx2_client

from allm_django.providers.params import CONNECT_TIMEOUT, DEFAULT_STALL_TIMEOUT

KEPT_MODELS = 32
T = TypeVar("T")


class Home:
    """What lives as long as one event loop: the client, and the library's models that use it."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self._models: OrderedDict[Hashable, Any] = OrderedDict()
        self._lifetime: AsyncGenerator[None, None] | None = None

    async def model(self, key: Hashable, build: Callable[[], Any]) -> Any:
        """The model of that key, built in a thread (it may import a library or read certificates) if need be."""
        if key not in self._models:
            self._models[key] = await asyncio.to_thread(build)
            while len(self._models) > KEPT_MODELS:
                self._models.popitem(last=False)
        self._models.move_to_end(key)
        return self._models[key]

    async def settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the client when the loop shuts its asynchronous generators down, as ``asyncio.run`` does."""
        self._lifetime = self._live(loop)
        await anext(self._lifetime)

    async def _live(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            with _lock:
                _homes.pop(loop, None)
            await self.client.aclose()


_homes: dict[asyncio.AbstractEventLoop, Home] = {}
_lock = threading.Lock()


async def home() -> Home:
    """What belongs to the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _homes:
        client = await asyncio.to_thread(_new_client)
        if loop in _homes:  # another task was faster
            await client.aclose()
        else:
            await _move_in(loop, Home(client))
    return _homes[loop]


async def _move_in(loop: asyncio.AbstractEventLoop, new: Home) -> None:
    with _lock:
        for other in [known for known in _homes if known.is_closed()]:
            del _homes[other]
        _homes[loop] = new
    await new.settle(loop)


_opened: ContextVar[list[httpx2.Response] | None] = ContextVar("opened", default=None)


@asynccontextmanager
async def ended_on_leaving(stream: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter ``stream``; on leaving, close each HTTP response it opened. Not every SDK does so for an unread one."""
    opened: list[httpx2.Response] = []
    try:
        async with AsyncExitStack() as stack:
            token = _opened.set(opened)
            try:
                entered = await stack.enter_async_context(stream)
            finally:
                _opened.reset(token)  # at once: an asynchronous generator shares its reader's context
            yield entered
    finally:
        for response in opened:
            await response.aclose()


async def _remember(response: httpx2.Response) -> None:
    opened = _opened.get()
    if opened is not None:
        opened.append(response)


def _new_client() -> httpx2.AsyncClient:
    client = create_async_httpx2_client(timeout=httpx2.Timeout(DEFAULT_STALL_TIMEOUT, connect=CONNECT_TIMEOUT))
    client.event_hooks = {**client.event_hooks, "response": [_remember]}
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))  # shared by all keys: it remembers nothing
    return client
