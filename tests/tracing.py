"""OpenTelemetry for the length of a test: spans that are kept in memory, and shown as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Taken:
    """The spans that have ended so far."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()

    def all(self) -> list[ReadableSpan]:
        """In the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        """The only one of that name."""
        (found,) = [span for span in self.all() if span.name == name]
        return found

    def tree(self) -> list[str]:
        """Their names, each indented under its parent."""
        spans = self.all()
        inside = {span.context.span_id: span.parent.span_id if span.parent else 0 for span in spans}

        def depth(span_id: int) -> int:
            return 1 + depth(inside[span_id]) if span_id in inside else -1

        return ["  " * depth(span.context.span_id) + span.name for span in spans]

    def text(self) -> str:
        """Everything that they hold."""
        return "\n".join(span.to_json() for span in self.all())


@contextmanager
def traced() -> Iterator[Taken]:
    """Set OpenTelemetry up inside the block, which its own interface allows once a process."""
    taken, library = Taken(), _internals()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(taken.exporter))
    before, library._TRACER_PROVIDER = library._TRACER_PROVIDER, provider
    try:
        yield taken
    finally:
        library._TRACER_PROVIDER = before


def _internals() -> Any:
    return trace
