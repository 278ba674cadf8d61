"""The JSON Schema subset that tools may use (T05, T21): which schemas are accepted, and checking arguments by them.

The library behind it is imported when it is first needed, so that ``django.setup()`` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allm_django.core.arguments import ArgumentProblem, parse_arguments
from allm_django.core.types import JSONObject

if TYPE_CHECKING:
    from allm_django.core.validation import Validator

__all__ = ["ArgumentProblem", "compile_schema", "lint", "parse_arguments"]


def lint(schema: object, *, field: str = "schema") -> None:
    """Raise SchemaError, naming the place under ``field`` and the way out, unless ``schema`` is accepted (T05)."""
    from allm_django.core import schema_lint

    schema_lint.lint(schema, field=field)


def compile_schema(schema: JSONObject) -> Validator:
    """Lint ``schema`` and compile it; the same JSON text is compiled once. Raises SchemaError."""
    from allm_django.core import validation

    return validation.compile_schema(schema)
