"""Spans under OpenTelemetry's names for generative AI. Imported only where the host program uses OpenTelemetry (L19).

Spans hold names, numbers and codes; never a message of an error, which may hold anything. Arguments, results and
messages only where ``environment.telemetry_content`` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import ProxyTracerProvider, Span, SpanKind, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from allm_django.core.decide import HaltRun
from allm_django.core.settle import Settlement
from allm_django.core.states import CallState, HaltedReason
from allm_django.core.types import ModelRequest, Usage
from allm_django.errors import AllmError
from allm_django.loop import span_content
from allm_django.loop import span_facts as facts
from allm_django.loop.about import About
from allm_django.loop.environment import environment
from allm_django.loop.journal import StartedCall
from allm_django.loop.telemetry import Done, Spans
from allm_django.providers.base import Finished

_propagator = TraceContextTextMapPropagator()


def is_set_up() -> bool:
    """Whether there is anybody to take spans."""
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


def begin_trace(about: About) -> str:
    """A span of the queueing itself, in the caller's trace or a new one: its ``traceparent``."""
    span = _tracer().start_span("queue_run", kind=SpanKind.PRODUCER, attributes=facts.common(about))
    span.end()
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span))
    return carrier.get("traceparent", "")


class Recorded(Spans):
    """The spans of one drive: ``invoke_agent`` holds ``step``, which holds ``chat`` and ``execute_tool``; that of a
    recipe lasts as long as it is at work, and holds those of its steps.
    """

    def __init__(self, about: About, model_id: str) -> None:
        self._tracer = _tracer()
        self._about = about
        self._content = environment.telemetry_content()
        provider, _, self._model = model_id.partition(":")
        self._asked = {
            "gen_ai.provider.name": facts.PROVIDERS.get(provider, provider),
            "gen_ai.request.model": self._model,
        }
        self._step: Span | None = None
        self._inside: Context | None = None  # the step's, else the drive's
        self._recipes: dict[str, Span] = {}
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
                    facts.fail(span, self._error or facts.OTHER)

            try:
                yield done
            finally:
                span.set_attributes(facts.usage(self._usage))
                self._end_step()

    def begin_step(self) -> None:
        """End the step before, if there is one, and begin the next."""
        self._end_step()
        self._step = self._tracer.start_span("step", self._drive, attributes=facts.common(self._about))
        self._inside = trace.set_span_in_context(self._step, self._drive)

    def _end_step(self) -> None:
        for recipe in self._recipes.values():
            recipe.end()
        self._recipes.clear()
        if self._step is not None:
            self._step.end()
            self._step, self._inside = None, self._drive

    @contextmanager
    def model_call(self, request: ModelRequest) -> Iterator[Done]:
        """One answer of the model, retries before its first word included."""
        given = {f"gen_ai.request.{name}": request.params[name] for name in facts.PARAMS if name in request.params}
        numbers = {name: value for name, value in given.items() if isinstance(value, (int, float))}
        attributes = {**self._asked, **numbers}
        with self._span("chat", self._model, attributes, parent=self._inside, kind=SpanKind.CLIENT) as span:
            if self._content:
                span.set_attributes(span_content.of_request(request))

            def done(finished: Finished | None, error: AllmError | None) -> None:
                if error is not None:
                    self._error = error.code
                    facts.fail(span, error.code)
                elif finished is not None:
                    self._usage += finished.usage
                    span.set_attributes(facts.answer(finished))
                    if self._content:
                        span.set_attributes(span_content.of_answer(finished, request))
                else:
                    span.set_attribute("allm.cancelled", True)

            yield done

    @contextmanager
    def tool_call(self, started: StartedCall) -> Iterator[Done]:
        """One run of a handler, or one look at a recipe's plan."""
        if self._step is None:  # it was let through after a halt
            self.begin_step()
        call, is_open = started.call, False
        span = self._recipes.pop(call.id, None) or self._begin_call(call.name, call.id, self._around(started))
        with self._current(span, lambda: is_open):
            if self._content:
                span.set_attributes(span_content.of_call(started))

            def done(settlement: Settlement) -> None:
                nonlocal is_open
                is_open = settlement.state in (CallState.DELEGATED, CallState.EXECUTING)
                if is_open:
                    self._recipes[call.id] = span
                result = settlement.result
                span.set_attribute("allm.outcome", str(settlement.outcome or settlement.state))
                if settlement.state is CallState.UNKNOWN or (result is not None and result.is_error):
                    facts.fail(span, result.code if result else str(settlement.state))
                if self._content and result is not None:
                    span.set_attribute("gen_ai.tool.call.result", result.content)

            yield done

    def _around(self, started: StartedCall) -> Context | None:
        """What a call's span is inside of: the recipe's, for a step; else the step of the loop."""
        if not started.step_of:
            return self._inside
        recipe = self._recipes.get(started.call.parent)
        if recipe is None:  # it began before a halt, in a drive of its own
            recipe = self._begin_call(started.step_of, started.call.parent, self._inside)
            self._recipes[started.call.parent] = recipe
        return trace.set_span_in_context(recipe, self._inside)

    def _begin_call(self, name: str, call_id: str, parent: Context | None) -> Span:
        attributes = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id, "gen_ai.tool.type": "function"}
        return self._begin("execute_tool", name, attributes, parent)

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
        span = self._begin(operation, of, attributes, parent, kind)
        with self._current(span):
            yield span

    def _begin(
        self,
        operation: str,
        of: str,
        attributes: Mapping[str, Any],
        parent: Context | None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        named = {"gen_ai.operation.name": operation, **facts.common(self._about), **attributes}
        return self._tracer.start_span(f"{operation} {of}".rstrip(), parent, kind, named)

    @contextmanager
    def _current(self, span: Span, stays_open: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """``span`` is the current one in the block, and ends with it unless it ``stays_open``."""
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        except asyncio.CancelledError:
            span.set_attribute("allm.cancelled", True)
            raise
        except BaseException as error:
            facts.fail(span, error.code if isinstance(error, AllmError) else type(error).__qualname__)
            raise
        finally:
            if not stays_open():
                span.end()


def _tracer() -> Tracer:
    return trace.get_tracer_provider().get_tracer("allm_django")
