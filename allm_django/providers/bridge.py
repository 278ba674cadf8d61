"""Where the adapter meets the library. Importing this imports pydantic-ai: only the first stream does so."""

from __future__ import annotations

import importlib
from contextlib import AbstractAsyncContextManager
from functools import partial
from hashlib import sha256
from typing import Any

from pydantic_ai import direct
from pydantic_ai.models import Model, StreamedResponse

from allm_django.core.types import ModelRequest
from allm_django.errors import StreamBrokenError
from allm_django.providers.answer import Reader, finish_reason, refusal, to_finished
from allm_django.providers.base import Finished
from allm_django.providers.failures import to_error
from allm_django.providers.history import has_late_system_text, to_messages, to_parameters, to_settings
from allm_django.providers.http import ended_on_leaving, home

__all__ = ["Reader", "build_model", "finish", "open_stream", "refusal", "to_error", "usable_model"]


async def usable_model(builder: str, name: str, key: str, base_url: str | None) -> Model[Any]:
    """The library's model for the running loop; ``builder`` is ``"module:function"`` in this package."""
    here = await home()
    identity = (builder, name, base_url, sha256(key.encode()).digest())
    model: Model[Any] = await here.model(identity, partial(build_model, builder, name, key, base_url, here.client))
    return model


def build_model(builder: str, *arguments: Any) -> Any:
    """The library's model, from ``"module:function"`` in this package and what it takes."""
    module, _, function = builder.partition(":")
    return getattr(importlib.import_module(f"allm_django.providers.{module}"), function)(*arguments)


def open_stream(
    model: Model[Any], request: ModelRequest, provider: str
) -> AbstractAsyncContextManager[StreamedResponse]:
    """Send the request; leaving the context ends it at the provider."""
    parameters = to_parameters(request, provider)
    messages = to_messages(request, provider)
    if has_late_system_text(messages):
        messages = model.prepare_messages(messages, parameters)
    return ended_on_leaving(
        direct.model_request_stream(
            model,
            messages,
            model_settings=to_settings(request, model),
            model_request_parameters=parameters,
            instrument=False,
        )
    )


def finish(stream: StreamedResponse, provider: str, model: str) -> Finished:
    """The end of a stream that was read to its end. Raises StreamBrokenError if the answer is not complete."""
    response = stream.get()
    if response.state != "complete" or not finish_reason(response):
        raise StreamBrokenError(
            f"The answer of {provider} broke off: it ended without a finish reason.", retryable=not response.parts
        )
    return to_finished(response, provider, model)
