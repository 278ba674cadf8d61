"""A request on its way to a provider, caught before it leaves. Importing this imports pydantic-ai."""

from __future__ import annotations

import json

import httpx2

from allm_django.core.types import JSONObject, ModelRequest
from allm_django.providers.bridge import build_model, open_stream
from allm_django.providers.params import DEFAULT_STALL_TIMEOUT
from allm_django.providers.pydantic_ai import Kind

NOWHERE = "http://preview.invalid/v1"


class _CaughtError(Exception):
    """The request is known: there is nothing more to do."""


async def caught_request(kind: Kind, request: ModelRequest) -> JSONObject:
    """The body of the request that would be sent."""
    bodies: list[JSONObject] = []

    async def catch(sent: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(await sent.aread()))
        raise _CaughtError

    transport, timeout = httpx2.MockTransport(catch), httpx2.Timeout(DEFAULT_STALL_TIMEOUT)
    async with httpx2.AsyncClient(transport=transport, timeout=timeout) as client:
        model = build_model(kind.builder, "preview", "none", NOWHERE, client)
        try:
            async with open_stream(model, request, kind.provider):
                pass
        except Exception:
            if not bodies:
                raise
    return bodies[0]
