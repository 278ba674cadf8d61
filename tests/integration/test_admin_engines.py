"""The admin of engines: what a provider needs, whether the key is there, never its value (E04, security row 38)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from allm_django.models import Engine
from tests.integration.admin_rows import make_session, make_tool, person
from tests.integration.cast import without_runner

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

LIST = reverse("admin:allm_django_engine_changelist")
ADD = reverse("admin:allm_django_engine_add")
FORM = {
    "name": "desk",
    "title": "Support desk",
    "description": "",
    "enabled": "on",
    "model": "openai:gpt-5-mini",
    "api_key_env": "",
    "base_url": "",
    "params": '{"temperature": 0}',
    "system": "Be kind.",
    "context": "",
    "tool_choice": "auto",
    "mode": "auto",
    "typing": "block",
    "terminal_tool": "",
    "response_schema": "",
    "max_turns": "5",
    "limits": '{"max_calls": 10}',
    "on_tool_error": "continue",
    "halt_when": "",
    "notice": "",
    "examples": "Where is order 1042?\nRefund it, please",
    "encoder": "",
    "executor": "",
}


@pytest.fixture(autouse=True)
def no_runner() -> Iterator[None]:
    """Requests start no runner here."""
    with without_runner():
        yield


@pytest.fixture
def chief(client: Client) -> Client:
    """Logged in to set up engines."""
    client.force_login(person("chief", "view_engine", "change_engine", "add_engine", "delete_engine", "configure_tool"))
    return client


def change(engine: Engine) -> str:
    return reverse("admin:allm_django_engine_change", args=[engine.pk])


def errors_of(response: Any) -> dict[str, list[str]]:
    return dict(response.context["adminform"].form.errors)


def test_an_engine_is_made_with_its_tools_and_groups(chief: Client) -> None:
    tool, group = make_tool(), Group.objects.create(name="Agents")
    response = chief.post(ADD, FORM | {"tools": [tool.pk], "groups": [group.pk]})
    assert response.status_code == 302, errors_of(response)
    engine = Engine.objects.get()
    assert (list(engine.tools.all()), list(engine.groups.all())) == ([tool], [group])
    assert engine.examples == ["Where is order 1042?", "Refund it, please"]
    assert (engine.params, engine.limits, engine.context) == ({"temperature": 0}, {"max_calls": 10}, None)


def test_a_change_names_its_fields_in_the_history(chief: Client) -> None:
    chief.post(ADD, FORM)
    engine = Engine.objects.get()
    chief.post(change(engine), FORM | {"system": "Be brief.", "limits": ""})
    engine.refresh_from_db()
    assert (engine.system, engine.limits) == ("Be brief.", {})
    assert LogEntry.objects.latest("pk").get_change_message() == "Changed System text and Limits."


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        ({"model": "gpt-5"}, "model", "prefix:name"),
        ({"model": "nonsense:gpt"}, "model", "Known prefixes"),
        ({"model": "compatible:qwen"}, "base_url", "base URL"),
        ({"base_url": "https://user:secret@server.example/v1"}, "base_url", "password"),
        ({"api_key_env": "sk-proj-abc"}, "api_key_env", "never the key itself"),
        ({"limits": '{"max_calls": -1}'}, "limits", "max_calls"),
        ({"limits": '{"max_cals": 1}'}, "limits", "max_cals"),
        ({"params": "{"}, "params", "line 1, column 2"),
        ({"params": "[1]"}, "params", "JSON object"),
        ({"examples": "a\na"}, "examples", "twice"),
        ({"on_tool_error": "os.system"}, "on_tool_error", "os.system"),
        ({"halt_when": "os.system"}, "halt_when", "os.system"),
        ({"max_turns": "0"}, "max_turns", "1"),
    ],
)
def test_an_error_stands_at_its_field_and_says_what_is_wrong(
    chief: Client, monkeypatch: pytest.MonkeyPatch, data: dict[str, Any], field: str, words: str
) -> None:
    monkeypatch.delenv("ALLM_BASE_URL", raising=False)
    response = chief.post(ADD, FORM | data)
    assert list(errors_of(response)) == [field]
    assert words in str(errors_of(response)[field])
    assert not Engine.objects.exists()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"model": "gpt-5"}, "'gpt-5' is not of the form"),
        ({"examples": "a\na"}, "An entry stands twice."),
    ],
)
def test_an_error_does_not_repeat_the_name_of_its_field(chief: Client, data: dict[str, Any], text: str) -> None:
    response = chief.post(ADD, FORM | data)
    assert errors_of(response)[next(iter(data))][0].startswith(text)
    assert "scripted" not in str(errors_of(response))


@pytest.mark.row("L17")
def test_the_key_is_said_to_be_set_or_not_and_never_shown(chief: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chief.post(ADD, FORM | {"api_key_env": "SHOP_KEY"})
    engine = Engine.objects.get()
    monkeypatch.delenv("SHOP_KEY", raising=False)
    assert "SHOP_KEY is not set" in chief.get(change(engine)).content.decode()
    monkeypatch.setenv("SHOP_KEY", "sk-canary-value")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-value")
    for address in (change(engine), LIST, ADD):
        page = chief.get(address).content.decode()
        assert "sk-canary-value" not in page
    assert "SHOP_KEY is set" in chief.get(LIST).content.decode()


@pytest.mark.row("L17")
def test_a_key_of_the_settings_is_said_to_be_there_and_never_shown(chief: Client, settings: Any) -> None:
    settings.ALLM = {**getattr(settings, "ALLM", {}), "KEYS": {"openai": "sk-canary-value"}}
    chief.post(ADD, FORM | {"model": "openai:x", "api_key_env": ""})
    for address in (change(Engine.objects.get()), LIST, ADD):
        page = chief.get(address).content.decode()
        assert ("in the settings" in page, "sk-canary-value" in page) == (True, False)


def test_the_form_says_what_each_kind_of_model_needs(chief: Client) -> None:
    page = chief.get(ADD).content.decode()
    for words in (
        "openai:…",
        "anthropic:…",
        "google:…",
        "compatible:…",
        "planner:…",
        "OPENAI_API_KEY",
        "ALLM_BASE_URL",
    ):
        assert words in page


def test_limits_and_rules_are_explained_with_their_units(chief: Client) -> None:
    page = chief.get(ADD).content.decode()
    for words in ("US dollars", "in and out together", "while calls wait", "asked after each turn", "ends the run"):
        assert words in page


def test_an_engine_with_sessions_is_not_deleted_and_the_page_says_why(chief: Client) -> None:
    chief.post(ADD, FORM)
    engine = Engine.objects.get()
    make_session(person("asker", staff=False), engine=engine)
    page = chief.get(reverse("admin:allm_django_engine_delete", args=[engine.pk])).content.decode()
    assert "Cannot delete engine" in page
    chief.post(reverse("admin:allm_django_engine_delete", args=[engine.pk]), {"post": "yes"})
    assert Engine.objects.filter(pk=engine.pk).exists()


def test_an_unused_engine_is_deleted(chief: Client) -> None:
    chief.post(ADD, FORM)
    chief.post(LIST, {"action": "delete_selected", "_selected_action": [Engine.objects.get().pk], "post": "yes"})
    assert not Engine.objects.exists()


def test_the_list_costs_the_same_number_of_queries_for_ten_and_a_hundred_engines(
    chief: Client, django_assert_max_num_queries: Any
) -> None:
    def queries() -> int:
        with django_assert_max_num_queries(100) as caught:
            assert chief.get(LIST).status_code == 200
        return len(caught)

    Engine.objects.bulk_create(Engine(name=f"e{n}", model="openai:x") for n in range(10))
    queries()  # what Django keeps from the first request on
    few = queries()
    Engine.objects.bulk_create(Engine(name=f"e{n}", model="openai:x") for n in range(10, 100))
    assert queries() == few


KEY_AND_ADDRESS = {"api_key_env": "DJANGO_SECRET_KEY", "base_url": "https://elsewhere.example/v1"}


def test_without_the_right_to_configure_nobody_chooses_where_a_key_comes_from_and_goes_to(client: Client) -> None:
    client.force_login(person("writer", "view_engine", "change_engine", "add_engine"))
    client.post(ADD, {**FORM, **KEY_AND_ADDRESS})
    engine = Engine.objects.get(name="desk")
    assert (engine.api_key_env, engine.base_url) == ("", "")


def test_with_the_right_to_configure_one_does(chief: Client) -> None:
    chief.post(ADD, {**FORM, **KEY_AND_ADDRESS})
    engine = Engine.objects.get(name="desk")
    assert (engine.api_key_env, engine.base_url) == tuple(KEY_AND_ADDRESS.values())
