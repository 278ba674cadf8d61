"""Cost of 10,000 validations of a 20-field schema, against bare jsonschema with a compiled validator (T05).

Run: python -m tests.benchmarks.bench_schema; the exit status says whether the bar holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry

from allm_django.core.schema import compile_schema

MAX_RATIO = 1.2
KINDS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string", "minLength": 1, "maxLength": 100}, "a text"),
    ({"type": "integer", "minimum": 0}, 7),
    ({"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"}, "some-slug"),
    ({"anyOf": [{"type": "number"}, {"type": "null"}]}, 1.5),
    ({"enum": ["small", "large"]}, "large"),
]
FIELDS = {f"field_{number}": KINDS[number % len(KINDS)] for number in range(20)}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {name: schema for name, (schema, _) in FIELDS.items()},
    "required": list(FIELDS),
    "additionalProperties": False,
}
ARGUMENTS = {name: value for name, (_, value) in FIELDS.items()}


def seconds(validate: Callable[[], object], times: int = 10_000) -> float:
    """CPU seconds that ``times`` calls take."""
    start = time.process_time()
    for _ in range(times):
        validate()
    return time.process_time() - start


def ratios(rounds: int = 3, times: int = 10_000) -> tuple[float, float, float]:
    """(ours / bare, the same with the look-up of the compiled schema, bare seconds); the best of some rounds."""
    bare, ours = Draft202012Validator(SCHEMA, registry=Registry()), compile_schema(SCHEMA)
    assert ours.errors(ARGUMENTS) == []
    ways: list[Callable[[], object]] = [
        lambda: list(bare.iter_errors(ARGUMENTS)),
        lambda: ours.errors(ARGUMENTS),
        lambda: compile_schema(SCHEMA).errors(ARGUMENTS),
    ]
    taken = [[seconds(way, times) for way in ways] for _ in range(rounds)]  # in turn, so that all see the same noise
    base, compiled, looked_up = (min(column) for column in zip(*taken, strict=True))
    return compiled / base, looked_up / base, base


if __name__ == "__main__":
    compiled, looked_up, base = ratios()
    print(f"bare {base * 100:.1f} µs a validation")
    print(f"ours {compiled:.2f} ×, with look-up {looked_up:.2f} × (bar ≤ {MAX_RATIO})")
    raise SystemExit(compiled > MAX_RATIO)
