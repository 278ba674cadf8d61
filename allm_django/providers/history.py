"""Our request in the library's words: messages, tools, settings. Imported only when a real provider is used."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

from pydantic import ValidationError
from pydantic_ai import messages as lib
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from allm_django.core.ids import sendable_name
from allm_django.core.types import JSONObject, Message, ModelRequest, ToolSpec
from allm_django.errors import InvalidInputError
from allm_django.providers.params import DEFAULT_STALL_TIMEOUT

FORMATTING = frozenset({"openai", "openai-responses"})  # take a form beside tools; the others are asked in words
_SETTING_NAMES = {"stop": "stop_sequences"}


def to_settings(request: ModelRequest, model: Model[Any]) -> ModelSettings:
    """The settings of the call. Raises InvalidInputError for a parameter or tool choice that cannot be kept.

    The library's and the SDK's own retries are off: the loop retries, and only before the first delta (L14).
    """
    settings: dict[str, Any] = {"max_retries": 0, "timeout": DEFAULT_STALL_TIMEOUT}
    for name, value in request.params.items():
        setting = _SETTING_NAMES.get(name, name)
        if setting in model.unsupported_settings:
            raise InvalidInputError(
                f"params.{name}: {model.system} does not know this parameter; leave it out.", field=f"params.{name}"
            )
        settings[setting] = [value] if setting == "stop_sequences" and isinstance(value, str) else value
    if request.tools:
        settings["tool_choice"] = _tool_choice(request.tool_choice, request.tools)
    elif request.tool_choice not in ("auto", "none"):
        raise InvalidInputError("tool_choice: no tools are offered, so none can be required.", field="tool_choice")
    return cast(ModelSettings, settings)


def _tool_choice(choice: str, tools: Sequence[ToolSpec]) -> str | list[str]:
    if choice in ("auto", "none", "required"):
        return choice
    names = [tool.name for tool in tools]
    if choice not in names:
        raise InvalidInputError(
            f"tool_choice: {choice!r} is neither auto, none, required nor one of {', '.join(names)}.",
            field="tool_choice",
        )
    return [choice]


def to_parameters(request: ModelRequest, provider: str = "") -> ModelRequestParameters:
    """The tools on offer, and the form of the answer (L13). ``strict=False`` leaves their schemas as they are."""
    parameters = ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=deepcopy(tool.schema), strict=False
            )
            for tool in request.tools
        ]
    )
    if request.response_schema is None or provider not in FORMATTING:
        return parameters
    form = OutputObjectDefinition(deepcopy(request.response_schema), name="answer", strict=False)
    return replace(parameters, output_mode="native", output_object=form)


def to_messages(request: ModelRequest, provider: str) -> list[lib.ModelMessage]:
    """The history. An assistant message that ``provider`` wrote is replayed whole (signatures, its own ids)."""
    history: list[lib.ModelMessage] = []
    names: dict[str, str] = {}
    waiting: list[lib.ModelRequestPart] = [lib.SystemPromptPart(request.system)] if request.system else []
    for message in request.messages:
        if message.role != "assistant":
            waiting.append(_to_part(message, names))
            continue
        if waiting:
            history.append(lib.ModelRequest(parts=waiting))
            waiting = []
        names.update((call.id, sendable_name(call.name)) for call in message.calls)
        history.append(_to_response(message, provider))
    if waiting:
        history.append(lib.ModelRequest(parts=waiting))
    return history


def has_late_system_text(history: Iterable[lib.ModelMessage]) -> bool:
    """Whether a system message comes after the beginning: not every provider has a place for it."""
    parts = [part for message in history for part in message.parts]
    started = False
    for part in parts:
        is_system = isinstance(part, lib.SystemPromptPart)
        if is_system and started:
            return True
        started = started or not is_system
    return False


def _to_part(message: Message, names: dict[str, str]) -> lib.ModelRequestPart:
    if message.role == "system":
        return lib.SystemPromptPart(message.content)
    if message.role == "user":
        return lib.UserPromptPart(message.content)
    id = message.tool_call_id or ""
    return lib.ToolReturnPart(
        tool_name=names.get(id, ""),
        content=message.content,
        tool_call_id=id,
        outcome="failed" if message.is_error else "success",
    )


def _to_response(message: Message, provider: str) -> lib.ModelResponse:
    kept = _own_words(message, provider)
    if kept is not None:
        return kept
    parts: list[lib.ModelResponsePart] = [lib.TextPart(message.content)] if message.content.strip() else []
    for call in message.calls:
        arguments = call.raw if call.arguments is None or call.raw else json.dumps(call.arguments, ensure_ascii=False)
        parts.append(lib.ToolCallPart(sendable_name(call.name), arguments, tool_call_id=call.id))
    return lib.ModelResponse(parts=parts)


def _own_words(message: Message, provider: str) -> lib.ModelResponse | None:
    """The kept message with our call ids, or None: another provider's thinking would be replayed as visible text."""
    dump = message.dump
    if not dump or dump.get("provider") != provider:
        return None
    kept = dump.get("message")
    if not isinstance(kept, dict) or not isinstance(kept.get("parts"), list):
        return None
    kept = {
        **kept,
        "parts": [dict(part) if isinstance(part, dict) else part for part in kept["parts"] if not _blank(part)],
    }
    calls = list(_call_parts(kept))
    if len(calls) != len(message.calls):
        return None
    for part, call in zip(calls, message.calls, strict=True):
        part["tool_call_id"], part["tool_name"] = call.id, sendable_name(call.name)
    try:
        (response,) = lib.ModelMessagesTypeAdapter.validate_python([kept])
    except ValidationError:
        return None  # an older or a damaged row: the neutral form still says what was said
    return response if isinstance(response, lib.ModelResponse) else None


def _call_parts(kept: JSONObject) -> Iterator[JSONObject]:
    return (part for part in kept["parts"] if isinstance(part, dict) and part.get("part_kind") == "tool-call")


def _blank(part: Any) -> bool:
    """A text of nothing but space: a model may write it, and no provider takes it back."""
    return isinstance(part, dict) and part.get("part_kind") == "text" and not str(part.get("content", "")).strip()
