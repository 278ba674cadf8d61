"""System checks: each wrong setting and unsafe deployment is told, with the way out (E03, security rows 2, 21, 22)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection, connections

from allm_django import checks as ours
from allm_django import discovery, tool_checks
from allm_django.conf import Conf
from allm_django.models import Tool, Webhook
from allm_django.tools.registry import Registry, registry
from tests.integration.admin_rows import LOOKUP, REFUND, make_tool

pytestmark = pytest.mark.django_db  # Django's own checks may look at the database
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "checks.md"
SETTINGS = DOCS.with_name("settings.md")
ON_SQLITE = pytest.mark.skipif(connection.vendor != "sqlite", reason="about SQLite")


def found(messages: list[Any]) -> list[str]:
    """The ids, without our prefix; every message has a hint."""
    assert all(message.hint for message in messages)
    return [message.id.removeprefix("allm_django.") for message in messages]


def run(**options: Any) -> list[str]:
    """Our messages of Django's own check run."""
    return found([m for m in checks.run_checks(**options) if m.id.startswith("allm_django.")])


def test_the_test_project_has_nothing_to_mend() -> None:
    assert run() == []


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"MAX_TURN": 3}, "MAX_TURNS"),
        ({"MAX_TURNS": "3"}, "'3'"),
        ({"POLL_SECONDS": 0}, "positive"),
        ({"SWEEPER": 1}, "bool"),
        ({"TOOL_MODULES": "shop.tools"}, "list"),
        ({"PROVIDERS": ["x"]}, "mapping"),
        ({"ACCESS": ""}, "dotted path"),
        (["MAX_TURNS"], "dictionary"),
    ],
)
def test_a_wrong_setting_is_an_error_not_a_crash(settings: Any, setting: Any, words: str) -> None:
    settings.ALLM = setting
    messages = ours.check_settings()
    assert found(messages) == ["E001"]
    assert words in messages[0].msg
    assert "E001" in run()
    with pytest.raises(SystemCheckError):
        call_command("check", stdout=StringIO(), stderr=StringIO())


def test_all_wrong_settings_are_told_at_once(settings: Any) -> None:
    settings.ALLM = {"MAX_TURNS": 0, "RESULT_CAP": None, "NONSENSE": 1}
    assert found(ours.check_settings()) == ["E001"] * 3


@pytest.mark.parametrize(
    ("setting", "id"),
    [
        ({"PROVIDERS": {"x": "no.such.factory"}}, "E002"),
        ({"ACCESS": "allm_django.access.NoSuchClass"}, "E003"),
        ({"DISPATCH": "no_such_module.Dispatch"}, "E004"),
    ],
)
def test_a_path_that_can_not_be_imported_is_an_error(settings: Any, setting: Any, id: str) -> None:
    settings.ALLM = setting
    assert found(ours.check_paths()) == [id]


