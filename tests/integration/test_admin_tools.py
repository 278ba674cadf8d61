"""The admin of tools: switched, set up, never looser than code, every write through the store (M01, M02)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from allm_django.core.states import CallState, Outcome
from allm_django.models import Tool, ToolCall, ToolVersion
from tests.integration.admin_rows import LOOKUP, REFUND, make_call, make_session, make_tool, person
from tests.integration.cast import without_runner

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

LIST = reverse("admin:allm_django_tool_changelist")
ADD = reverse("admin:allm_django_tool_add")
FORM = {
    "name": "lookup",
    "title": "Look it up",
    "description": "Looks things up.",
    "enabled": "on",
    "handler": LOOKUP,
    "timeout": "30",
    "schema": '{"type": "object", "properties": {"order_id": {"type": "integer"}}}',
    "sensitive": "",
    "verbs": ["approve", "reject"],
    "quorum": "1",
    "expiry": "",
    "summary": "",
    "metadata": "{}",
}


@pytest.fixture(autouse=True)
def no_runner() -> Iterator[None]:
    """Requests start no runner here."""
    with without_runner():
        yield


def change(tool: Tool) -> str:
    return reverse("admin:allm_django_tool_change", args=[tool.pk])


@pytest.fixture
def chief(client: Client) -> Client:
    """Logged in with all that it takes to configure tools."""
    permissions = ("view_tool", "change_tool", "add_tool", "delete_tool", "configure_tool")
    client.force_login(person("chief", *permissions))
    return client


@pytest.fixture
def clerk(client: Client) -> Client:
    """Logged in to change tools, but not to configure them."""
    client.force_login(person("clerk", "view_tool", "change_tool", "add_tool"))
    return client


def errors_of(response: Any) -> dict[str, list[str]]:
    return dict(response.context["adminform"].form.errors)


def messages_of(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


def list_data(*tools: Tool, **switches: str) -> dict[str, str]:
    """What the list's form sends; a switch is named by its place, as in ``manual_0="on"``."""
    data = {"form-TOTAL_FORMS": str(len(tools)), "form-INITIAL_FORMS": str(len(tools)), "_save": "Save"}
    data |= {f"form-{place}-id": str(tool.pk) for place, tool in enumerate(tools)}
    return data | {f"form-{name.split('_')[1]}-{name.split('_')[0]}": value for name, value in switches.items()}


@pytest.mark.row("M02")
def test_a_tool_is_made_and_its_first_version_names_who_made_it(chief: Client) -> None:
    response = chief.post(ADD, FORM)
    assert response.status_code == 302, errors_of(response)
    tool = Tool.objects.get()
    assert (tool.handler, tool.verbs, tool.manual, tool.enabled) == (LOOKUP, ["approve", "reject"], False, True)
    assert [(v.version, v.who) for v in tool.versions.all()] == [(1, "chief")]


def test_a_form_that_changes_nothing_leaves_the_version(chief: Client) -> None:
    chief.post(ADD, FORM)
    tool = Tool.objects.get()
    chief.post(change(tool), FORM)
    tool.refresh_from_db()
    assert tool.version == 1
    assert LogEntry.objects.latest("pk").get_change_message() == "No fields changed."


def test_rules_about_people_that_cant_work_out_are_said_and_still_saved(chief: Client) -> None:
    group = Group.objects.create(name="Bosses")
    data = FORM | {"quorum": "7", "escalation_groups": [str(group.pk)]}
    page = chief.post(ADD, data, follow=True).content.decode()
    tool = Tool.objects.get()
    assert (tool.quorum, list(tool.escalation_groups.all())) == (7, [group])
    for words in ("7 people have to approve, but only", "say after how long", "Without approver groups"):
        assert words in page


@pytest.mark.row("T06", "M02")
@pytest.mark.parametrize("path", ["os.system", "antigravity.fly", "project.support.tools.whole", "subprocess.run"])
def test_a_path_that_code_did_not_register_can_not_be_saved_and_is_not_imported(chief: Client, path: str) -> None:
    sys.modules.pop("antigravity", None)
    response = chief.post(ADD, FORM | {"handler": path})
    assert list(errors_of(response)) == ["handler"]
    assert not Tool.objects.exists()
    assert "antigravity" not in sys.modules


