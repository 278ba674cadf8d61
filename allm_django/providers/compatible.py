"""Any server with OpenAI's chat completions (``compatible:``): a local one, a gateway, another vendor."""

from __future__ import annotations

import httpx2
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from allm_django.providers.openai import CHAT_PROFILE, ChatModel

# Most of these servers know the older field only.
PROFILE = merge_profile(CHAT_PROFILE, OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False))


def build(name: str, key: str, base_url: str | None, client: httpx2.AsyncClient) -> OpenAIChatModel:
    """The library's model for a compatible server. An OpenAI key of the environment is never sent to it."""
    assert base_url is not None, "resolve_model asks for it"
    provider = OpenAICompatibleProvider("compatible", base_url=base_url, api_key=key or None, http_client=client)
    return ChatModel(name, provider=provider, profile=PROFILE)
