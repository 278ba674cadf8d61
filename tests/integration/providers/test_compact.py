"""What real providers are sent of compact tools (T22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from allm_django.core.compact import shown
from allm_django.errors import ProviderError
from tests.integration.providers.reading import LOOK, SAVE, model_at, read, request
from tests.integration.providers.server import Server

pytestmark = [pytest.mark.row("T22"), pytest.mark.asyncio]


def functions(kind: str, body: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Names and schemas of the tools in a request's body."""
    if kind == "google":
        (only,) = body["tools"]
        declared = only["functionDeclarations"]
        return [{"name": tool["name"], "schema": tool["parameters_json_schema"]} for tool in declared]
    if kind == "anthropic":
        return [{"name": tool["name"], "schema": tool["input_schema"]} for tool in body["tools"]]
    tools = [tool.get("function", tool) for tool in body["tools"]]
    return [{"name": tool["name"], "schema": tool["parameters"]} for tool in tools]


@pytest.mark.parametrize("kind", ["openai", "openai-responses", "compatible", "anthropic", "google"])
async def test_the_names_of_a_compact_tools_arguments_reach_every_provider(server: Server, kind: str) -> None:
    server.answer([])
    with pytest.raises(ProviderError):
        await read(model_at(server, kind), request(tools=shown([replace(LOOK, compact=True), SAVE])))
    look, save, help = functions(kind, server.seen[0].json)
    assert (look["name"], save["name"], help["name"]) == ("look", "save", "tool_help")
    assert list(look["schema"]["properties"]) == ["q", "n"]
    assert "required" not in look["schema"]
    assert help["schema"]["required"] == ["names"]
