"""The tools' own admin pages: tried, seen as a model does, compared with code, out to a file and in (M02–M04)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

import allm_django as allm
from allm_django.admin.tool_page import script_words
from allm_django.core.encode import MASK
from allm_django.models import Tool
from allm_django.store.tool_compare import Changed, differences
from allm_django.store.tool_file import export_tools
from allm_django.store.tool_sync import sync_tools
from allm_django.store.tools import save_tool
from allm_django.tools.registry import registry
from tests.integration.admin_rows import LOOKUP, REFUND, make_tool, person
from tests.integration.cast import without_runner

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

LIST = reverse("admin:allm_django_tool_changelist")
IMPORT = reverse("admin:allm_django_tool_import")
EXPORT = reverse("admin:allm_django_tool_export")
SYNC = reverse("admin:allm_django_tool_sync")
SCHEMA = reverse("admin:allm_django_tool_schema")
ALL = ("view_tool", "change_tool", "add_tool", "configure_tool", "try_tool")
ran: list[dict[str, Any]] = []


def weigh(grams: int, card: str = "", ctx: allm.ToolContext | None = None) -> Any:
    """Weigh something."""
    ran.append({"grams": grams, "user": ctx.user if ctx else None})
    if grams == 13:
        raise allm.ToolError("Thirteen grams can't be weighed.")
    return allm.AskUser("Which scale?", options=["old", "new"]) if grams == 14 else {"weight": grams}


def both(grams: int) -> allm.Plan:
    """Weigh twice."""
    return allm.Plan(serial=[allm.Step("weigh", {"grams": grams}), allm.Step("weigh", {"grams": 2}, label="again")])


@pytest.fixture(autouse=True)
def no_runner() -> Iterator[None]:
    """Requests start no runner here."""
    ran.clear()
    with without_runner():
        yield


@pytest.fixture
def chief(client: Client) -> Client:
    """Logged in with all that it takes."""
    client.force_login(person("chief", *ALL))
    return client


@pytest.fixture
def scale() -> Iterator[Tool]:
    """A tool that needs no care to be tried."""
    with registry.registered(allm.tool(name="weigh", idempotent=True, sensitive=["card"])(weigh)):
        sync_tools()
        yield Tool.objects.get(name="weigh")


def page(name: str, tool: Tool) -> str:
    return reverse(f"admin:allm_django_tool_{name}", args=[tool.pk])


def attempt(arguments: Any, verb: str = "run", **more: str) -> dict[str, str]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"arguments": text, "key": str(uuid4()), verb: "yes", **more}


def upload(data: Any) -> dict[str, Any]:
    text = data if isinstance(data, str) else json.dumps(data)
    return {"file": SimpleUploadedFile("tools.json", text.encode(), "application/json")}


# Try it (M03)


@pytest.mark.row("M03")
def test_a_try_runs_the_handler_once_and_shows_what_the_model_would_be_told(chief: Client, scale: Tool) -> None:
    answer = chief.post(page("try", scale), attempt({"grams": 7, "card": "4111"}))
    assert "{&quot;weight&quot;:7}" in answer.content.decode()
    assert [(each["grams"], each["user"].username) for each in ran] == [(7, "chief")]
    before, after = [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]
    assert before.startswith("Tried version 1 by hand with")
    assert MASK in before
    assert "4111" not in before
    assert "The try ended: ok" in after


@pytest.mark.row("M03")
def test_a_form_that_is_sent_twice_runs_once(chief: Client, scale: Tool) -> None:
    data = attempt({"grams": 7})
    chief.post(page("try", scale), data)
    again = chief.post(page("try", scale), data).content.decode()
    assert "is not run twice" in again
    assert len(ran) == 1


@pytest.mark.row("M03")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [("{", "JSON"), ({"grams": "x"}, "grams must be a whole number"), ({}, "grams is required"), ("[1]", "object")],
)
def test_arguments_that_do_not_fit_are_told_and_nothing_runs(
    chief: Client, scale: Tool, arguments: Any, words: str
) -> None:
    answer = chief.post(page("try", scale), attempt(arguments)).content.decode()
    assert words in answer
    assert "Nothing was run." in answer
    assert ran == []
    assert not LogEntry.objects.exists()


@pytest.mark.row("M03")
def test_only_checking_runs_nothing(chief: Client, scale: Tool) -> None:
    assert "The arguments fit." in chief.post(page("try", scale), attempt({"grams": 7}, "check")).content.decode()
    assert ran == []


@pytest.mark.parametrize(
    ("grams", "words"), [(13, "Thirteen grams can&#x27;t be weighed."), (14, "Which scale?"), (14, "old, new")]
)
def test_an_error_and_a_question_are_shown_as_such(chief: Client, scale: Tool, grams: int, words: str) -> None:
    assert words in chief.post(page("try", scale), attempt({"grams": grams})).content.decode()


@pytest.mark.row("M03")
def test_a_manual_tool_runs_only_when_the_person_says_that_it_runs_for_real(chief: Client, scale: Tool) -> None:
    scale.manual = True
    save_tool(scale)
    refused = chief.post(page("try", scale), attempt({"grams": 7})).content.decode()
    assert "Say that you know" in refused
    assert ran == []
    chief.post(page("try", scale), attempt({"grams": 7}, confirmed="on"))
    assert len(ran) == 1


@pytest.mark.row("M03")
def test_a_recipe_shows_the_calls_that_it_would_begin_with_and_runs_none(chief: Client, scale: Tool) -> None:
    with registry.registered(allm.recipe(name="both", idempotent=True)(both)):
        sync_tools()
        answer = chief.post(page("try", Tool.objects.get(name="both")), attempt({"grams": 7})).content.decode()
    assert "{&quot;tool&quot;:&quot;weigh&quot;,&quot;arguments&quot;:{&quot;grams&quot;:7}}" in answer
    assert ran == []


def test_who_may_not_decide_a_tool_alone_may_not_try_it(chief: Client, scale: Tool) -> None:
    scale.approver_groups.set([Group.objects.create(name="Finance")])
    answer = chief.post(page("try", scale), attempt({"grams": 7}))
    assert answer.status_code == 403
    assert "approver groups" in answer.content.decode()
    scale.approver_groups.clear()
    Tool.objects.filter(pk=scale.pk).update(four_eyes=True)
    assert chief.post(page("try", scale), attempt({"grams": 7})).status_code == 403
    assert ran == []


def test_a_handler_that_is_not_registered_is_not_tried(chief: Client) -> None:
    tool = make_tool()
    Tool.objects.filter(pk=tool.pk).update(handler="os.system")
    answer = chief.post(page("try", tool), attempt({}, confirmed="on")).content.decode()
    assert "is not a handler that code registered" in answer


# What the model sees (M03)


@pytest.mark.row("M03")
@pytest.mark.parametrize(
    ("form", "words"),
    [("", '"schema"'), ("openai", '"parameters"'), ("anthropic", '"input_schema"'), ("google", "functionDeclarations")],
)
def test_the_model_sees_a_tool_in_the_form_of_its_provider(chief: Client, scale: Tool, form: str, words: str) -> None:
    shown = chief.get(page("model", scale), {"form": form})
    first, stub, help_ = shown.context["parts"]
    assert words in first.text
    assert '"integer"' in first.text
    assert "manual" not in first.text
    assert "tool_help" in stub.text
    assert '"integer"' in help_.text


@pytest.mark.row("M03")
def test_of_a_compact_tool_the_stub_is_what_is_sent(chief: Client, scale: Tool) -> None:
    scale.compact = True
    save_tool(scale)
    assert "tool_help" in chief.get(page("model", scale)).context["parts"][0].text


# Drift (M04)


@pytest.mark.row("M04")
def test_fields_that_differ_are_shown_with_who_moved_and_code_s_can_be_taken_one_by_one(chief: Client) -> None:
    with registry.registered(allm.tool(name="weigh", description="Old.")(weigh)):
        sync_tools()
    with registry.registered(allm.tool(name="weigh", description="New.", timeout=7)(weigh)):
        tool = Tool.objects.get(name="weigh")
        tool.title = "Mine"
        tool.manual = True
        save_tool(tool)
        assert {d.field: d.changed for d in differences(tool)} == {
            "title": Changed.HERE,
            "description": Changed.CODE,
            "timeout": Changed.CODE,
            "manual": Changed.HERE,
        }
        shown = chief.get(page("compare", tool)).content.decode()
        assert "changed in code" in shown
        chief.post(page("compare", tool), {"field": ["description", "manual"], "version": str(tool.version)})
        tool.refresh_from_db()
        assert (tool.description, tool.manual, tool.timeout, tool.title) == ("New.", False, 30.0, "Mine")
        assert tool.versions.latest("version").who == "chief"
        assert "Changed Description and Manual." in [e.get_change_message() for e in LogEntry.objects.all()]


@pytest.mark.row("M04")
def test_nothing_is_taken_when_the_tool_was_changed_meanwhile(chief: Client, scale: Tool) -> None:
    seen = scale.version
    scale.title = "Mine"
    save_tool(scale)
    answer = chief.post(page("compare", scale), {"field": ["title"], "version": str(seen)}, follow=True)
    assert "changed meanwhile" in answer.content.decode()
    scale.refresh_from_db()
    assert scale.title == "Mine"


@pytest.mark.row("M04")
def test_the_page_of_all_tools_says_what_sync_would_do_and_does_it_on_a_post(chief: Client) -> None:
    with registry.registered(allm.tool(name="weigh")(weigh)):
        assert "Runs tests.integration.test_admin_tool_pages.weigh." in chief.get(SYNC).content.decode()
        assert not Tool.objects.exists()
        chief.post(SYNC)
        assert Tool.objects.filter(name="weigh").exists()


@pytest.mark.row("M04")
def test_the_command_prints_what_differs_as_lines(scale: Tool) -> None:
    scale.description = "Mine."
    save_tool(scale)
    out = StringIO()
    call_command("sync_tools", "--dry-run", stdout=out)
    assert "-Mine.\n" in out.getvalue()
    assert "+Weigh something.\n" in out.getvalue()


# Out to a file and in from one (M04)


@pytest.mark.row("M04")
def test_an_export_comes_back_as_the_same(chief: Client, scale: Tool) -> None:
    data = json.loads(chief.get(EXPORT).content)
    assert data["format"] == "allm_django.tools"
    assert "enabled" not in data["tools"][0]
    shown = chief.post(IMPORT, upload(data))
    assert shown.context["lines"] == []
    assert shown.context["same"].count(",") == Tool.objects.count() - 1


@pytest.mark.row("M04")
def test_what_is_imported_is_shown_first_and_starts_disabled_and_as_manual_as_code_says(chief: Client) -> None:
    Group.objects.create(name="Finance")
    tool = make_tool("refund", handler=REFUND, manual=True, title="Old title")
    data = export_tools([tool])
    data["tools"][0] |= {"title": "New title", "manual": False, "approver_groups": ["Finance"]}
    data["tools"].append(data["tools"][0] | {"name": "refund-two", "expiry": "P0DT00H15M00S"})
    shown = chief.post(IMPORT, upload(data))
    assert Tool.objects.count() == 1
    assert [line.kind for line in shown.context["lines"]] == ["change", "create"]
    form = shown.context["form"]
    confirmed = {"text": form["text"].value(), "seen": form["seen"].value()}
    assert chief.post(IMPORT, confirmed).status_code == 302
    one, two = Tool.objects.order_by("name")
    for row in (one, two):
        assert (row.title, row.enabled, row.manual) == ("New title", False, True)
        assert [group.name for group in row.approver_groups.all()] == ["Finance"]
    assert two.expiry is not None
    assert two.expiry.total_seconds() == 900
    assert one.versions.latest("version").who == "chief"


@pytest.mark.row("M04")
def test_an_import_whose_differences_are_others_by_now_is_shown_again(chief: Client) -> None:
    tool = make_tool("lookup", title="One")
    data = export_tools([tool])
    data["tools"][0]["title"] = "Two"
    form = chief.post(IMPORT, upload(data)).context["form"]
    tool.title = "Three"
    save_tool(tool)
    answer = chief.post(IMPORT, {"text": form["text"].value(), "seen": form["seen"].value()})
    assert "changed meanwhile" in answer.content.decode()
    tool.refresh_from_db()
    assert tool.title == "Three"


@pytest.mark.row("M04")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"handler": "os.system"}, "is not a handler that code registered"),
        ({"approver_groups": ["Nobody"]}, "no group “Nobody”"),
        ({"colour": "red"}, "colour: There is no such field."),
        ({"manual": "yes"}, "manual: true or false"),
        ({"timeout": "long"}, "timeout"),
        ({"schema": {"type": "array"}}, "schema"),
        ({"schema": "text"}, "schema"),
        ({"verbs": ["run"]}, "run"),
        ({"name": 7}, "name"),
        ({"expiry": "soon"}, "expiry"),
    ],
)
def test_an_entry_that_can_not_be_is_refused_by_name_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str
) -> None:
    data = export_tools([make_tool("lookup")])
    data["tools"] = [data["tools"][0] | {"name": "bad"} | change, data["tools"][0] | {"name": "good"}]
    monkeypatch.setattr("sys.stdin", StringIO(json.dumps(data)))
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 2"):
        call_command("allm_tools_import", "-", stdout=out)
    assert words in out.getvalue()
    assert list(Tool.objects.order_by("name").values_list("name", "enabled")) == [("good", False), ("lookup", True)]


@pytest.mark.parametrize("data", ["{", "[]", {"format": "x"}, {"format": "allm_django.tools", "version": 2}, ""])
def test_what_is_no_export_of_tools_is_refused_with_words(chief: Client, data: Any) -> None:
    shown = chief.post(IMPORT, upload(data))
    assert shown.status_code == 200
    assert shown.context["form"].errors
    assert not Tool.objects.exists()


@pytest.mark.row("M04")
def test_the_commands_export_and_import_with_a_dry_run_first(tmp_path: Path) -> None:
    tool = make_tool("lookup")
    file, out = tmp_path / "tools.json", StringIO()
    call_command("allm_tools_export", "lookup", stdout=out)
    file.write_text(out.getvalue())
    Tool.objects.all().delete()
    out = StringIO()
    call_command("allm_tools_import", str(file), "--dry-run", stdout=out)
    assert "create   lookup" in out.getvalue()
    assert not Tool.objects.exists()
    call_command("allm_tools_import", str(file), stdout=StringIO())
    assert Tool.objects.get().schema == tool.schema
    with pytest.raises(CommandError, match="no tool 'gone'"):
        call_command("allm_tools_export", "gone", stdout=StringIO())


# The schema that is being typed (M02)


@pytest.mark.row("M02")
@pytest.mark.parametrize(
    ("schema", "place", "words"),
    [
        ('{"type": "object"}', [], ""),
        ('{"type": "object", "properties": {"a/b": {"type": "txt"}}}', ["properties", "a/b", "type"], "txt"),
        ('{"type": ', [], "line 1"),
    ],
)
def test_a_schema_that_is_being_typed_is_judged_with_its_place(
    chief: Client, schema: str, place: list[str], words: str
) -> None:
    answer = chief.post(SCHEMA, {"schema": schema}).json()
    assert answer["place"] == place
    assert words in answer["problem"]
    assert bool(answer["problem"]) == bool(words)


def test_the_scripts_of_these_pages_use_only_words_that_exist() -> None:
    static = Path(allm.__file__).parent / "static" / "allm_django"
    scripts = [*(static / "admin").glob("*.js"), static / "chat" / "form.js"]
    used = {word for path in scripts for word in re.findall(r"\bt\((?:\w+ \? )?\"(\w+)\"", path.read_text())}
    assert used <= set(script_words())


# Who may, and at what cost


PAGES = ("try", "model", "compare")
SEEN = {"export", "sync", "model", "compare"}


@pytest.mark.parametrize(
    ("permissions", "seen", "done"),
    [
        ((), {}, {}),
        (("view_tool",), SEEN, set()),
        (("view_tool", "change_tool", "add_tool"), SEEN, set()),
        (("view_tool", "change_tool", "configure_tool"), SEEN, {"schema", "compare"}),
        (("view_tool", "try_tool"), {*SEEN, "try"}, {"try"}),
        (ALL, {*SEEN, "import", "try"}, {"schema", "compare", "sync", "import", "try"}),
    ],
)
def test_each_page_takes_its_permissions(client: Client, scale: Tool, permissions: Any, seen: Any, done: Any) -> None:
    client.force_login(person("someone", *permissions))
    urls = {"export": EXPORT, "import": IMPORT, "sync": SYNC} | {name: page(name, scale) for name in PAGES}
    assert {name for name, url in urls.items() if client.get(url).status_code == 200} == set(seen)
    posts = {
        "schema": client.post(SCHEMA, {"schema": "{}"}),
        "compare": client.post(urls["compare"], {"field": ["title"], "version": str(scale.version)}),
        "try": client.post(urls["try"], attempt({"grams": 7})),
        "sync": client.post(SYNC),
        "import": client.post(IMPORT, upload(export_tools([scale]))),
    }
    assert {name for name, answer in posts.items() if answer.status_code != 403} == set(done)
    assert bool(ran) == ("try" in done)


@pytest.mark.parametrize("name", ["list", "sync", "export"])
def test_a_page_costs_the_same_number_of_queries_for_five_and_fifty_tools(
    chief: Client, django_assert_max_num_queries: Any, name: str
) -> None:
    url = {"list": LIST, "sync": SYNC, "export": EXPORT}[name]

    def queries() -> int:
        with django_assert_max_num_queries(100) as caught:
            assert chief.get(url).status_code == 200
        return len(caught)

    for number in range(5):
        make_tool(f"t{number}", title=f"Other {number}", handler=LOOKUP)
    queries()  # what Django keeps from the first request on
    few = queries()
    for number in range(5, 50):
        make_tool(f"t{number}", title=f"Other {number}", handler=LOOKUP)
    assert queries() == few
    assert few <= 10


@pytest.mark.row("M01")
def test_a_bulk_change_names_what_will_happen_to_each(chief: Client) -> None:
    on, off, gone = make_tool("on"), make_tool("off", enabled=False), make_tool("gone", enabled=False)
    Tool.objects.filter(pk=gone.pk).update(handler="os.system")
    data = {"action": "enable_tools", "_selected_action": [str(t.pk) for t in (on, off, gone)]}
    fates = {tool.name: (fate, words) for tool, fate, words in chief.post(LIST, data).context["tools"]}
    assert fates["on"][0] == "same"
    assert fates["off"] == ("changes", "will be enabled")
    assert fates["gone"][0] == "refused"
    assert "os.system" in fates["gone"][1]
