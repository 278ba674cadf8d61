"""Spans under OpenTelemetry's names for generative AI. Imported only where the host program uses OpenTelemetry (L19).

Spans hold names, numbers and codes; never a message of an error, which may hold anything. Arguments, results and
messages only where ``environment.telemetry_content`` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import ProxyTracerProvider, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from allm_django.core.decide import HaltRun
from allm_django.core.settle import Settlement
from allm_django.core.states import CallState, HaltedReason
from allm_django.core.types import ModelRequest, Usage
from allm_django.errors import AllmError
from allm_django.loop import span_content
from allm_django.loop.about import About
from allm_django.loop.environment import environment
from allm_django.loop.journal import StartedCall
from allm_django.loop.telemetry import Done, Spans
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
_propagator = TraceContextTextMapPropagator()


def is_set_up() -> bool:
    """Whether there is anybody to take spans."""
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


def begin_trace(about: About) -> str:
    """A span of the queueing itself, in the caller's trace or a new one: its ``traceparent``."""
    span = _tracer().start_span("queue_run", kind=SpanKind.PRODUCER, attributes=_common(about))
    span.end()
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span))
    return carrier.get("traceparent", "")


class Recorded(Spans):
    """The spans of one drive: ``invoke_agent`` holds ``step``, which holds ``chat`` and ``execute_tool``."""

    def __init__(self, about: About, model_id: str) -> None:
        self._tracer = _tracer()
        self._about = about
        self._content = environment.telemetry_content()
        provider, _, self._model = model_id.partition(":")
        self._asked = {
            "gen_ai.provider.name": PROVIDERS.get(provider, provider),
            "gen_ai.request.model": self._model,
        }
        self._step: Span | None = None
        self._inside: Context | None = None  # the step's, else the drive's
        self._usage = Usage()
        self._error = ""

    @contextmanager
    def drive(self) -> Iterator[Done]:
        """The whole drive. Those of one stored run are in one trace, whoever drives them."""
        about, parent = self._about, None
        if about.traceparent is not None:
            parent = _propagator.extract({"traceparent": about.traceparent}, Context())
        names = {"gen_ai.agent.name": about.engine} if about.engine else {}
        with self._span("invoke_agent", about.engine, {**self._asked, **names}, parent=parent) as span:
            self._drive = self._inside = trace.set_span_in_context(span, parent)

            def done(halt: HaltRun | None) -> None:
                span.set_attribute("allm.halted_reason", halt.reason if halt else "stopped")
                if halt is not None and halt.reason == HaltedReason.ERROR:
                    _fail(span, self._error or OTHER)

            try:
                yield done
            finally:
                span.set_attributes(_usage(self._usage))
                self._end_step()

    def begin_step(self) -> None:
        """End the step before, if there is one, and begin the next."""
        self._end_step()
        self._step = self._tracer.start_span("step", self._drive, attributes=_common(self._about))
        self._inside = trace.set_span_in_context(self._step, self._drive)

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.end()
            self._step, self._inside = None, self._drive

    @contextmanager
    def model_call(self, request: ModelRequest) -> Iterator[Done]:
        """One answer of the model, retries before its first word included."""
        given = {f"gen_ai.request.{name}": request.params[name] for name in PARAMS if name in request.params}
        numbers = {name: value for name, value in given.items() if isinstance(value, (int, float))}
        attributes = {**self._asked, **numbers}
        with self._span("chat", self._model, attributes, parent=self._inside, kind=SpanKind.CLIENT) as span:
            if self._content:
                span.set_attributes(span_content.of_request(request))

            def done(finished: Finished | None, error: AllmError | None) -> None:
                if error is not None:
                    self._error = error.code
                    _fail(span, error.code)
                elif finished is not None:
                    self._usage += finished.usage
                    span.set_attributes(_answer(finished))
                    if self._content:
                        span.set_attributes(span_content.of_answer(finished, request))
                else:
                    span.set_attribute("allm.cancelled", True)

            yield done

    @contextmanager
    def tool_call(self, started: StartedCall) -> Iterator[Done]:
        """One run of a handler."""
        if self._step is None:  # it was let through after a halt
            self.begin_step()
        call = started.call
        attributes = {"gen_ai.tool.name": call.name, "gen_ai.tool.call.id": call.id, "gen_ai.tool.type": "function"}
        with self._span("execute_tool", call.name, attributes, parent=self._inside) as span:
            if self._content:
                span.set_attributes(span_content.of_call(started))

            def done(settlement: Settlement) -> None:
                result = settlement.result
                span.set_attribute("allm.outcome", str(settlement.outcome or settlement.state))
                if settlement.state is CallState.UNKNOWN or (result is not None and result.is_error):
                    _fail(span, result.code if result else str(settlement.state))
                if self._content and result is not None:
                    span.set_attribute("gen_ai.tool.call.result", result.content)

            yield done

    @contextmanager
    def _span(
        self,
        operation: str,
        of: str,
        attributes: Mapping[str, Any],
        *,
        parent: Context | None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Iterator[Span]:
        named = {"gen_ai.operation.name": operation, **_common(self._about), **attributes}
        span = self._tracer.start_span(f"{operation} {of}".rstrip(), parent, kind, named)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        except asyncio.CancelledError:
            span.set_attribute("allm.cancelled", True)
            raise
        except BaseException as error:
            _fail(span, error.code if isinstance(error, AllmError) else type(error).__qualname__)
            raise
        finally:
            span.end()


def _tracer() -> Tracer:
    return trace.get_tracer_provider().get_tracer("allm_django")


def _common(about: About) -> dict[str, str]:
    found = {"gen_ai.conversation.id": about.session_id, "allm.request_id": about.request_id}
    return {name: value for name, value in found.items() if value}


def _usage(usage: Usage) -> dict[str, int]:
    return {name: value for figure, name in USAGE.items() if (value := getattr(usage, figure)) is not None}


def _answer(finished: Finished) -> dict[str, Any]:
    attributes: dict[str, Any] = dict(_usage(finished.usage))
    if finished.finish_reason:
        attributes["gen_ai.response.finish_reasons"] = [finished.finish_reason]
    if finished.dump and isinstance(model := finished.dump.get("model"), str):
        attributes["gen_ai.response.model"] = model
    return attributes


def _fail(span: Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))
