"""A model id (``"openai:gpt-5-mini"``) or a model object becomes a model (L17)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from allm_django.errors import ConfigurationError
from allm_django.providers.base import Model
from allm_django.providers.pydantic_ai import Kind, PydanticAIModel, missing_extra

BASE_URL_ENV = "ALLM_BASE_URL"

_OPENAI = ("pydantic_ai", "openai")

KINDS: Mapping[str, Kind] = {
    "openai": Kind("openai", "openai", "openai:build_chat", "openai", _OPENAI, "OPENAI_API_KEY"),
    "openai-responses": Kind(
        "openai-responses", "openai", "openai:build_responses", "openai", _OPENAI, "OPENAI_API_KEY"
    ),
    "anthropic": Kind(
        "anthropic", "anthropic", "anthropic:build", "anthropic", ("pydantic_ai", "anthropic"), "ANTHROPIC_API_KEY"
    ),
    "google": Kind("google", "google", "google:build", "google", ("pydantic_ai", "google.genai"), "GOOGLE_API_KEY"),
    "compatible": Kind(
        "compatible",
        "compatible",
        "compatible:build",
        "openai",
        _OPENAI,
        "ALLM_API_KEY",
        needs_key=False,
        needs_base_url=True,
    ),
}


def resolve_model(
    model: str | Model,
    *,
    keys: Mapping[str, str] | None = None,
    base_url: str | None = None,
    api_key_env: str | None = None,
    registry: Mapping[str, Callable[[str], Model]] | None = None,
) -> Model:
    """Return the model that ``model`` names; a model object is returned as it is.

    Ids are ``prefix:name``: ``openai:`` (chat completions), ``openai-responses:``, ``anthropic:``, ``google:``,
    ``compatible:`` (OpenAI's protocol at ``base_url`` or the environment's ALLM_BASE_URL), ``scripted:`` (a living
    :class:`ScriptedModel`), and those of ``registry``, whose functions get the part after the prefix.

    The key is ``keys[provider]``, else that of the environment variable ``api_key_env`` (default: the provider's
    usual one). It is looked for when a stream starts: a missing key is a ProviderError there.

    Raises ConfigurationError (``info["field"]``: model or base_url) for an unknown prefix or a bad URL,
    MissingExtraError if the provider's library is not installed.
    """
    if not isinstance(model, str):
        return _checked(model, "model")
    prefix, colon, name = model.partition(":")
    if not colon or not prefix or not name.strip():
        raise ConfigurationError(
            f'model: {model!r} is not of the form "prefix:name". {_known(registry)}', field="model"
        )
    if registry and prefix in registry:
        return _checked(registry[prefix](name), f"the model that {prefix!r} is registered for")
    if prefix == "scripted":
        return _scripted(model)
    if prefix not in KINDS:
        raise ConfigurationError(
            f"model: {model!r} has the unknown prefix {prefix!r}. {_known(registry)}", field="model"
        )
    return _real(model, KINDS[prefix], keys or {}, base_url, api_key_env)


def lacks_key(model: str, *, keys: Mapping[str, str], api_key_env: str = "") -> bool:
    """Whether this process has no key for a model id whose provider needs one; False for ids that are not ours."""
    kind = KINDS.get(model.partition(":")[0])
    if kind is None or not kind.needs_key:
        return False
    given = "" if api_key_env else keys.get(kind.provider) or keys.get(kind.key_name)
    return not (given or os.environ.get(api_key_env or kind.key_env))


def _real(id: str, kind: Kind, keys: Mapping[str, str], base_url: str | None, api_key_env: str | None) -> Model:
    if not all(map(is_installed, kind.libraries)):
        raise missing_extra(kind, id)
    if kind.needs_base_url:
        base_url = base_url or os.environ.get(BASE_URL_ENV)
        if not base_url:
            raise ConfigurationError(
                f"model: {id!r} needs a base URL; set one, or {BASE_URL_ENV} in the environment.", field="base_url"
            )
    if base_url:
        _check_url(base_url)
    key_env = api_key_env or kind.key_env
    given = keys.get(kind.provider) or keys.get(kind.key_name)
    return PydanticAIModel(
        id, kind, find_key=lambda: given or os.environ.get(key_env, ""), key_env=key_env, base_url=base_url
    )


def _scripted(id: str) -> Model:
    from allm_django.providers.scripted import find_scripted  # not at every start of Django

    found = find_scripted(id)
    if found is None:
        raise ConfigurationError(f"model: there is no scripted model {id!r} in this process (any more).", field="model")
    return found


def _checked(model: object, what: str) -> Model:
    if not isinstance(model, Model):
        raise ConfigurationError(
            f'{what}: {type(model).__name__} given; an id such as "openai:gpt-5-mini", or an object with an id '
            "and a stream method, is needed.",
            field="model",
        )
    return model


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ConfigurationError(
            "base_url: an http or https URL without a user name or password is needed.", field="base_url"
        )


def is_installed(library: str) -> bool:
    """Whether a library can be imported; it is not imported for that."""
    try:
        return importlib.util.find_spec(library) is not None
    except (ImportError, ValueError):
        return False


def _known(registry: Mapping[str, object] | None) -> str:
    """For people: scripted models are left out, which live in tests and are found by their own ids."""
    return f"Known prefixes: {', '.join(sorted({*KINDS, *(registry or {})}))}."
