"""What was said and done, as attributes of spans, for whoever switched that on; sensitive fields masked (T26)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from allm_django.core.arguments import parse_arguments
from allm_django.core.encode import MASK, mask, to_text
from allm_django.core.types import JSON, JSONObject, Message, ModelRequest
from allm_django.loop.journal import StartedCall
from allm_django.providers.base import Finished

Sensitive = Mapping[str, tuple[str, ...]]  # of each tool on offer


def of_request(request: ModelRequest) -> dict[str, str]:
    """What the model is sent."""
    sensitive = _sensitive(request)
    attributes = {"gen_ai.input.messages": _dump([_message(message, sensitive) for message in request.messages])}
    if request.system:
        attributes["gen_ai.system_instructions"] = _dump([_text(request.system)])
    return attributes


def of_answer(finished: Finished, request: ModelRequest) -> dict[str, str]:
    """What it answered."""
    sensitive = _sensitive(request)
    parts = [_text(finished.text)] if finished.text else []
    for raw in finished.calls:
        parts.append(_call(raw.id, raw.name, parse_arguments(raw.arguments)[0], sensitive))
    return {
        "gen_ai.output.messages": _dump(
            [{"role": "assistant", "parts": parts, "finish_reason": finished.finish_reason or "stop"}]
        )
    }


def of_call(started: StartedCall) -> dict[str, str]:
    """What a handler is given."""
    return {"gen_ai.tool.call.arguments": to_text(mask(started.call.arguments or {}, started.sensitive))}


def _sensitive(request: ModelRequest) -> Sensitive:
    return {tool.name: tool.sensitive for tool in request.tools}


def _message(message: Message, sensitive: Sensitive) -> JSONObject:
    if message.role == "tool":
        response = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
        return {"role": "tool", "parts": [response]}
    parts = [_text(message.content)] if message.content else []
    parts += [_call(call.id, call.name, call.arguments, sensitive) for call in message.calls]
    return {"role": message.role, "parts": parts}


def _call(id: str, name: str, arguments: JSON, sensitive: Sensitive) -> JSONObject:
    """A call; of a tool that is not on offer, or whose arguments can't be read, nobody knows what is sensitive."""
    known = arguments is not None and name in sensitive
    return {
        "type": "tool_call",
        "id": id,
        "name": name,
        "arguments": mask(arguments, sensitive[name]) if known else MASK,
    }


def _text(text: str) -> JSONObject:
    return {"type": "text", "content": text}


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
