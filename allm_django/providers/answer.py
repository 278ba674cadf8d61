"""The library's stream in our words: deltas, and the end. Imported only when a real provider is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic_ai import messages as lib
from pydantic_ai.usage import RequestUsage

from allm_django.core.types import JSONObject, Usage
from allm_django.core.usage import decimal
from allm_django.providers.base import CallDelta, Delta, Finished, RawCall, TextDelta, ThinkingDelta


class Reader:
    """Turns the library's events into deltas, one by one."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}  # the library's part index -> our call index

    def delta(self, event: Any) -> Delta | None:
        """The delta in an event, if there is one."""
        if type(event) is lib.PartDeltaEvent:
            piece = event.delta
            if type(piece) is lib.TextPartDelta:
                return TextDelta(piece.content_delta) if piece.content_delta else None
            return self._other_piece(event.index, piece)
        if isinstance(event, lib.PartStartEvent):
            return self._start(event.index, event.part)
        return None

    def _other_piece(self, index: int, piece: object) -> Delta | None:
        if isinstance(piece, lib.ThinkingPartDelta):
            return ThinkingDelta(piece.content_delta) if piece.content_delta else None
        if isinstance(piece, lib.ToolCallPartDelta):
            arguments = piece.args_delta if isinstance(piece.args_delta, str) else ""
            name = piece.tool_name_delta or ""
            return CallDelta(self._calls[index], piece.tool_call_id or "", name, arguments)
        return None

    def _start(self, index: int, part: object) -> Delta | None:
        if isinstance(part, lib.TextPart):
            return TextDelta(part.content) if part.content else None
        if isinstance(part, lib.ThinkingPart):
            return ThinkingDelta(part.content) if part.content else None
        if isinstance(part, lib.ToolCallPart):
            number = self._calls.setdefault(index, len(self._calls))
            return CallDelta(number, part.tool_call_id, part.tool_name, arguments_text(part.args))
        return None


def arguments_text(arguments: str | Mapping[str, Any] | None) -> str:
    """Arguments as text: as the model wrote them, or as JSON where the provider has parsed them already."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def finish_reason(response: lib.ModelResponse) -> str:
    """Why the answer ended, in the provider's own word; "" = it did not say, so the stream broke off."""
    raw = (response.provider_details or {}).get("finish_reason")
    return str(raw or response.finish_reason or "")


def refusal(response: lib.ModelResponse) -> str:
    """The text of a refusal that came beside the answer, if it is all there is."""
    text = (response.provider_details or {}).get("refusal")
    return text if isinstance(text, str) and not response.parts else ""


def to_finished(response: lib.ModelResponse, provider: str, model: str) -> Finished:
    """The end of a complete answer."""
    return Finished(
        text="".join(p.content for p in response.parts if isinstance(p, lib.TextPart)) or refusal(response),
        thinking="".join(p.content for p in response.parts if isinstance(p, lib.ThinkingPart)),
        calls=tuple(
            RawCall(p.tool_call_id, p.tool_name, arguments_text(p.args))
            for p in response.parts
            if isinstance(p, lib.ToolCallPart)
        ),
        usage=to_usage(response),
        finish_reason=finish_reason(response),
        dump={"provider": provider, "model": model, "message": _dump(response)},
    )


def _dump(response: lib.ModelResponse) -> JSONObject:
    dumped: list[JSONObject] = lib.ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)
    return dumped[0]


def to_usage(response: lib.ModelResponse) -> Usage:
    """What the provider counted. The library has 0 for "did not say"; we keep the difference (L09)."""
    counted = response.usage
    if counted.unmeasured_requests or not (counted.input_tokens or counted.output_tokens):
        return Usage()
    return Usage(
        input_tokens=counted.input_tokens,
        output_tokens=counted.output_tokens,
        cached_tokens=_known(counted, counted.cache_read_tokens, "cached_tokens", "cache_read_input_tokens"),
        reasoning_tokens=_known(counted, counted.output_reasoning_tokens, "reasoning_tokens", "thoughts_tokens"),
        cost=_cost(response),
    )


def _known(counted: RequestUsage, figure: int, *names: str) -> int | None:
    told = [counted.details[name] for name in names if name in counted.details]
    return figure or (told[0] if told else None)


def _cost(response: lib.ModelResponse) -> Decimal | None:
    """In US dollars: the provider's own figure, else by the price list that comes with the library (genai-prices).

    None for a model that is not in the list, or where there is no list (L09).
    """
    if response.usage.cost is not None:
        return decimal(float(response.usage.cost))
    try:
        return response.cost().total_price
    except (ImportError, LookupError, ValueError, AssertionError):
        return None
