"""One answer in the words of any provider, as it streams it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.integration.providers.server import chat, chat_call, claude, gemini, sse

Call = tuple[str, str, str]  # name, arguments as text, the provider's id


def spoken(kind: str, text: str = "", calls: Sequence[Call] = (), *, whole: bool = True) -> list[bytes]:
    """A streamed answer; those of Claude and Gemini think first. Not ``whole``: it ends without its finish reason."""
    return {"openai": _openai, "anthropic": _anthropic, "google": _google}[kind](text, calls, whole)


def _openai(text: str, calls: Sequence[Call], whole: bool) -> list[bytes]:
    pieces = [chat({"role": "assistant", "content": None}), *([chat({"content": text})] if text else [])]
    pieces += [chat_call(given, name=name, id=id, index=place) for place, (name, given, id) in enumerate(calls)]
    end = [chat({}, "tool_calls" if calls else "stop")] if whole else []
    return sse(*pieces, *end, done=whole)


def _anthropic(text: str, calls: Sequence[Call], whole: bool) -> list[bytes]:
    def block(kind: str, delta: dict[str, Any], **start: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return {"type": kind, **start}, [delta]

    blocks = [block("thinking", {"type": "signature_delta", "signature": "signed=="}, thinking="Hm.", signature="")]
    blocks += [block("text", {"type": "text_delta", "text": text}, text="")] if text else []
    for name, given, id in calls:
        delta = {"type": "input_json_delta", "partial_json": given}
        blocks.append(block("tool_use", delta, id=id, name=name, input={}))
    return claude(*blocks, stop=("tool_use" if calls else "end_turn") if whole else None)


def _google(text: str, calls: Sequence[Call], whole: bool) -> list[bytes]:
    parts: list[dict[str, Any]] = [{"text": "Hm.", "thought": True}, *([{"text": text}] if text else [])]
    parts += [
        {"functionCall": {"name": name, "args": _object(given)}, "thoughtSignature": "c2lnbmVk"}
        for name, given, _ in calls
    ]
    return sse(gemini(*parts, finish="STOP" if whole else None))


def _object(given: str) -> dict[str, Any]:
    """Gemini gives arguments parsed, so what is not an object never comes that way."""
    try:
        found = json.loads(given)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"n": "wrong"}
