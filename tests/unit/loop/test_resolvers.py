"""Resolvers of a host's own, composed, and the allow-list (R01, R02, R08, R09)."""

from __future__ import annotations

from typing import Any

import pytest

import allm_django as allm
from allm_django.errors import InvalidInputError
from allm_django.providers.scripted import ScriptedModel, call, say
from tests.unit.loop.twins import ANY, asking, tool_messages


class Shelf:
    """A resolver of tools that say whose they are."""

    def __init__(self, who: str, *names: str, recipe: Any = None) -> None:
        self.who, self.names, self.recipe = who, names, recipe

    def available_tools(self) -> list[allm.ToolSpec]:
        return [allm.ToolSpec(name=name, description=f"{name} of {self.who}", schema=ANY) for name in self.names]

    def resolve(self, call: allm.ToolCall) -> Any:
        if call.arguments == {"fail": True}:
            raise allm.ToolError("No.")
        return f"{self.who} {call.name} {call.arguments}"

    def dispatch_recipe(self, name: str) -> Any:
        return self.recipe if name == "plan" else None


@allm.tool
def own() -> str:
    """Say whose it is."""
    return "own"


def run(tools: Any, *calls: Any, **options: Any) -> tuple[allm.ChatResult, list[allm.ToolSpec]]:
    model = ScriptedModel([[*calls], say("Done.")])
    result = allm.chat(allm.EngineSpec(model=model, tools=tools), asking(), **options)
    return result, list(model.requests[0].tools)


@pytest.mark.row("R01")
def test_a_hosts_own_resolver_offers_and_runs_tools() -> None:
    result, offered = run(Shelf("a", "x"), call("x", {"n": 1}), call("x", {"fail": True}))
    assert [spec.name for spec in offered] == ["x"]
    assert tool_messages(result) == ["a x {'n': 1}", '{"error":"tool_error","message":"No."}']


@pytest.mark.row("R08")
def test_the_first_resolver_with_a_name_wins_and_it_is_offered_once() -> None:
    result, offered = run([own, Shelf("a", "x", "own"), Shelf("b", "x", "y")], call("x"), call("y"), call("own"))
    assert [(spec.name, spec.description) for spec in offered][1:] == [("x", "x of a"), ("y", "y of b")]
    assert tool_messages(result) == ["a x {}", "b y {}", "own"]


@pytest.mark.row("R02")
def test_a_resolver_gives_a_recipe_or_runs_the_call_itself() -> None:
    def plan(arguments: dict[str, Any]) -> Any:
        return allm.Plan(serial=[allm.Step("x", arguments)]) if arguments else None

    result, _ = run(Shelf("a", "x", "plan", recipe=plan), call("plan", {"n": 1}), call("plan"))
    assert tool_messages(result) == ["### x\n\na x {'n': 1}", "a plan {}"]


@pytest.mark.row("R09")
def test_the_allow_list_limits_what_is_offered() -> None:
    shelf = Shelf("a", "x", "y")
    assert [spec.name for spec in run(shelf, say("."))[1]] == ["x", "y"]
    result, offered = run(shelf, call("x"), allowed_tools=["y"])
    assert [spec.name for spec in offered] == ["y"]
    assert result.messages[2].is_error
    assert run(shelf, say("."), allowed_tools=[])[1] == []
    with pytest.raises(InvalidInputError, match="no tool 'z'"):
        run(shelf, say("."), allowed_tools=["z"])
