"""Let a language model call a Django project's tools, with people in charge.

The public names, imported when first used, so that ``django.setup()`` stays fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allm_django.core.history import assistant, rejection, system, tool_result, user
    from allm_django.core.plans import Plan, Step
    from allm_django.core.results import AskUser, Halt
    from allm_django.core.rules import RuleSpec
    from allm_django.core.streaks import Used
    from allm_django.core.types import EngineSpec, Limits, Message, ToolCall, ToolSpec, Usage
    from allm_django.errors import AllmError, ToolError
    from allm_django.loop.api import achat, astep, astream, chat, step, stream
    from allm_django.loop.results import ChatResult, StepResult, fold
    from allm_django.tools.context import ToolContext
    from allm_django.tools.recipes import recipe
    from allm_django.tools.registry import register, tool
    from allm_django.tools.resolvers import Resolver

__version__ = "0.1.0"

_HOMES = {
    "core.history": ("assistant", "rejection", "system", "tool_result", "user"),
    "core.plans": ("Plan", "Step"),
    "core.results": ("AskUser", "Halt"),
    "core.rules": ("RuleSpec",),
    "core.streaks": ("Used",),
    "core.types": ("EngineSpec", "Limits", "Message", "ToolCall", "ToolSpec", "Usage"),
    "errors": ("AllmError", "ToolError"),
    "loop.api": ("achat", "astep", "astream", "chat", "step", "stream"),
    "loop.results": ("ChatResult", "StepResult", "fold"),
    "tools.context": ("ToolContext",),
    "tools.recipes": ("recipe",),
    "tools.registry": ("register", "tool"),
    "tools.resolvers": ("Resolver",),
}
_WHERE = {name: f"allm_django.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "AllmError",
    "AskUser",
    "ChatResult",
    "EngineSpec",
    "Halt",
    "Limits",
    "Message",
    "Plan",
    "Resolver",
    "RuleSpec",
    "Step",
    "StepResult",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolSpec",
    "Usage",
    "Used",
    "achat",
    "assistant",
    "astep",
    "astream",
    "chat",
    "fold",
    "recipe",
    "register",
    "rejection",
    "step",
    "stream",
    "system",
    "tool",
    "tool_result",
    "user",
]


class _Package(ModuleType):
    """Keeps ``allm_django.chat`` the function when the page's package of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _WHERE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Import a public name from its home, once."""
    if name not in _WHERE:
        raise AttributeError(f"module 'allm_django' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
