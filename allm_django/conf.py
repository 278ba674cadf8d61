"""The one reader of ``settings.ALLM``: typed, cached, reloaded when a test overrides the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.signals import setting_changed
from django.db import connections, router
from django.utils.module_loading import import_string

from allm_django.core.limits import DEFAULT_MAX_TURNS, Limits
from allm_django.errors import ConfigurationError, InvalidInputError

IN_PROCESS = "allm_django.runtime.dispatch.inprocess.InProcess"
MEMORY_LAYER = "channels.layers.InMemoryChannelLayer"


@dataclass(frozen=True, slots=True)
class Conf:
    """All settings of ``ALLM = {…}`` with their defaults.

    Times are in seconds, sizes in characters (text) or bytes (frames, arguments). ``PROVIDERS`` maps the prefix
    of a model id to the dotted path of a factory ``(name) -> Model``; ``KEYS`` a provider to its key (L17); ``ACCESS``
    is the dotted path of the class that decides who may.
    """

    TOOL_MODULES: tuple[str, ...] = ()
    RESOLVERS: tuple[str, ...] = ()
    PROVIDERS: Mapping[str, str] = field(default_factory=dict)
    KEYS: Mapping[str, str] = field(default_factory=dict, repr=False)
    ACCESS: str = "allm_django.access.Access"
    DISPATCH: str = IN_PROCESS
    MAX_TURNS: int = DEFAULT_MAX_TURNS
    LIMITS: Mapping[str, Any] = field(default_factory=dict)
    MAX_PARALLEL: int = 8
    HANDLER_THREADS: int = 16
    HANDLER_SPARE_THREADS: int = 16
    DATABASE_THREADS: int = 8
    LEASE_SECONDS: float = 15.0
    RENEW_SECONDS: float = 5.0
    POLL_SECONDS: float = 2.0
    SWEEP_SECONDS: float = 5.0
    FLUSH_SECONDS: float = 0.04
    CANCEL_GRACE_SECONDS: float = 2.0
    PROVIDER_ATTEMPTS: int = 3
    PROVIDER_RETRY_AFTER_MAX: float = 30.0
    MAX_TEXT: int = 32_000
    MAX_FRAME: int = 65_536
    RESULT_CAP: int = 32_768
    SOCKETS_PER_USER: int = 20
    RUNNING_PER_USER: int = 10
    REQUESTS_PER_MINUTE: int = 240
    SWEEPER: bool = True
    TELEMETRY_CONTENT: bool = False
    AUDIT_KEY: str = ""
    SITE_URL: str = ""
    WEBHOOKS_INSIDE: bool = False
    NOTIFY_ATTEMPTS: int = 8
    NOTIFY_TIMEOUT: float = 10.0
    NOTIFY_THREADS: int = 4

    def __post_init__(self) -> None:
        for f in fields(self):
            _check(f.name, getattr(self, f.name), f.default)


def _check(name: str, value: Any, default: Any) -> None:
    if name == "KEYS":
        _check_keys(value)
        return
    if name == "LIMITS":
        _check_limits(value)
        return
    if name == "PROVIDERS":
        good = isinstance(value, Mapping) and all(isinstance(v, str) for pair in value.items() for v in pair)
        wanted = "a mapping of prefix to dotted path"
    elif name in ("TOOL_MODULES", "RESOLVERS"):
        good = isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)
        wanted = "a list of dotted paths"
    elif isinstance(default, bool) or isinstance(value, bool):
        good, wanted = isinstance(value, bool) and isinstance(default, bool), f"{type(default).__name__}"
    elif isinstance(default, (int, float)):
        kinds = int if isinstance(default, int) else (int, float)
        good, wanted = isinstance(value, kinds) and value > 0, f"a positive {type(default).__name__}"
    elif default == "":
        good, wanted = isinstance(value, str), "text"
    else:
        good, wanted = isinstance(value, str) and bool(value), "a dotted path"
    if not good:
        raise ConfigurationError(f"ALLM[{name!r}]: {value!r} given; {wanted} is needed.")


def _check_limits(value: Any) -> None:
    try:
        Limits.of(value)
    except InvalidInputError as error:
        raise ConfigurationError(f"ALLM['LIMITS']: {error.message}") from error
    if "max_turns" in value:
        raise ConfigurationError("ALLM['LIMITS']: max_turns has a setting of its own, ALLM['MAX_TURNS'].")


def default_limits() -> dict[str, Any]:
    """The limits of runs whose engine sets none (L06, L10)."""
    return {**conf().LIMITS, "max_turns": conf().MAX_TURNS}


def _check_keys(value: Any) -> None:
    """Say what is wrong without quoting anything: it may be a key."""
    if value == {}:
        return
    from allm_django.providers.resolve import KINDS  # not at every start of Django

    known = sorted({kind.key_name for kind in KINDS.values()})
    good = isinstance(value, Mapping) and all(isinstance(key, str) and key for key in value.values())
    if not good or not set(value) <= set(known):
        raise ConfigurationError(f"ALLM['KEYS']: a mapping of {', '.join(known)} to their keys, as text, is needed.")


@cache
def conf() -> Conf:
    """The settings as they stand. Raises ConfigurationError naming the setting."""
    given = getattr(settings, "ALLM", {})
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"ALLM: {type(given).__name__} given; a dictionary is needed.")
    known = {f.name for f in fields(Conf)}
    if wrong := sorted(set(given) - known):
        raise ConfigurationError(f"ALLM[{wrong[0]!r}] is not a setting; known are {', '.join(sorted(known))}.")
    return Conf(**given)


def problems() -> list[str]:
    """Everything that is wrong with ``ALLM``, a text each; for the system checks."""
    given = getattr(settings, "ALLM", {})
    if not isinstance(given, Mapping):
        return [_problem(conf)]
    known = {f.name for f in fields(Conf)}
    unknown = [
        f"ALLM[{name!r}] is not a setting; known are {', '.join(sorted(known))}." for name in given if name not in known
    ]
    texts = [_problem(partial(Conf, **{name: given[name]})) for name in given if name in known]
    return unknown + [text for text in texts if text]


def _problem(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except ConfigurationError as error:
        return error.message
    return ""


@cache
def provider_factories() -> Mapping[str, Callable[[str], Any]]:
    """The host project's own providers, imported from its settings."""
    return {prefix: _load(path, f"PROVIDERS[{prefix!r}]") for prefix, path in conf().PROVIDERS.items()}