@pytest.mark.row("M02")
def test_a_path_written_by_sql_is_shown_and_can_not_be_saved_again_but_can_be_switched_off(chief: Client) -> None:
    sys.modules.pop("antigravity", None)
    tool = make_tool()
    Tool.objects.filter(pk=tool.pk).update(handler="antigravity.fly")
    page = chief.get(change(tool)).content.decode()
    assert "antigravity.fly (not registered)" in page
    assert "handler missing" in page
    assert list(errors_of(chief.post(change(tool), FORM | {"handler": "antigravity.fly"}))) == ["handler"]
    assert chief.post(LIST, list_data(tool)).status_code == 302
    tool.refresh_from_db()
    assert not tool.enabled
    assert "antigravity" not in sys.modules


@pytest.mark.row("T03", "T05", "M02")
@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        ({"handler": REFUND}, "manual", "always waits"),
        ({"handler": REFUND, "manual": "on", "idempotent": "on"}, "idempotent", "twice"),
        ({"handler": "", "manual": ""}, "manual", "Without a handler"),
        ({"schema": '{"type": "object",\n "properties": {]}'}, "schema", "line 2, column 17"),
        ({"schema": '{"type": "object", "type": "array"}'}, "schema", "“type” stands twice"),
        ({"schema": '{"type": "object", "minProperties": NaN}'}, "schema", "NaN"),
        ({"schema": '{"type": "object", "properties": {"a": {"type": "txt"}}}'}, "schema", "schema/properties/a/type"),
        ({"schema": '{"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}'}, "schema", "/$ref"),
        ({"schema": '{"type": "object", "examples": ' + "[" * 900 + "]" * 900 + "}"}, "schema", "deep"),
        ({"schema": "[" * 90_000}, "schema", "deep"),
        ({"quorum": "0"}, "quorum", "greater than or equal to 1"),
        ({"expiry": "0"}, "expiry", "longer than nothing"),
        ({"expiry": "10:00", "escalate_after": "10:00"}, "escalate_after", "shorter than the expiry"),
        ({"sensitive": "a, a"}, "sensitive", "twice"),
        ({"verbs": ["approve", "run"]}, "verbs", "run"),
        ({"verbs": []}, "verbs", "required"),
        ({"name": "two words"}, "name", "two words"),
        ({"metadata": "[1]"}, "metadata", "JSON object"),
        ({"timeout": "0"}, "timeout", "0.001"),
    ],
)
def test_an_error_stands_at_its_field_and_says_what_is_wrong(
    chief: Client, data: dict[str, Any], field: str, words: str
) -> None:
    response = chief.post(ADD, FORM | data)
    assert list(errors_of(response)) == [field]
    assert words in str(errors_of(response)[field])
    assert not Tool.objects.exists()


def test_a_new_tool_starts_manual_disabled_and_without_arguments(chief: Client) -> None:
    form = chief.get(ADD).context["adminform"].form
    shown = {name: form[name].value() for name in ("schema", "verbs", "manual", "enabled", "metadata")}
    assert json.loads(shown.pop("schema")) == {"type": "object", "properties": {}, "additionalProperties": False}
    verbs = ["approve", "edit", "answer", "reject"]
    assert shown == {"verbs": verbs, "manual": True, "enabled": False, "metadata": "{}"}


@pytest.mark.row("M02")
def test_what_was_typed_stays_in_the_form_however_wrong_it_is(chief: Client) -> None:
    page = chief.post(ADD, FORM | {"schema": '{"type": "object", "type": "array"}'}).content.decode()
    assert "{&quot;type&quot;: &quot;object&quot;, &quot;type&quot;: &quot;array&quot;}" in page


@pytest.mark.row("M02")
def test_the_picker_offers_what_code_registered_and_says_its_floor(chief: Client) -> None:
    page = chief.get(ADD).content.decode()
    assert f'<option value="{REFUND}">{REFUND} · Refund an order (always manual, not safe to repeat' in page
    assert "os.system" not in page


def test_sensitive_fields_are_typed_with_commas_and_kept_as_a_list(chief: Client) -> None:
    chief.post(ADD, FORM | {"sensitive": " card,  user.pin ,"})
    tool = Tool.objects.get()
    assert tool.sensitive == ["card", "user.pin"]
    assert 'value="card, user.pin"' in chief.get(change(tool)).content.decode()


