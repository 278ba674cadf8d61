"""What of a call one viewer may see (T26): whole for those who may decide it, else sensitive fields hidden."""

from __future__ import annotations

from typing import Any

from allm_django import access
from allm_django.core.encode import MASK, mask
from allm_django.models import ToolCall


def sensitive_of(call: ToolCall) -> list[str]:
    """The sensitive fields of the tool as it was when the call was made."""
    return list(call.tool_version.data.get("sensitive", ())) if call.tool_version else []


def may_see_all(viewer: access.Person, call: ToolCall) -> bool:
    """Whether nothing is hidden from ``viewer``."""
    return not sensitive_of(call) or access.may_decide(viewer, call)


def arguments_of(call: ToolCall, *, clear: bool) -> Any:
    """The arguments; those that could not be parsed as the model wrote them."""
    value = call.arguments if call.arguments is not None else call.raw_arguments
    return masked(value, call, clear=clear)


def masked(value: Any, call: ToolCall, *, clear: bool) -> Any:
    """``value`` (arguments, or text that should have been some) with sensitive fields hidden unless ``clear``."""
    return value if clear else mask(value, sensitive_of(call))


def written(call: ToolCall, *, clear: bool) -> str:
    """The arguments as the model wrote them: text, so hidden whole."""
    return call.raw_arguments if clear or not sensitive_of(call) else MASK
