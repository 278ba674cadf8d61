"""sync_tools: rows follow code, never looser, never over what an admin changed (M04, security rows 2, 5, 7)."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from threading import Barrier
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from allm_django.errors import InvalidInputError
from allm_django.models import Tool, ToolVersion
from allm_django.store.tool_floor import Condition, health_of
from allm_django.store.tool_sync import Change, sync_tools
from allm_django.store.tools import current_version, delete_tool, save_tool
from allm_django.tools.registry import registry, tool
from tests.integration.admin_rows import LOOKUP, REFUND, make_tool, person

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("M04")]


def kinds(changes: list[Change], name: str) -> list[str]:
    return [change.kind for change in changes if change.tool == name]


def handler(**options: Any) -> Any:
    """A new version of the same function, as a deployment would bring it."""
    return tool(name="weigh", **options)(weigh)


def weigh(grams: int) -> int:
    """Weigh something."""
    return grams


def weigh_two(grams: int, pounds: int) -> int:
    """Weigh something."""
    return grams + pounds


weigh_two.__qualname__ = "weigh"


@pytest.fixture(autouse=True)
def synced() -> None:
    """The rows of the demo's tools."""
    sync_tools()


def test_every_registered_tool_gets_a_row_that_is_as_manual_as_code_says() -> None:
    rows = {row.handler: row for row in Tool.objects.all()}
    assert set(rows) == {definition.key for definition in registry.all()}
    for definition in registry.all():
        row = rows[definition.key]
        assert (row.name, row.enabled, row.manual) == (definition.name, True, definition.manual)
        assert row.schema == definition.schema
        assert health_of(row).condition is Condition.OK


def test_a_second_run_changes_nothing() -> None:
    before = list(Tool.objects.values())
    assert sync_tools() == []
    assert list(Tool.objects.values()) == before


def test_what_an_admin_changed_stays_and_a_disabled_tool_stays_disabled() -> None:
    row = Tool.objects.get(handler=LOOKUP)
    row.description, row.enabled, row.manual = "My own words.", False, True
    save_tool(row)
    changes = sync_tools()
    row.refresh_from_db()
    assert (row.description, row.enabled, row.manual) == ("My own words.", False, True)
    assert kinds(changes, row.name) == ["differs"]


def test_unchanged_fields_follow_code() -> None:
    with registry.registered(handler()):
        sync_tools()
    with registry.registered(handler(description="Weigh it well.", timeout=5)):
        changes = sync_tools()
        row = Tool.objects.get(name="weigh")
    assert (row.description, row.timeout, row.version) == ("Weigh it well.", 5.0, 2)
    assert kinds(changes, "weigh") == ["updated", "updated"]


def test_code_that_gets_stricter_tightens_the_row_and_code_that_gets_looser_does_not_loosen_it() -> None:
    with registry.registered(handler(idempotent=True)):
        sync_tools()
    with registry.registered(handler(manual=True, sensitive=["grams"])):
        changes = sync_tools()
        row = Tool.objects.get(name="weigh")
        assert (row.manual, row.idempotent, row.sensitive) == (True, False, ["grams"])
        assert kinds(changes, "weigh") == ["tightened"] * 3
    with registry.registered(handler(idempotent=True)):
        sync_tools()
        row.refresh_from_db()
    assert (row.manual, row.idempotent, row.sensitive) == (True, False, ["grams"])


def test_a_changed_schema_of_a_handler_that_changes_disables_the_tool_until_someone_looks() -> None:
    with registry.registered(handler()):
        sync_tools()
        row = Tool.objects.get(name="weigh")
        row.schema = {**row.schema, "description": "my own"}
        save_tool(row, by=person("chief"))
    with registry.registered(tool(name="weigh")(weigh_two)):
        row.refresh_from_db()
        assert health_of(row).condition is Condition.DRIFTED
        assert kinds(sync_tools(), "weigh") == ["differs", "disabled"]
        row.refresh_from_db()
        assert (row.enabled, row.schema["description"]) == (False, "my own")
        row.enabled = True
        save_tool(row, by=person("chief two"))
        assert kinds(sync_tools(), "weigh") == ["differs"]
        row.refresh_from_db()
        assert row.enabled


def test_a_tool_whose_code_is_gone_is_disabled() -> None:
    with registry.registered(handler()):
        sync_tools()
    assert kinds(sync_tools(), "weigh") == ["disabled"]
    row = Tool.objects.get(name="weigh")
    assert not row.enabled
    assert kinds(sync_tools(), "weigh") == ["differs"]


def test_a_handler_written_by_sql_is_disabled_and_never_imported() -> None:
    sys.modules.pop("antigravity", None)
    Tool.objects.filter(handler=LOOKUP).update(handler="antigravity.fly")
    sync_tools()
    row = Tool.objects.get(handler="antigravity.fly")
    assert not row.enabled
    assert health_of(row).condition is Condition.MISSING
    assert not health_of(row).offerable
    assert "antigravity" not in sys.modules


def test_a_name_that_is_taken_is_reported_and_nothing_is_overwritten() -> None:
    mine = make_tool("weigh", handler="", manual=True)
    with registry.registered(handler()):
        changes = sync_tools()
    assert kinds(changes, "weigh") == ["conflict"]
    mine.refresh_from_db()
    assert mine.handler == ""