def test_without_the_permission_to_configure_rules_are_read_only_and_what_is_sent_is_ignored(clerk: Client) -> None:
    tool = make_tool(handler=REFUND, manual=True)
    fields = clerk.get(change(tool)).context["adminform"].form.fields
    assert set(fields) == {"title", "description", "enabled", "compact", "summary"}
    before = dict(tool.versioned())
    response = clerk.post(
        change(tool), FORM | {"handler": LOOKUP, "manual": "", "idempotent": "on", "title": "New", "sensitive": "x"}
    )
    assert response.status_code == 302
    tool.refresh_from_db()
    assert dict(tool.versioned()) == before | {"title": "New", "description": FORM["description"]}
    assert clerk.get(ADD).status_code == 403
    assert clerk.post(ADD, FORM).status_code == 403


@pytest.mark.row("M01")
def test_the_list_switches_enabled_and_manual_through_the_store(chief: Client) -> None:
    tool = make_tool()
    assert chief.post(LIST, list_data(tool, enabled_0="on", manual_0="on")).status_code == 302
    tool.refresh_from_db()
    assert (tool.manual, tool.enabled, tool.version) == (True, True, 2)
    assert ToolVersion.objects.get(tool=tool, version=2).who == "chief"
    assert LogEntry.objects.latest("pk").get_change_message() == "Changed Manual."


@pytest.mark.row("M01")
def test_the_list_does_not_loosen_what_code_fixed(chief: Client) -> None:
    tool = make_tool(handler=REFUND, manual=True)
    response = chief.post(LIST, list_data(tool, enabled_0="on"))
    assert "always waits for a person" in response.content.decode()
    tool.refresh_from_db()
    assert tool.manual


def test_a_row_that_nobody_touched_does_not_keep_others_from_being_saved(chief: Client) -> None:
    good, loose = make_tool("a"), make_tool("b", handler=REFUND, manual=True)
    Tool.objects.filter(pk=loose.pk).update(manual=False)
    assert chief.post(LIST, list_data(good, loose, manual_0="on", enabled_1="on", enabled_0="on")).status_code == 302
    good.refresh_from_db()
    assert good.manual


def test_without_the_permission_to_configure_the_list_has_no_manual_switch(clerk: Client) -> None:
    tool = make_tool()
    page = clerk.get(LIST).content.decode()
    assert 'name="form-0-enabled"' in page
    assert 'name="form-0-manual"' not in page
    assert clerk.post(LIST, list_data(tool, manual_0="on")).status_code == 302
    tool.refresh_from_db()
    assert (tool.manual, tool.enabled) == (False, False)


@pytest.mark.row("M01")
@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        ("enable_tools", {"enabled": False}, {"enabled": True}),
        ("disable_tools", {"enabled": True}, {"enabled": False}),
        ("make_manual", {"manual": False}, {"manual": True}),
    ],
)
def test_bulk_changes_ask_first(chief: Client, action: str, before: dict[str, bool], after: dict[str, bool]) -> None:
    tools = [make_tool(name, **before) for name in ("a", "b")]
    chosen = {"action": action, "_selected_action": [str(tool.pk) for tool in tools]}
    page = chief.post(LIST, chosen | {"index": "0"}).content.decode()
    assert "Yes, I’m sure" in page
    assert not Tool.objects.filter(**after).exists()
    response = chief.post(LIST, chosen | {"confirmed": "yes"}, follow=True)
    assert "2 tools were changed." in messages_of(response)
    assert Tool.objects.filter(**after).count() == 2
    assert LogEntry.objects.filter(object_id=str(tools[0].pk)).count() == 1


@pytest.mark.row("M01")
def test_a_bulk_change_names_what_the_store_refuses_and_does_the_rest(chief: Client) -> None:
    good, gone = make_tool("good", enabled=False), make_tool("gone", enabled=False)
    Tool.objects.filter(pk=gone.pk).update(handler="os.system")
    chosen = {"action": "enable_tools", "_selected_action": [str(good.pk), str(gone.pk)], "confirmed": "yes"}
    words = messages_of(chief.post(LIST, chosen, follow=True))
    assert "gone: “os.system” is not a handler" in words
    assert "1 tool was changed." in words
    assert list(Tool.objects.filter(enabled=True)) == [good]


