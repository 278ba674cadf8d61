"""Which model the demo takes, by what the environment says; and the project's databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from allm_django.errors import InvalidInputError
from project import databases
from project.support import demo, engine
from project.support.engine import Choice, choose
from project.support.models import Customer, Order


@pytest.mark.parametrize(
    ("environment", "choice"),
    [
        ({}, Choice("planner:support", notice="Scripted demo planner, not a language model")),
        ({"OPENAI_API_KEY": "k"}, Choice("openai:gpt-5-mini", api_key_env="OPENAI_API_KEY")),
        ({"ANTHROPIC_API_KEY": "k"}, Choice("anthropic:claude-haiku-4-5", api_key_env="ANTHROPIC_API_KEY")),
        ({"GOOGLE_API_KEY": "k", "ALLM_MODEL": "big"}, Choice("google:big", api_key_env="GOOGLE_API_KEY")),
        (
            {"ALLM_BASE_URL": "http://localhost:1/v1", "ALLM_MODEL": "tiny", "OPENAI_API_KEY": "k"},
            Choice("compatible:tiny", base_url="http://localhost:1/v1"),
        ),
        (
            {"ALLM_BASE_URL": "http://localhost:1/v1", "ALLM_MODEL": "tiny", "ALLM_API_KEY": "k"},
            Choice("compatible:tiny", base_url="http://localhost:1/v1", api_key_env="ALLM_API_KEY"),
        ),
    ],
)
def test_the_environment_chooses_the_model(environment: dict[str, str], choice: Choice) -> None:
    assert choose(environment) == choice


@pytest.mark.parametrize("environment", [{"ALLM_BASE_URL": "http://localhost:1/v1"}, {"ALLM_MODEL": "tiny"}])
def test_half_a_statement_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"ALLM_BASE_URL.*ALLM_MODEL|ALLM_MODEL.*ALLM_BASE_URL"):
        choose(environment)


@pytest.mark.django_db
def test_a_second_run_switches_the_model_and_leaves_the_rest() -> None:
    row = engine.set_up({})
    row.title = "My desk"
    row.save()
    row = engine.set_up({"ALLM_BASE_URL": "http://localhost:1/v1", "ALLM_MODEL": "tiny"})
    assert (row.title, row.model, row.notice) == ("My desk", "compatible:tiny", "")
    assert engine.set_up({}).base_url == ""


@pytest.mark.django_db
def test_a_base_url_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match="base_url"):
        engine.set_up({"ALLM_BASE_URL": "no url", "ALLM_MODEL": "tiny"})


@pytest.mark.django_db
def test_rows_and_people_are_made_once() -> None:
    for _ in range(2):
        demo.make_people()
        demo.make_rows()
    assert Order.objects.count() == demo.ORDERS
    assert Customer.objects.count() == 78
    assert Order.objects.get(number=1042).total == 138
    assert Order.objects.get(number=1051).promised_for is None
    agent = demo.get_user_model().objects.get(username="agent")
    assert agent.has_perm("allm_django.chat")
    assert not agent.has_perm("allm_django.decide_toolcall")


def test_databases_are_read_from_urls() -> None:
    settings = databases.postgres("postgresql://me:a%40b@host:5433/shop")
    assert (settings["USER"], settings["PASSWORD"], settings["HOST"], settings["PORT"]) == ("me", "a@b", "host", "5433")
    assert databases.postgres("postgresql://me@/shop?host=/run/pg&port=5")["HOST"] == "/run/pg"


@pytest.mark.parametrize("url", ["mysql://host/shop", "postgresql://host", "postgresql://host/shop?sslmod=x", "shop"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="database"):
        databases.postgres(url)


def test_sqlite_makes_its_folder(tmp_path: Path) -> None:
    assert databases.sqlite(tmp_path / "new/a.sqlite3")["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert (tmp_path / "new").is_dir()
