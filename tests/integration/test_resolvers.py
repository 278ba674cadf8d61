"""A host's resolvers in stored sessions: their tools are rows like any others (R01, R02, R08, R09)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import allm_django as allm
from allm_django import sessions
from allm_django.discovery import discover, failures
from allm_django.errors import InvalidInputError
from allm_django.models import Tool
from allm_django.store.tool_sync import sync_tools
from allm_django.store.tools import save_tool
from allm_django.testing import call, registered, resolving, say
from allm_django.tools import resolvers
from allm_django.tools.registry import Registry
from tests.integration.desk import ANY, Desk

pytestmark = pytest.mark.django_db


class Shelf:
    """Finds, lends and plans; what is in ``gone`` is not on offer."""

    who = "shelf"

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.broken = False
        self.recipes: dict[str, Any] = {"tour": self.tour}
        self.asked: list[tuple[str, Any]] = []

    def available_tools(self) -> list[allm.ToolSpec]:
        if self.broken:
            raise OSError("the shelf fell")
        specs = [
            allm.ToolSpec(name="find", description=f"Find on the {self.who}.", schema=ANY, idempotent=True),
            allm.ToolSpec(name="lend", description="Lend something.", schema=ANY, manual=True),
            allm.ToolSpec(name="tour", description="Find two things, lend one.", schema=ANY),
        ]
        return [spec for spec in specs if spec.name not in self.gone]

    async def resolve(self, call: allm.ToolCall, ctx: allm.ToolContext) -> Any:
        self.asked.append((call.name, ctx.user and ctx.user.get_username()))
        return f"{self.who} {call.name} {call.arguments}"

    def dispatch_recipe(self, name: str) -> Any:
        return self.recipes.get(name)

    @staticmethod
    def tour(arguments: dict[str, Any]) -> allm.Plan | None:
        if not arguments:
            return None
        return allm.Plan(
            parallel=[allm.Step("find", {"n": 1}, "one"), allm.Step("lend", {"n": 2}, "two")],
            compose=lambda serial, parallel, errors: {**parallel, **errors},
        )


class Attic(Shelf):
    """Another one, with the same names."""

    who = "attic"


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    """A resolver that is always asked anew, its rows made."""
    monkeypatch.setattr(resolvers, "FRESH", 0)
    with resolving(made := Shelf()):
        sync_tools()
        yield made


def rows() -> list[Tool]:
    return list(Tool.objects.filter(name__in=["find", "lend", "tour"]).order_by("name"))


def run(desk: Desk, *calls: Any, **session: Any) -> None:
    desk.run([*calls], say("Done."), tools=rows(), session=session)


@pytest.mark.row("R01")
def test_a_resolvers_tools_are_offered_and_run_in_stored_sessions(desk: Desk, shelf: Shelf) -> None:
    run(desk, call("find", {"n": 1}))
    assert (desk.offered(), desk.told()) == (["find", "lend", "tour"], ["shelf find {'n': 1}"])
    assert (desk.session.status, shelf.asked) == ("completed", [("find", "ann")])
    assert desk.call().tool_version.data["handler"].endswith("test_resolvers.Shelf:find")


@pytest.mark.row("R01")
def test_what_a_resolver_calls_manual_waits_and_cannot_be_made_automatic(desk: Desk, shelf: Shelf) -> None:
    run(desk, call("lend", {"n": 1}))
    assert (desk.reason, shelf.asked) == ("manual_tool_calls", [])
    sessions.approve(desk.open()[0], by=None, arguments={"n": 2})
    desk.drive()
    assert (shelf.asked, "shelf lend {'n': 2}" in desk.told()[0]) == ([("lend", "ann")], True)
    lend = Tool.objects.get(name="lend")
    lend.manual = False
    with pytest.raises(InvalidInputError, match="always waits"):
        save_tool(lend)


@pytest.mark.row("R02", "R07")
def test_a_resolvers_recipe_is_planned_and_halts_for_its_manual_step(desk: Desk, shelf: Shelf) -> None:
    run(desk, call("tour", {"n": 1}, id="t"), call("tour", id="direct"))
    assert [step.call_id for step in desk.open()] == ["t/2"]
    assert sorted(name for name, _ in shelf.asked) == ["find", "tour"]
    sessions.approve(desk.open()[0], by=None)
    desk.drive()
    assert desk.told() == ['{"one":"shelf find {\'n\': 1}","two":"shelf lend {\'n\': 2}"}', "shelf tour {}"]


@pytest.mark.row("R08")
def test_the_first_resolver_with_a_name_wins_and_functions_win_over_both(desk: Desk, shelf: Shelf) -> None:
    def tour() -> str:
        return "a function's"

    with resolving(Attic()), registered(allm.tool(tour)):
        changes = {change.tool: change.kind for change in sync_tools()}
        assert changes.get("tour") == "disabled"  # the row of the resolver, whose name is taken now
        run(desk, call("find"))
    assert (desk.offered(), desk.told()) == (["find", "lend"], ["shelf find {}"])
    with resolving(Attic()):
        shelf.gone.add("find")
        assert [(c.tool, c.kind) for c in sync_tools() if c.tool == "find"] == [
            ("find", "conflict"),  # the attic's, until somebody says that the row means it
            ("find", "disabled"),
        ]


@pytest.mark.row("R09")
def test_the_allow_list_limits_a_resolvers_tools_too(desk: Desk, shelf: Shelf) -> None:
    run(desk, call("find"), allowed_tools=["lend"])
    assert desk.offered() == ["lend"]
    assert "no tool named 'find'" in desk.told()[0]


@pytest.mark.row("R01")
def test_a_tool_that_a_resolver_withdraws_is_not_offered_and_its_call_not_run(desk: Desk, shelf: Shelf) -> None:
    run(desk, call("lend", {"n": 1}))
    sessions.approve(desk.open()[0], by=None)
    shelf.gone.add("lend")
    desk.drive()
    assert (desk.call().outcome, desk.offered(), shelf.asked) == ("unavailable", ["find", "tour"], [])
    assert "no longer part of the program" in desk.told()[0]


@pytest.mark.row("R02")
def test_a_recipe_that_is_none_any_more_is_not_run_as_a_handler_in_its_midst(desk: Desk, shelf: Shelf) -> None:
    run(desk, call("tour", {"n": 1}, id="t"))
    sessions.approve(desk.open()[0], by=None)
    shelf.recipes.clear()
    desk.drive()
    assert "no recipe any more" in desk.told()[0]
    assert sorted(name for name, _ in shelf.asked) == ["find", "lend"]


@pytest.mark.row("R01")
def test_a_resolver_that_fails_keeps_its_last_word_and_no_row_is_switched_off(desk: Desk, shelf: Shelf) -> None:
    shelf.broken = True
    run(desk, call("find"))
    assert desk.told() == ["shelf find {}"]
    with pytest.raises(CommandError, match=r"test_resolvers.Shelf: OSError: the shelf fell"):
        call_command("sync_tools")
    assert all(row.enabled for row in rows())


@pytest.mark.row("R01")
def test_resolvers_come_from_the_settings_by_path_and_broken_ones_are_check_errors(settings: Any) -> None:
    mine = f"{__name__}.Shelf"
    settings.ALLM = {"RESOLVERS": [mine, f"{__name__}.rows", f"{__name__}.Nothing"]}
    found = Registry()
    try:
        discover(found)
        assert {key for key in (tool.key for tool in found.all()) if key.startswith(__name__)} == {
            f"{mine}:find",
            f"{mine}:lend",
            f"{mine}:tour",
        }
        assert found.get(f"{mine}:find").fingerprint  # type: ignore[union-attr]
        assert found.get(f"{mine}:else") is None
        assert {path.rpartition(".")[2] for path in failures()} == {"rows", "Nothing"}
        assert "is no resolver" in failures()[f"{__name__}.rows"]
    finally:
        settings.ALLM = {}
        discover(Registry())