@pytest.fixture
def broken_module(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of tools that can't be loaded, named in the settings; afterwards all is as it was."""
    (tmp_path / "broken_tools.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings.ALLM = {"TOOL_MODULES": ["broken_tools"]}
    yield "broken_tools"
    settings.ALLM = {}
    sys.modules.pop("broken_tools", None)
    discovery.discover(Registry())


def test_a_module_of_tools_that_can_not_be_loaded_is_an_error_and_the_others_are_found(
    broken_module: str, caplog: pytest.LogCaptureFixture
) -> None:
    target = Registry()
    discovery.discover(target)
    messages = tool_checks.check_tool_modules()
    assert found(messages) == ["E005"]
    assert "broken_tools" in messages[0].msg
    assert "no_such_library" in messages[0].msg
    assert "no_such_library" in caplog.text
    assert target.get(LOOKUP) is not None
    assert target.frozen


def test_the_traceback_is_not_in_the_way_of_the_check_error_that_names_the_place(
    broken_module: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="allm_django"):
        discovery.discover(Registry())
    [record] = caplog.records
    assert record.exc_info is None
    [message] = tool_checks.check_tool_modules()
    assert "broken_tools.py:1)" in message.msg
    assert "TOOL_MODULES" in str(message.hint)


def test_an_apps_own_module_is_not_said_to_be_in_the_settings(broken_module: str, monkeypatch: Any) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(discovery, "_of_apps", lambda: iter([broken_module]))
        discovery.discover(Registry())
        [message] = tool_checks.check_tool_modules()
    assert "TOOL_MODULES" not in str(message.hint)


def test_a_tool_of_which_the_model_is_told_its_title_only_is_a_warning() -> None:
    def refund(amount: int) -> None: ...

    def told(amount: int) -> None:
        """Pay money back."""

    with registry.registered(refund), registry.registered(told):
        messages = tool_checks.check_descriptions()
    assert found(messages) == ["W007"]
    assert "refund" in messages[0].msg


def test_discovery_takes_the_settings_modules_once_and_never_our_own_package(settings: Any) -> None:
    settings.ALLM = {"TOOL_MODULES": ["project.support.tools", "project.support.tools"]}
    assert discovery.tool_modules() == ["project.support.tools"]


def test_discovery_makes_no_query(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        discovery.discover(Registry())


def test_another_database_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "mysql", raising=False)
    assert found(ours.check_vendor()) == ["E006"]


@ON_SQLITE
def test_deferred_transactions_on_sqlite_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["default"].settings_dict["OPTIONS"], "transaction_mode", None)
    assert found(ours.check_vendor()) == ["W001"]


@ON_SQLITE
@pytest.mark.parametrize(("mode", "ids"), [("DELETE", ["W002"]), ("WAL", [])])
def test_sqlite_without_write_ahead_log_is_a_warning(
    mode: str, ids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = connections["default"].copy("other")
    other.settings_dict = {
        **other.settings_dict,
        "NAME": str(tmp_path / "other.sqlite3"),
        "OPTIONS": {"init_command": f"PRAGMA journal_mode={mode};"},
    }
    monkeypatch.setattr(ours, "_alias", lambda: "other")
    monkeypatch.setattr(ours, "connections", {"other": other})
    try:
        assert found(ours.check_connections(databases=["other"])) == ids
        assert ours.check_connections(databases=None) == []
    finally:
        other.close()


@pytest.mark.both_databases
def test_rows_that_code_does_not_know_or_allow_are_errors_only_when_the_database_is_checked() -> None:
    make_tool("good")
    make_tool("by-hand", handler="", manual=True)
    make_tool("gone")
    make_tool("loose", handler=REFUND, manual=True)
    Tool.objects.filter(name="gone").update(handler="os.system")
    Tool.objects.filter(name="loose").update(manual=False)
    assert run() == []
    messages = tool_checks.check_rows(databases=["default"])
    assert found(messages) == ["E010", "E011"]
    assert "os.system" in messages[0].msg
    assert sorted(run(databases=["default"])) == ["E010", "E011"]


def test_a_disabled_row_without_code_is_no_error() -> None:
    make_tool("gone")
    Tool.objects.filter(name="gone").update(handler="gone.away", enabled=False)
    assert tool_checks.check_rows(databases=["default"]) == []


def test_a_row_that_newer_code_explains_is_a_warning_so_that_migrate_goes_on() -> None:
    former = {"handler": LOOKUP, "fingerprint": "of former code"}
    make_tool("old", schema={"type": "object"})
    make_tool("loose", handler=LOOKUP)
    make_tool("gone")
    Tool.objects.filter(name="old").update(synced=former)
    Tool.objects.filter(name="loose").update(synced=former | {"handler": REFUND}, handler=REFUND)
    Tool.objects.filter(name="gone").update(synced=former | {"handler": "gone.away"}, handler="gone.away")
    assert found(tool_checks.check_rows(databases=["default"])) == ["W011", "W012", "W010"]


def test_a_project_without_asgi_application_is_warned(settings: Any) -> None:
    del settings.ASGI_APPLICATION
    assert found(ours.check_installation()) == ["W003"]


@pytest.mark.parametrize(("debug", "ids"), [(False, ["E007"]), (True, [])])
def test_all_hosts_allowed_is_an_error_unless_debugging(settings: Any, debug: bool, ids: list[str]) -> None:
    settings.DEBUG, settings.ALLOWED_HOSTS = debug, ["shop.example", "*"]
    assert found(ours.check_hosts()) == ids


def test_cookies_and_pages_that_travel_unencrypted_are_deployment_warnings(settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = settings.SECURE_SSL_REDIRECT = False
    assert found(ours.check_transport()) == ["W004", "W004", "W005"]
    assert run() == []
    assert run(include_deployment_checks=True) == ["W004", "W004", "W005"]
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = settings.SECURE_SSL_REDIRECT = True
    assert ours.check_transport() == []


@pytest.mark.parametrize(
    ("backend", "config", "major", "ids"),
    [
        ("channels_redis.core.RedisChannelLayer", {"hosts": [("127.0.0.1", 6379)]}, 8, ["W006"]),
        ("channels_redis.core.RedisChannelLayer", {}, 9, ["W006"]),
        ("channels_redis.core.RedisChannelLayer", {"hosts": [{"address": "a", "socket_timeout": None}]}, 8, []),
        ("channels_redis.core.RedisChannelLayer", {"hosts": [{"address": "a", "socket_timeout": 60}]}, 8, ["W006"]),
        ("channels_redis.core.RedisChannelLayer", {}, 7, []),
        ("channels_redis.pubsub.RedisPubSubChannelLayer", {}, 8, []),
    ],
)
def test_the_redis_layer_that_drops_idle_sockets_is_a_warning(
    settings: Any, monkeypatch: pytest.MonkeyPatch, backend: str, config: dict[str, Any], major: int, ids: list[str]
) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend, "CONFIG": config}}
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{major}.1.0")
    assert found(ours.check_channel_layer()) == ids


def test_a_key_of_the_record_that_is_not_there_is_an_error(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ALLM = {"AUDIT_KEY": "ALLM_TEST_AUDIT"}
    assert run() == ["E020"]
    monkeypatch.setenv("ALLM_TEST_AUDIT", "key")
    assert run() == []


def test_webhooks_that_can_not_be_sent_are_warnings(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Webhook.objects.create(name="shop", url="http://10.0.0.1/", secret_env="ALLM_WEBHOOK_TEST")
    assert run() == []
    assert run(databases=["default"]) == ["W021", "W022", "W020"]
    settings.ALLM = {"SITE_URL": "https://shop.example", "WEBHOOKS_INSIDE": True}
    monkeypatch.setenv("ALLM_WEBHOOK_TEST", "secret")
    assert run(databases=["default"]) == []


def test_every_setting_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \| (.+?) \| (.+?) \|$", SETTINGS.read_text(), flags=re.M)
    fresh = Conf()
    assert {name: default for name, default, _unit, _meaning in rows} == {
        field.name: repr(getattr(fresh, field.name)) for field in fields(Conf)
    }


def test_every_document_is_linked_from_the_index() -> None:
    index = (DOCS.parents[1] / "index.md").read_text()
    linked = {(DOCS.parents[1] / link).resolve() for link in re.findall(r"\]\(([^)#]+)\)", index)}
    assert all(path.exists() for path in linked)
    written = {path for path in DOCS.parents[1].rglob("*.md") if path.name != "index.md"}
    assert written <= linked


def test_every_check_is_documented() -> None:
    source = "".join(path.read_text() for path in Path(ours.__file__).parent.glob("*checks.py"))
    ids = set(re.findall(r"allm_django\.([EW]\d{3})", source))
    documented = set(re.findall(r"`allm_django\.([EW]\d{3})`", DOCS.read_text()))
    assert ids == documented
