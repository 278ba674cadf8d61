"""Sockets for tests: connected like a browser's, through Channels' own login, without the network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.test import Client

from allm_django.chat.routing import websocket_urlpatterns

ORIGIN = (b"origin", b"http://testserver")
# Without the host's own check of Origins: the consumer's has to do.
application = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))


def login(user: User | None) -> Client:
    """A browser in which ``user`` has logged in."""
    client = Client()
    if user is not None:
        client.force_login(user)
    return client


class Socket:
    """One open socket."""

    def __init__(self, path: str, client: Client, headers: Iterable[tuple[bytes, bytes]] = (ORIGIN,)) -> None:
        cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
        self.wire = WebsocketCommunicator(application, f"/ws/allm/{path}", [*headers, (b"cookie", cookies.encode())])

    async def connect(self) -> bool:
        """Whether the server let us in."""
        accepted, _ = await self.wire.connect(timeout=10)
        return bool(accepted)

    async def send(self, frame: Any) -> None:
        """Send a frame, as JSON unless it is text or bytes already."""
        kind = "bytes" if isinstance(frame, bytes) else "text"
        content = frame if isinstance(frame, (str, bytes)) else json.dumps(frame)
        await self.wire.send_input({"type": "websocket.receive", kind: content})

    async def hello(self, event: int = 0, message: str | None = None, offset: int = 0) -> list[dict[str, Any]]:
        """Say where we are; the frames up to ``ready`` or ``resync``, that one left out but for a resync."""
        await self.send({"type": "hello", "event": event, "message": message, "offset": offset})
        frames = []
        while (frame := await self.frame())["type"] not in ("ready", "resync"):
            frames.append(frame)
        return frames if frame["type"] == "ready" else [*frames, frame]

    async def frame(self) -> dict[str, Any]:
        """The next frame."""
        found: dict[str, Any] = await self.wire.receive_json_from(timeout=10)
        return found

    async def closed(self) -> int:
        """The code that the server closes with; other frames are passed over."""
        while (message := await self.wire.receive_output(timeout=10))["type"] != "websocket.close":
            pass
        return int(message["code"])

    async def leave(self) -> None:
        """Go away."""
        with suppress(Exception):
            await self.wire.disconnect(timeout=10)


@asynccontextmanager
async def open_socket(path: str, user: User | None, client: Client | None = None) -> AsyncIterator[Socket]:
    """A socket that the server let in, closed at the end."""
    socket = Socket(path, client or await sync_to_async(login)(user))
    try:
        assert await socket.connect()
        yield socket
    finally:
        await socket.leave()
