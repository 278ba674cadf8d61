"""The structured final answer of the stateless loop (L13)."""

from __future__ import annotations

from typing import Any

import pytest

import allm_django as allm
from allm_django.core.history import check_history
from allm_django.core.output import read
from allm_django.errors import InvalidInputError
from allm_django.testing import ScriptedModel, call, fail, say
from tests.unit.loop.twins import Loop, asking

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


@allm.tool
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def engine(*entries: Any, **values: Any) -> allm.EngineSpec:
    model = ScriptedModel(entries, usage=allm.Usage(input_tokens=10))
    return allm.EngineSpec(**{"model": model, "tools": [double], "response_schema": SCHEMA, **values})


@pytest.mark.row("L13")
def test_after_the_tool_loop_one_formatted_call_gives_the_output(loop: Loop) -> None:
    given = engine(call("double", {"n": 4}), say("It is 8."), say('{"total": 8}'))
    result = loop(given, asking())
    assert (result.halted_reason, result.text, result.output) == ("completed", "It is 8.", {"total": 8})
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert (len(result.steps), result.usage.input_tokens) == (2, 30)
    asked = given.model.requests[-1]
    assert (asked.tool_choice, asked.response_schema, len(given.model.requests)) == ("none", SCHEMA, 3)
    assert '"total"' in asked.messages[-1].content
    assert [request.response_schema for request in given.model.requests[:2]] == [None, None]
    check_history(asked.messages)


@pytest.mark.row("L13")
def test_an_answer_that_does_not_fit_is_repaired_once(loop: Loop) -> None:
    given = engine(say("It is 8."), say('{"total": "eight"}'), say('```json\n{"total": 8}\n```'))
    assert loop(given, asking()).output == {"total": 8}
    said, told = given.model.requests[-1].messages[-2:]
    assert (said.role, said.content) == ("assistant", '{"total": "eight"}')
    assert (told.role, "total" in told.content) == ("user", True)


@pytest.mark.row("L13")
@pytest.mark.parametrize("bad", [say("eight"), say('{"sum": 8}'), "", call("double", {"n": 1})])
def test_a_second_failure_is_a_clear_error_and_the_words_stand(loop: Loop, bad: Any) -> None:
    given = engine(say("It is 8."), bad, bad, say("never"))
    result = loop(given, asking())
    assert (result.halted_reason, result.text, result.output) == ("error", "It is 8.", None)
    assert result.metadata["error"]["code"] == "invalid_output"
    assert "form" in result.metadata["error"]["message"]
    assert len(given.model.requests) == 3


@pytest.mark.row("L13")
def test_a_provider_that_fails_at_the_formatted_call_is_an_error(loop: Loop) -> None:
    result = loop(engine(say("It is 8."), fail(status=400, message="no such form")), asking())
    assert (result.halted_reason, result.text, result.output) == ("error", "It is 8.", None)
    assert "no such form" in result.metadata["error"]["message"]


@pytest.mark.row("L13")
def test_only_a_completed_loop_is_asked_for_its_form(loop: Loop) -> None:
    given = engine(call("double", {"n": 4}), max_turns=1)
    assert loop(given, asking()).halted_reason == "max_turns"
    assert loop(engine(call("double", {"n": 4}), terminal_tool="double"), asking()).output == {"n": 4}


@pytest.mark.row("L13")
def test_the_call_may_set_the_schema_or_none(loop: Loop) -> None:
    assert loop(engine(say("It is 8.")), asking(), response_schema=None).output is None
    given = engine(say("It is 8."), say('{"total": 8}'), response_schema=None)
    assert loop(given, asking(), response_schema=SCHEMA).output == {"total": 8}


@pytest.mark.row("L13")
@pytest.mark.parametrize("schema", [{"type": "array"}, "total", {"type": "object", "properties": 3}])
def test_a_schema_that_is_none_is_refused_by_name(loop: Loop, schema: Any) -> None:
    given = engine(say("never"), response_schema=schema)
    with pytest.raises(InvalidInputError, match="response_schema"):
        loop(given, asking())
    assert given.model.requests == []


@pytest.mark.row("L13")
@pytest.mark.parametrize("text", ["", "[]", '{"total": NaN}', '{"total": 1} and more', "[" * 100_000])
def test_what_is_no_fitting_object_has_a_problem_in_words(text: str) -> None:
    value, problem = read(text, SCHEMA)
    assert value is None
    assert problem
