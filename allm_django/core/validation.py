"""Compiled schemas: validation in bounded time (T21, security row 36). ``core.schema`` is the door to this room.

A validation has an allowance of work: what would take longer than about a second is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema.exceptions import ValidationError
from referencing import Registry

from allm_django.core.arguments import ArgumentProblem, not_json
from allm_django.core.keywords import Draft, TooMuchWorkError, allowance
from allm_django.core.problems import MAX_PROBLEMS, problems_of
from allm_django.core.schema_lint import lint
from allm_django.core.types import JSONObject


@dataclass(frozen=True, slots=True)
class Validator:
    """A compiled schema. Get one from :func:`compile_schema`; safe to share between threads."""

    schema: JSONObject
    _compiled: Any

    def errors(self, arguments: JSONObject) -> list[ArgumentProblem]:
        """What is wrong with ``arguments``, at most a few problems; empty if they fit.

        A message says where, what and what is allowed, and never quotes a value (it may be sensitive).
        """
        try:
            allowance(len(json.dumps(arguments, allow_nan=False)))
            errors: Iterator[ValidationError] = self._compiled.iter_errors(arguments)
            return problems_of(islice(errors, MAX_PROBLEMS))
        except (TypeError, ValueError) as error:
            return [not_json(arguments, error)]
        except (TooMuchWorkError, RecursionError, ArithmeticError):
            return [ArgumentProblem("", "The arguments are too large or too deep to be checked; send less at a time.")]

    def holds(self, arguments: JSONObject, *, share: int = 1) -> bool | None:
        """Whether ``arguments`` fit; None when that can't be told within one ``share`` of a validation's allowance."""
        try:
            allowance(len(json.dumps(arguments, allow_nan=False)), share)
            return next(iter(self._compiled.iter_errors(arguments)), None) is None
        except (TypeError, ValueError, TooMuchWorkError, RecursionError, ArithmeticError):
            return None

    def is_valid(self, arguments: JSONObject) -> bool:
        """Whether ``arguments`` fit."""
        return not self.errors(arguments)


def compile_schema(schema: JSONObject) -> Validator:
    """Lint ``schema`` and compile it; the same JSON text is compiled once. Raises SchemaError."""
    try:
        text = json.dumps(schema, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        lint(schema)
        raise
    return _compile(text)


@lru_cache(maxsize=1_024)
def _compile(text: str) -> Validator:
    schema = json.loads(text)
    lint(schema)
    return Validator(schema, Draft(schema, registry=Registry()))
