"""Which key reaches the provider: the call's, the engine's variable, the settings', the environment's (L17)."""

from __future__ import annotations

from typing import Any

import pytest

import allm_django as allm
from allm_django import sessions
from allm_django.conf import Conf, conf
from allm_django.errors import ConfigurationError
from allm_django.models import Engine
from allm_django.testing import drive
from tests.integration.providers.server import Server, chat_text

pytestmark = pytest.mark.row("L17")


@pytest.fixture
def everywhere(server: Server, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A provider, and a key in each place that may have one."""
    settings.ALLM = {**getattr(settings, "ALLM", {}), "KEYS": {"compatible": "k-settings"}}
    monkeypatch.setenv("ALLM_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("ALLM_API_KEY", "k-environment")
    monkeypatch.setenv("MY_KEY", "k-engine")
    server.answer(chat_text("Hi"))
    return server


def sent(server: Server) -> str:
    """The key of the latest request."""
    return server.seen[-1].headers["authorization"].removeprefix("Bearer ")


def test_a_calls_own_key_goes_before_the_settings_and_those_before_the_environments(
    everywhere: Server, settings: Any
) -> None:
    engine = allm.EngineSpec("compatible:local")
    assert allm.chat(engine, [allm.user("Hi")], keys={"compatible": "k-call"}).text == "Hi"
    assert sent(everywhere) == "k-call"
    allm.chat(engine, [allm.user("Hi")], keys={"openai": "k-other"})
    assert sent(everywhere) == "k-settings"
    settings.ALLM = {}
    allm.chat(engine, [allm.user("Hi")])
    assert sent(everywhere) == "k-environment"


@pytest.mark.django_db
@pytest.mark.parametrize(("variable", "key"), [("", "k-settings"), ("MY_KEY", "k-engine"), ("NO_KEY", "")])
def test_the_variable_that_an_engine_names_goes_before_the_settings(
    everywhere: Server, monkeypatch: pytest.MonkeyPatch, variable: str, key: str
) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    engine = Engine.objects.create(name="desk", model="compatible:local", api_key_env=variable)
    session = drive(sessions.start(engine, user=None, text="Hi"))
    assert session.status == "completed"
    assert key in sent(everywhere)
    assert not {"k-settings", "k-environment"} - {key} & {sent(everywhere)}
    run = session.runs.get()
    assert "k-" not in f"{run.settings}{run.error}"


def test_a_key_in_the_settings_is_never_shown(settings: Any) -> None:
    settings.ALLM = {"KEYS": {"openai": "sk-very-secret"}}
    assert "sk-very-secret" not in repr(conf())
    for wrong in ({"opnai": "sk-very-secret"}, {"openai": ["sk-very-secret"]}, {"openai": ""}, "sk-very-secret"):
        with pytest.raises(ConfigurationError, match=r"KEYS.*openai") as caught:
            Conf(KEYS=wrong)  # type: ignore[arg-type]
        assert "sk-very-secret" not in str(caught.value)
