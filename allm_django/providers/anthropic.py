"""Anthropic's messages (``anthropic:``)."""

from __future__ import annotations

import httpx2
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider


def build(name: str, key: str, base_url: str | None, client: httpx2.AsyncClient) -> AnthropicModel:
    """The library's model; schemas go out as they were saved."""
    provider = AnthropicProvider(api_key=key, base_url=base_url, http_client=client)
    return AnthropicModel(name, provider=provider, profile=ModelProfile(json_schema_transformer=None))
