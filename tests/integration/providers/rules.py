"""What each provider refuses with a 400: its rules for a history, as checks of the body of a request (S06)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

JSON = dict[str, Any]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CLAUDE_ID = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_OPENAI_ID = 40


class RefusedError(AssertionError):
    """The provider would refuse this request."""


def refuse(wrong: object, words: str, what: object = "") -> None:
    """Raise if ``wrong``."""
    if wrong:
        raise RefusedError(f"{words}: {what}" if what != "" else words)


def blank(text: object) -> bool:
    """Neither a text with something in it nor anything else."""
    return not isinstance(text, str) or not text.strip()


def openai(body: JSON) -> None:
    """Chat completions: each call answered once, right after its message; ids unique; nothing empty."""
    seen: set[str] = set()
    due: list[str] = []
    roles = [message["role"] for message in body["messages"]]
    refuse(set(roles) - {"system", "user", "assistant", "tool"}, "unknown role", roles)
    refuse("system" in roles[1:], "system message after the beginning")
    refuse(roles[-1] not in ("user", "tool"), "nothing to answer", roles[-1])
    for message in body["messages"]:
        if message["role"] == "tool":
            refuse(message["tool_call_id"] not in due, "result without its call", message)
            due.remove(message["tool_call_id"])
            refuse(not isinstance(message["content"], str), "result is no text", message)
            continue
        refuse(due, "call without a result right after its message", due)
        calls = message.get("tool_calls") or []
        refuse(not calls and blank(message.get("content")), "empty content", message)
        refuse(message.get("content") == "", "empty content beside calls", message)
        due = [call["id"] for call in calls]
        _check_openai_calls(calls)
        _check_unique(due, seen)
    refuse(due, "call without a result", due)


def _check_openai_calls(calls: Iterable[JSON]) -> None:
    for call in calls:
        refuse(not 0 < len(call["id"]) <= LONGEST_OPENAI_ID, "id too long or empty", call)
        refuse(not NAME.fullmatch(call["function"]["name"]), "not a function's name", call)
        refuse(not isinstance(call["function"]["arguments"], str), "arguments are no text", call)


def anthropic(body: JSON) -> None:
    """Messages: user first, roles alternate, results first in the very next user message, signatures in place."""
    messages: list[JSON] = body["messages"]
    roles = [message["role"] for message in messages]
    refuse(roles[:1] != ["user"], "the first message is not a user's", roles[:1])
    refuse(roles[-1] != "user", "nothing to answer", roles[-1])
    wanted = [("user", "assistant")[place % 2] for place in range(len(roles))]
    refuse(roles != wanted, "roles do not alternate", roles)
    seen: set[str] = set()
    due: list[str] = []
    for message in messages:
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        refuse(not blocks, "message without content", message)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        refuse(sorted(results) != sorted(due), "results are not those of the calls before", (due, results))
        first = [block["type"] for block in blocks[: len(results)]]
        refuse(set(first) - {"tool_result"}, "results are not first in their message", first)
        due = [block["id"] for block in blocks if block["type"] == "tool_use"]
        refuse(due and message["role"] != "assistant", "calls of a user")
        _check_unique(due, seen)
        for block in blocks:
            _check_claude_block(block)
    refuse(due, "call without a result", due)


def _check_claude_block(block: JSON) -> None:
    kind = block["type"]
    refuse(kind == "text" and blank(block["text"]), "empty text block")
    if kind == "tool_use":
        refuse(not CLAUDE_ID.fullmatch(block["id"]), "id is not of [a-zA-Z0-9_-]", block["id"])
        refuse(not NAME.fullmatch(block["name"]), "not a tool's name", block["name"])
        refuse(not isinstance(block["input"], dict), "input is no object", block["input"])
    refuse(kind == "thinking" and not block.get("signature"), "thinking without its signature", block)


def google(body: JSON) -> None:
    """Contents: user first and last, as many responses as calls in the very next content, of the same names.

    Two contents of one role in a row are allowed: the library puts what a person writes after responses into its own.
    """
    contents: list[JSON] = body["contents"]
    roles = [content["role"] for content in contents]
    refuse(set(roles) - {"user", "model"}, "unknown role", roles)
    refuse((roles[0], roles[-1]) != ("user", "user"), "neither begins nor ends with the user", roles)
    due: list[str] = []
    for content in contents:
        parts = content["parts"]
        refuse(not parts, "content without parts", content)
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        refuse([answer["name"] for answer in answers] != due, "responses are not those of the calls before", answers)
        refuse(not all(isinstance(answer["response"], dict) for answer in answers), "response is no object", answers)
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        due = [call["name"] for call in calls]
        refuse(not all(NAME.fullmatch(name) for name in due), "not a function's name", due)
        refuse(not all(isinstance(call.get("args", {}), dict) for call in calls), "args are no object", calls)
        refuse(due and content["role"] != "model", "calls of a user", due)
        refuse(any("text" in part and not part["text"] for part in parts), "empty text", parts)
        refuse(any(not set(part) - {"thought", "thoughtSignature"} for part in parts), "part without data", parts)
    refuse(due, "call without a response", due)


RULES: dict[str, Callable[[JSON], None]] = {"openai": openai, "anthropic": anthropic, "google": google}


def _check_unique(ids: list[str], seen: set[str]) -> None:
    for id in ids:
        refuse(id in seen, "an id twice in the request", id)
        seen.add(id)
