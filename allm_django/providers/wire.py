"""Tools in the form in which each kind of provider is sent them: read off a real request that goes nowhere (M03)."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterable
from typing import Any

from allm_django.core.history import user
from allm_django.core.types import JSON, JSONObject, ModelRequest, ToolSpec
from allm_django.providers.pydantic_ai import Kind, missing_extra
from allm_django.providers.resolve import KINDS, is_installed

# One kind for each form: compatible servers are sent what OpenAI's chat completions are.
FORMS = ("openai", "openai-responses", "anthropic", "google")
SENDER = "allm_django.providers.sender"


def usable_forms() -> list[str]:
    """The prefixes of :data:`FORMS` whose libraries are installed."""
    return [prefix for prefix in FORMS if all(map(is_installed, KINDS[prefix].libraries))]


def tools_as_sent(prefix: str, tools: Iterable[ToolSpec]) -> JSON:
    """What stands under ``tools`` in a request to a provider of this kind.

    The request is made by the adapter that makes all others, and caught on its way out; no key is needed. Raises
    MissingExtraError if the provider's library is not installed, and whatever the adapter raises for tools that it
    can't send. Not for a running event loop.
    """
    kind = KINDS[prefix]
    request = ModelRequest((user("Hello."),), tuple(tools))
    return asyncio.run(_body(prefix, kind, request)).get("tools")


async def _body(prefix: str, kind: Kind, request: ModelRequest) -> JSONObject:
    try:
        sender: Any = importlib.import_module(SENDER)
    except ImportError as error:
        raise missing_extra(kind, f"{prefix}:preview") from error
    body: JSONObject = await sender.caught_request(kind, request)
    return body
