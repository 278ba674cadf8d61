"""What the tests of all providers share: asking, and reading an answer to its end."""

from __future__ import annotations

from typing import Any

from allm_django.core.types import Message, ModelRequest, ToolCall, ToolSpec
from allm_django.providers.assembly import Assembly
from allm_django.providers.base import Delta, Finished, Model
from allm_django.providers.resolve import resolve_model
from tests.integration.providers.server import Server

KEY = "sk-topsecret-0123456789abcdef"
LOOK = ToolSpec(
    "look",
    "Look it up",
    {
        "type": "object",
        "title": "Look",
        "properties": {"q": {"type": "string", "title": "Q", "maxLength": 9}, "n": {"type": "integer"}},
        "required": ["q"],
    },
)
SAVE = ToolSpec("save", "Save it", {"type": "object", "properties": {}})
NAMES = {
    "openai": "gpt-4o",
    "openai-responses": "gpt-4o",
    "compatible": "local",
    "anthropic": "claude-test",
    "google": "gemini-2.5-flash",
}
PATHS = {"openai": "/v1", "openai-responses": "/v1", "compatible": "/v1"}


def model_at(server: Server, kind: str, **options: Any) -> Model:
    """A model of that kind whose provider is the test's server."""
    options = {"keys": {kind: KEY}, "base_url": server.url + PATHS.get(kind, "")} | options
    return resolve_model(f"{kind}:{NAMES[kind]}", **options)


def request(*messages: Message, **more: Any) -> ModelRequest:
    """A request; by default one user message, with the two tools."""
    return ModelRequest(messages or (Message("user", "hi"),), **{"tools": (LOOK, SAVE), **more})


async def read(model: Model, asked: ModelRequest | None = None) -> Finished:
    """The end of the answer, after checking that its deltas add up to it."""
    deltas: list[Delta] = [delta async for delta in model.stream(asked or request())]
    *pieces, end = deltas
    assert isinstance(end, Finished)
    partial = Assembly(pieces)
    assert (partial.text, partial.thinking, partial.calls) == (end.text, end.thinking, end.calls)
    return end


def said(end: Finished, *ids: str) -> Message:
    """The answer as a message of the history, its calls under our own ids."""
    calls = tuple(ToolCall(id, call.name, None, call.arguments) for id, call in zip(ids, end.calls, strict=True))
    return Message("assistant", end.text, calls, dump=end.dump, thinking=end.thinking)


def result(id: str, content: str, *, is_error: bool = False) -> Message:
    """The result of a call."""
    return Message("tool", content, tool_call_id=id, is_error=is_error)