def test_making_tools_manual_in_bulk_takes_the_permission_to_configure(clerk: Client) -> None:
    tool = make_tool()
    assert "make_manual" not in clerk.get(LIST).content.decode()
    clerk.post(LIST, {"action": "make_manual", "_selected_action": [str(tool.pk)], "confirmed": "yes"})
    tool.refresh_from_db()
    assert not tool.manual


def test_tools_are_deleted_through_the_store_and_their_versions_stay(chief: Client) -> None:
    one, two = make_tool("one"), make_tool("two")
    chief.post(reverse("admin:allm_django_tool_delete", args=[one.pk]), {"post": "yes"})
    chief.post(LIST, {"action": "delete_selected", "_selected_action": [str(two.pk)], "post": "yes"})
    assert not Tool.objects.exists()
    assert sorted(ToolVersion.objects.values_list("name", flat=True)) == ["one", "two"]


@pytest.mark.row("M02")
def test_the_history_tells_who_changed_what_from_what_to_what(chief: Client) -> None:
    chief.post(ADD, FORM)
    tool = Tool.objects.get()
    chief.post(change(tool), FORM | {"description": "<b>Otherwise</b>\u202e", "manual": "on"})
    page = chief.get(reverse("admin:allm_django_tool_history", args=[tool.pk])).content.decode()
    assert "Changed Description and Manual." in page
    assert "<dt>Description</dt>" in page
    assert "<dt>Manual</dt>" in page
    assert "&lt;b&gt;Otherwise&lt;/b&gt;⟦U+202E⟧" in page
    assert page.count("chief") >= 2


@pytest.mark.row("M01")
def test_the_list_shows_calls_failures_and_median_time_of_the_last_week(chief: Client) -> None:
    tool, session, now = make_tool(), make_session(person("asker")), timezone.now()
    for took, outcome in ((1, Outcome.SUCCEEDED), (2, Outcome.FAILED), (9, Outcome.SUCCEEDED)):
        make_call(
            session,
            tool,
            {},
            state=CallState.SETTLED,
            outcome=outcome,
            started_at=now,
            finished_at=now + timedelta(seconds=took),
        )
    make_call(session, tool, {}, state=CallState.UNKNOWN)
    old = make_call(session, tool, {}, state=CallState.SETTLED, outcome=Outcome.FAILED)
    ToolCall.objects.filter(pk=old.pk).update(created_at=now - timedelta(days=8))
    page = chief.get(LIST).content.decode()
    assert "<span>4 calls, 2 failed, median 2.0\u00a0s</span>" in page
    assert "Calls a day, the last is today: 0, 0, 0, 0, 0, 0, 4. Failed: 0, 0, 0, 0, 0, 0, 2." in page


@pytest.mark.row("M01")
def test_the_list_costs_the_same_number_of_queries_for_ten_and_a_hundred_tools(
    chief: Client, django_assert_max_num_queries: Any
) -> None:
    def queries() -> int:
        with django_assert_max_num_queries(100) as caught:
            assert chief.get(LIST).status_code == 200
        return len(caught)

    session = make_session(person("asker"))
    for number in range(10):
        make_call(session, make_tool(f"t{number}"), {})
    queries()  # what Django keeps from the first request on
    few = queries()
    for number in range(10, 100):
        make_call(session, make_tool(f"t{number}"), {})
    assert queries() == few
    assert few <= 10


@pytest.mark.row("M01")
def test_search_and_filters_find_tools(chief: Client) -> None:
    make_tool("find-me")
    make_tool("other", enabled=False)
    page = chief.get(LIST, {"q": "find-me", "enabled__exact": "1"}).content.decode()
    assert "find-me" in page
    assert "other</a>" not in page


def test_the_stored_schema_is_shown_indented_with_its_letters(chief: Client) -> None:
    tool = make_tool(schema={"type": "object", "description": "Größe"})
    schema = chief.get(change(tool)).context["adminform"].form["schema"].value()
    page = chief.get(change(tool)).content.decode()
    assert json.loads(schema) == tool.schema
    assert "Größe" in page
