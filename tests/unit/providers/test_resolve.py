from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from allm_django.errors import ConfigurationError
from allm_django.providers.base import Model
from allm_django.providers.resolve import lacks_key, resolve_model
from allm_django.providers.scripted import ScriptedModel


@pytest.mark.parametrize("id", ["openai:gpt-5-mini", "openai-responses:o3", "anthropic:claude-x", "google:gemini-x"])
def test_known_prefixes_give_a_model_of_that_id(id: str) -> None:
    model = resolve_model(id)
    assert isinstance(model, Model)
    assert model.id == id


def test_a_model_object_is_returned_as_it_is() -> None:
    model = ScriptedModel([])
    assert resolve_model(model) is model
    assert resolve_model(model.id) is model


@pytest.mark.parametrize("thing", [None, 7, object()])
def test_what_is_neither_id_nor_model_is_refused_by_kind(thing: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{type(thing).__name__} given"):
        resolve_model(thing)


@pytest.mark.parametrize("id", ["", "gpt-5-mini", ":x", "openai:", "openai: ", "nowhere:x"])
def test_unknown_ids_are_refused_with_the_known_prefixes(id: str) -> None:
    with pytest.raises(ConfigurationError, match=r"anthropic, compatible, google, openai, openai-responses\."):
        resolve_model(id)


def test_a_scripted_model_that_is_gone_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="no scripted model 'scripted:gone'"):
        resolve_model("scripted:gone")


def test_the_registry_adds_prefixes_and_comes_first() -> None:
    made: list[str] = []

    def build(name: str) -> Model:
        made.append(name)
        return ScriptedModel([])

    resolve_model("local:a:b", registry={"local": build})
    resolve_model("openai:x", registry={"openai": build})
    assert made == ["a:b", "x"]
    with pytest.raises(ConfigurationError, match=r"local.*openai"):
        resolve_model("nowhere:x", registry={"local": build})


def test_what_a_registered_function_returns_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="NoneType given"):
        resolve_model("local:x", registry={"local": lambda name: None})  # type: ignore[dict-item,return-value]


def test_a_compatible_server_needs_a_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALLM_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="ALLM_BASE_URL"):
        resolve_model("compatible:base")
    monkeypatch.setenv("ALLM_BASE_URL", "http://127.0.0.1:1/v1")
    assert resolve_model("compatible:x").id == "compatible:x"


@pytest.mark.parametrize("url", ["ftp://x/", "x", "http://", "http://me:secret@x/v1", "file:///etc/passwd"])
def test_a_base_url_that_is_none_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url") as caught:
        resolve_model("openai:x", base_url=url)
    assert caught.value.info["field"] == "base_url"
    assert "secret" not in str(caught.value)


@pytest.mark.row("L17")
def test_a_key_is_not_shown_by_its_model() -> None:
    model = resolve_model("openai:x", keys={"openai": "sk-verysecret"})
    assert "sk-verysecret" not in repr(model) + repr(vars(model))


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_and_resolving_imports_no_provider_library_and_no_django() -> None:
    code = """
import sys
import allm_django.providers.resolve as r, allm_django.providers.assembly, allm_django.providers.scripted
for id in ("openai:x", "anthropic:x", "google:x"):
    r.resolve_model(id)
print(sorted({m.split(".")[0] for m in sys.modules} & {"pydantic_ai", "openai", "anthropic", "httpx2", "django"}))
print([m for m in sys.modules if m.startswith("google.genai")])
"""
    assert run_python(code).split("\n") == ["[]", "[]"]


@pytest.mark.parametrize(
    ("id", "blocked", "extra"),
    [
        ("openai:x", "openai", "openai"),
        ("openai-responses:x", "pydantic_ai", "openai"),
        ("compatible:x", "openai", "openai"),
        ("anthropic:x", "anthropic", "anthropic"),
        ("google:x", "google.genai", "google"),
    ],
)
def test_a_missing_extra_says_what_to_install(id: str, blocked: str, extra: str) -> None:
    code = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name == {blocked!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
from allm_django.errors import MissingExtraError
from allm_django.providers.resolve import resolve_model
try:
    resolve_model({id!r}, base_url="http://127.0.0.1:1/v1")
except MissingExtraError as error:
    print(error)
"""
    assert f'pip install "allm-django[{extra}]"' in run_python(code)


@pytest.mark.parametrize(
    ("model", "keys", "named", "environment", "lacks"),
    [
        ("openai:gpt-5-mini", {}, "", {}, True),
        ("openai:gpt-5-mini", {}, "", {"OPENAI_API_KEY": "k"}, False),
        ("openai:gpt-5-mini", {"openai": "k"}, "", {}, False),
        ("openai:gpt-5-mini", {"openai": "k"}, "SHOP_KEY", {}, True),
        ("openai:gpt-5-mini", {}, "SHOP_KEY", {"SHOP_KEY": "k"}, False),
        ("compatible:llama", {}, "", {}, False),
        ("planner:support", {}, "", {}, False),
    ],
)
def test_an_id_whose_provider_needs_a_key_that_is_not_here_is_told(
    model: str,
    keys: dict[str, str],
    named: str,
    environment: dict[str, str],
    lacks: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("OPENAI_API_KEY", "SHOP_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert lacks_key(model, keys=keys, api_key_env=named) is lacks