def test_a_dry_run_tells_the_same_and_writes_nothing() -> None:
    with registry.registered(handler()):
        told = sync_tools(dry_run=True)
        assert not Tool.objects.filter(name="weigh").exists()
        assert sync_tools() == told


def test_the_command_prints_and_its_check_fails_when_something_would_change() -> None:
    out = StringIO()
    call_command("sync_tools", stdout=out)
    assert "Rows and code agree." in out.getvalue()
    with registry.registered(handler()):
        with pytest.raises(CommandError, match="sync_tools"):
            call_command("sync_tools", "--check", stdout=StringIO())
        assert not Tool.objects.filter(name="weigh").exists()
        out = StringIO()
        call_command("sync_tools", stdout=out)
    assert "created   weigh" in out.getvalue()


@pytest.mark.parametrize("path", ["os.system", "subprocess.run", "antigravity.fly", "project.support.tools.whole"])
def test_a_path_that_code_did_not_register_can_not_be_saved_and_is_not_imported(path: str) -> None:
    sys.modules.pop("antigravity", None)
    with pytest.raises(InvalidInputError) as caught:
        make_tool("evil", handler=path)
    assert caught.value.field == "handler"
    assert "antigravity" not in sys.modules
    assert not Tool.objects.filter(name="evil").exists()


@pytest.mark.parametrize(
    ("field", "value"), [("manual", False), ("idempotent", True), ("verbs", []), ("verbs", ["run"]), ("name", "a b")]
)
def test_the_store_names_the_field_that_it_refuses(field: str, value: Any) -> None:
    row = Tool.objects.get(handler=REFUND)
    setattr(row, field, value)
    with pytest.raises(InvalidInputError) as caught:
        save_tool(row)
    assert caught.value.field == field


def test_a_sensitive_field_of_code_can_not_be_dropped() -> None:
    with registry.registered(handler(sensitive=["grams"])):
        sync_tools()
        row = Tool.objects.get(name="weigh")
        row.sensitive = ["other"]
        with pytest.raises(InvalidInputError, match="grams"):
            save_tool(row)


def test_without_any_tool_it_says_where_it_looked(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.ALLM = {"TOOL_MODULES": ["shop.actions"]}
    monkeypatch.setattr(registry, "_tools", {})
    out = StringIO()
    call_command("sync_tools", "--dry-run", stdout=out)
    assert "No tools found. Looked for tools.py in: " in out.getvalue()
    assert "project.support, shop.actions." in out.getvalue()


def test_an_enabled_tool_without_handler_has_to_be_manual() -> None:
    with pytest.raises(InvalidInputError) as caught:
        make_tool("ask", handler="")
    assert caught.value.field == "manual"
    assert health_of(make_tool("ask", handler="", manual=True)).condition is Condition.BY_HAND


def test_a_tool_that_lost_its_code_can_be_disabled_but_not_enabled() -> None:
    row = make_tool("old")
    Tool.objects.filter(pk=row.pk).update(handler="gone.away")
    row.refresh_from_db()
    with pytest.raises(InvalidInputError):
        save_tool(row)
    row.enabled = False
    save_tool(row)
    row.enabled = True
    with pytest.raises(InvalidInputError):
        save_tool(row)


def test_a_save_makes_a_version_only_when_something_changed() -> None:
    row = make_tool("counted")
    save_tool(row)
    assert row.version == 1
    row.title = "Counted well"
    save_tool(row, by=person("chief"))
    versions = list(ToolVersion.objects.filter(tool=row).order_by("version"))
    assert [(v.version, v.data["title"], v.who) for v in versions] == [(1, "Counted", ""), (2, "Counted well", "chief")]


def test_the_current_version_costs_one_query_when_nothing_changed(django_assert_num_queries: Any) -> None:
    row = make_tool("cheap")
    with django_assert_num_queries(1):
        assert current_version(row).version == 1


def test_a_change_by_sql_gets_a_version_of_its_own() -> None:
    row = make_tool("touched")
    first = current_version(row)
    Tool.objects.filter(pk=row.pk).update(description="Quite different.")
    assert current_version(row) == first, "the object in hand still says the old"
    row.refresh_from_db()
    second = current_version(row)
    assert (second.version, second.data["description"], row.version) == (2, "Quite different.", 2)
    assert current_version(row) == second


def test_versions_outlive_their_tool() -> None:
    row = make_tool("short-lived")
    version = current_version(row)
    delete_tool(row)
    version.refresh_from_db()
    assert (version.tool, version.spec.name) == (None, "short-lived")


@pytest.mark.django_db(transaction=True)
def test_two_that_need_a_new_version_at_once_share_one() -> None:
    row = make_tool("raced")
    Tool.objects.filter(pk=row.pk).update(description="Quite different.")
    start = Barrier(4)

    def ask(_number: int) -> int:
        try:
            mine = Tool.objects.get(pk=row.pk)
            start.wait(timeout=30)
            return current_version(mine).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(ask, range(4)))
    assert len(found) == 1
    assert list(ToolVersion.objects.filter(tool=row).order_by("version").values_list("version", flat=True)) == [1, 2]
    row.refresh_from_db()
    assert row.version == 2
