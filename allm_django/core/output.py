"""The structured final answer (L13): once the model has answered, it is asked for the answer in a given form.

One formatted call, validated; one repair round that says what is wrong; then a clear error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from allm_django.core.encode import to_text
from allm_django.core.schema import compile_schema, lint
from allm_django.core.types import JSON, JSONObject, Message, ModelRequest

MAX_TRIES = 2
ASK = (
    "Now give your final answer once more as one JSON object that fits this JSON Schema, and nothing else: no other "
    "words, no code fence.\n{schema}"
)
REPAIR = "That does not fit. {problem}\nGive the whole corrected JSON object, and nothing else."
FAILED = "The final answer did not take the form that is asked for. {problem} You can try again."
FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Output:
    """How far the structured answer has come: ``text`` is the last try, ``problem`` what is wrong with it."""

    schema: JSONObject
    tries: int = 0
    text: str = ""
    problem: str = ""
    value: JSON = None

    @property
    def is_ready(self) -> bool:
        """Whether there is a valid answer."""
        return self.tries > 0 and not self.problem

    @property
    def is_hopeless(self) -> bool:
        """Whether all tries are used up."""
        return self.tries >= MAX_TRIES and not self.is_ready

    def after(self, text: str) -> Output:
        """This, one answer of the model later."""
        value, problem = read(text, self.schema)
        return replace(self, tries=self.tries + 1, text=text, problem=problem, value=value)

    def as_json(self) -> JSONObject:
        """As a run keeps it: the value, or what came of trying."""
        if self.is_ready:
            return {"value": self.value}
        return {"tries": self.tries, "text": self.text, "problem": self.problem}

    def error(self) -> JSONObject:
        """The error of a run that got no valid answer; ``detail`` is for staff."""
        return {
            "code": "invalid_output",
            "message": FAILED.format(problem=self.problem),
            "detail": self.text,
        }


def output_of(schema: JSONObject | None, kept: Mapping[str, Any] | None) -> Output | None:
    """What a run with this response schema has so far, from :meth:`Output.as_json`; None where none is asked for."""
    if not schema:
        return None
    if kept and "value" in kept:
        return Output(schema, 1, value=kept["value"])
    return Output(schema, **(kept or {}))


def check_response_schema(schema: Any) -> JSONObject | None:
    """``schema`` if it may be a response schema (None: no structured answer). Raises SchemaError naming the place."""
    if schema is not None:
        lint(schema, field="response_schema")
    return schema or None


def formatting(request: ModelRequest, output: Output) -> ModelRequest:
    """``request`` turned into the one for the structured answer. Its tools stay, since some providers refuse a history
    with calls but no tools; none of them may be called.
    """
    asked = [Message("user", ASK.format(schema=to_text(output.schema)))]
    if output.problem:
        said = [Message("assistant", output.text)] if output.text.strip() else []
        asked += [*said, Message("user", REPAIR.format(problem=output.problem))]
    messages = (*request.messages, *asked)
    return replace(request, messages=messages, tool_choice="none", response_schema=output.schema)


def read(text: str, schema: JSONObject) -> tuple[JSON, str]:
    """The value in an answer, and what is wrong with it or ``""``; a code fence around it is forgiven."""
    fenced = FENCE.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None, "It is not one JSON object." if text.strip() else "It is empty."
    problems = compile_schema(schema).errors(value)
    if not problems:
        return value, ""
    return None, " ".join(f"{problem.path or 'answer'}: {problem.message}." for problem in problems[:10])


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
