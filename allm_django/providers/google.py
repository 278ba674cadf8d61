"""Google's Gemini API (``google:``)."""

from __future__ import annotations

import httpx2
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider


def build(name: str, key: str, base_url: str | None, client: httpx2.AsyncClient) -> GoogleModel:
    """The library's model. Gemini takes a subset of JSON Schema, so the library's translation stays on."""
    return GoogleModel(name, provider=GoogleProvider(api_key=key, base_url=base_url, http_client=client))
