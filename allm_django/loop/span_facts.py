"""What spans tell of runs, answers and failures, under the conventions' names (L19). Imported as ``spans`` is."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import Span, Status, StatusCode

from allm_django.core.types import Usage
from allm_django.loop.about import About
from allm_django.providers.base import Finished

PROVIDERS = {"openai-responses": "openai", "google": "gcp.gemini"}  # our prefix → the conventions' name, if another
PARAMS = ("temperature", "max_tokens", "top_p", "seed")
USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
OTHER = "_OTHER"  # the conventions' word for an error without a name


def common(about: About) -> dict[str, str]:
    """What every span of a run has."""
    found = {"gen_ai.conversation.id": about.session_id, "allm.request_id": about.request_id}
    return {name: value for name, value in found.items() if value}


def usage(used: Usage) -> dict[str, int]:
    """The figures that are known."""
    return {name: value for figure, name in USAGE.items() if (value := getattr(used, figure)) is not None}


def answer(finished: Finished) -> dict[str, Any]:
    """What is told of an answer of a model."""
    attributes: dict[str, Any] = dict(usage(finished.usage))
    if finished.finish_reason:
        attributes["gen_ai.response.finish_reasons"] = [finished.finish_reason]
    if finished.dump and isinstance(model := finished.dump.get("model"), str):
        attributes["gen_ai.response.model"] = model
    return attributes


def fail(span: Span, error_type: str) -> None:
    """Mark a span as failed, by a code or an exception's name."""
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))