@cache
def access_class() -> type[Any]:
    """The class of ``ALLM["ACCESS"]``."""
    loaded: type[Any] = _load(conf().ACCESS, "ACCESS")
    return loaded


@cache
def dispatch_class() -> type[Any]:
    """The class of ``ALLM["DISPATCH"]``."""
    loaded: type[Any] = _load(conf().DISPATCH, "DISPATCH")
    return loaded


def database_threads() -> int:
    """How many threads may talk to the database for the runner: one on SQLite, where writers queue anyway."""
    using = router.db_for_write(apps.get_model("allm_django", "Session"))
    return 1 if connections[using].vendor == "sqlite" else conf().DATABASE_THREADS


def host_setting(name: str, default: Any = None) -> Any:
    """A setting of the host project that is not ours; for the system checks."""
    return getattr(settings, name, default)


def webhooks_inside() -> bool:
    """Whether webhooks may go to this machine and to private networks, and by plain HTTP."""
    return bool(conf().WEBHOOKS_INSIDE or settings.DEBUG)


def secret_keys() -> tuple[str, ...]:
    """The host project's secret, for signatures, then those that it had before."""
    return (str(settings.SECRET_KEY), *map(str, settings.SECRET_KEY_FALLBACKS))


def channel_layer_path() -> str:
    """The dotted path of the default channel layer, or ``""``."""
    layers = getattr(settings, "CHANNEL_LAYERS", {})
    return str(layers.get("default", {}).get("BACKEND", ""))


def layer_is_shared() -> bool:
    """Whether the default channel layer can reach other processes."""
    return channel_layer_path() not in ("", MEMORY_LAYER)


def _load(path: str, name: str) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        raise ConfigurationError(f"ALLM[{name}]: {path!r} can't be imported: {error}") from error


def _reload(*, setting: str, **_: Any) -> None:
    if setting == "ALLM":
        for cached in (conf, provider_factories, access_class, dispatch_class):
            cached.cache_clear()


setting_changed.connect(_reload, dispatch_uid="allm_django.conf")
