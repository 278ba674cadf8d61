"""OpenAI, by chat completions (``openai:``) or responses (``openai-responses:``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from openai.types.chat import chat_completion_chunk
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
from pydantic_ai.messages import ModelResponseStreamEvent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIStreamedResponse
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

# A stream without a finish reason broke off, however politely; schemas go out as they were saved.
CHAT_PROFILE = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True, json_schema_transformer=None)


def build_chat(name: str, key: str, base_url: str | None, client: httpx2.AsyncClient) -> OpenAIChatModel:
    """The library's model for chat completions."""
    provider = OpenAIProvider(base_url=base_url, api_key=key, http_client=client)
    return ChatModel(name, provider=provider, profile=CHAT_PROFILE)


def build_responses(name: str, key: str, base_url: str | None, client: httpx2.AsyncClient) -> OpenAIResponsesModel:
    """The library's model for the Responses API."""
    provider = OpenAIProvider(base_url=base_url, api_key=key, http_client=client)
    return OpenAIResponsesModel(name, provider=provider, profile=OpenAIModelProfile(json_schema_transformer=None))


@dataclass
class _Slot:
    """A call being streamed at one ``index`` of the server's."""

    part: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass
class ChatStream(OpenAIStreamedResponse):
    """Keeps calls apart that a server sends at one index, and a name whole that it repeats in every chunk."""

    _slots: dict[Any, _Slot] = field(default_factory=dict, init=False)
    _parts: int = field(default=0, init=False)

    def _map_tool_call_delta(self, choice: chat_completion_chunk.Choice) -> Iterable[ModelResponseStreamEvent]:
        for piece in choice.delta.tool_calls or ():
            self._sort(piece)
        return super()._map_tool_call_delta(choice)

    def _sort(self, piece: ChoiceDeltaToolCall) -> None:
        slot = self._slots.get(piece.index)
        if slot is None or _begins_another(slot, piece):
            slot = self._slots[piece.index] = _Slot(self._parts, id=piece.id or "")
            self._parts += 1
        piece.index = slot.part
        piece.id = slot.id = slot.id or piece.id or ""
        function = piece.function
        if function is None:
            return
        if function.name and function.name == slot.name:
            function.name = None
        slot.name += function.name or ""
        if function.arguments:
            slot.arguments.append(function.arguments)


def _begins_another(slot: _Slot, piece: ChoiceDeltaToolCall) -> bool:
    """Whether a piece at a known index belongs to a new call. Only a piece with a name can begin one."""
    function = piece.function
    if function is None or not function.name:
        return False
    if piece.id and slot.id:
        return piece.id != slot.id
    if not slot.arguments:
        return False
    return function.name != slot.name or (bool(function.arguments) and _is_whole("".join(slot.arguments)))


def _is_whole(arguments: str) -> bool:
    if not arguments.rstrip().endswith("}"):
        return False
    try:
        json.loads(arguments)
    except ValueError:
        return False
    return True


class ChatModel(OpenAIChatModel):
    """Chat completions with the stream above."""

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return ChatStream
