"""The ASGI side of a host project, in one call.

    application = with_assistant(get_asgi_application())

adds the websocket (foreign origins refused, Django's login) and, where the server speaks the lifespan
protocol, start and clean stop of this process's runner.
"""

from __future__ import annotations

import asyncio
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator

from allm_django import runtime
from allm_django.chat.routing import websocket_urlpatterns


def with_assistant(http: Any) -> ProtocolTypeRouter:
    """The ASGI application ``http`` (Django's own) with allm_django's websocket beside it.

    Import this after ``get_asgi_application()`` has run. A project with websockets of its own puts
    ``websocket_urlpatterns`` into its router instead.
    """
    socket = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))
    return ProtocolTypeRouter({"http": http, "websocket": socket, "lifespan": lifespan})


async def lifespan(scope: Any, receive: Any, send: Any) -> None:
    """Start the runner with the server, so that what a dead process left goes on; give its leases back at the stop."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await asyncio.to_thread(runtime.ensure_started)
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await asyncio.to_thread(runtime.shutdown)
            await send({"type": "lifespan.shutdown.complete"})
            return
