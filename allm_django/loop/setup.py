"""What one stateless run is made of."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from allm_django.core.output import Output
from allm_django.core.policy import Offer
from allm_django.core.streaks import Used
from allm_django.core.types import JSONObject, Limits, Message, ToolSpec


@dataclass(frozen=True, slots=True)
class Setup:
    """What one stateless run is made of, checked and resolved."""

    messages: tuple[Message, ...]
    offer: Offer
    limits: Limits
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    system: str = ""
    tool_choice: str = "auto"
    params: JSONObject = field(default_factory=dict)
    context: Any = None
    engine: str = ""
    asks_halt_when: bool = False
    used: Used = field(default_factory=Used)
    output: Output | None = None
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)
