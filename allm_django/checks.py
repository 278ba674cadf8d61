"""System checks: what is set up wrongly or unsafely, each with the way out. docs/reference/checks.md lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, Warning
from django.db import connections

from allm_django import conf
from allm_django.errors import ConfigurationError
from allm_django.models import Tool
from allm_django.record_checks import check_audit_key, check_notifications
from allm_django.tool_checks import check_descriptions, check_rows, check_tool_modules

CORE_LAYER = "channels_redis.core.RedisChannelLayer"
FIRST_REDIS_THAT_DROPS = 8


def register() -> None:
    """Register all checks with Django; called when the apps are ready."""
    for check in (check_settings, check_paths, check_tool_modules, check_descriptions, check_audit_key):
        checks.register(check, "allm_django")
    for check in (check_installation, check_channel_layer):
        checks.register(check, "allm_django")
    checks.register(check_connections, Tags.database)
    checks.register(check_rows, Tags.database)
    checks.register(check_notifications, Tags.database)
    checks.register(check_vendor, "allm_django")
    checks.register(check_hosts, Tags.security)
    checks.register(check_transport, Tags.security, deploy=True)


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """E001: a wrong entry of ALLM."""
    return [
        Error(text, hint="Correct or remove this entry of ALLM in the settings.", id="allm_django.E001")
        for text in conf.problems()
    ]


def check_paths(**kwargs: Any) -> list[CheckMessage]:
    """E002–E004: a dotted path of ALLM that can't be imported."""
    loaders: tuple[tuple[str, Callable[[], object]], ...] = (
        ("allm_django.E002", conf.provider_factories),
        ("allm_django.E003", conf.access_class),
        ("allm_django.E004", conf.dispatch_class),
    )
    return [] if conf.problems() else [message for id, load in loaders for message in _unloadable(id, load)]


def _unloadable(id: str, load: Callable[[], object]) -> Iterator[CheckMessage]:
    try:
        load()
    except ConfigurationError as error:
        yield Error(error.message, hint="Write the dotted path of something that can be imported.", id=id)


def check_vendor(**kwargs: Any) -> list[CheckMessage]:
    """E006: a database that the guarantees don't hold on; W001: SQLite whose writers would fail each other."""
    connection = connections[_alias()]
    if connection.vendor not in ("sqlite", "postgresql"):
        return [
            Error(
                f"{connection.display_name} is not supported.",
                hint="Use PostgreSQL or SQLite for allm_django's tables.",
                id="allm_django.E006",
            )
        ]
    options = connection.settings_dict.get("OPTIONS", {})
    if connection.vendor == "sqlite" and str(options.get("transaction_mode", "")).upper() != "IMMEDIATE":
        return [
            Warning(
                "SQLite transactions start DEFERRED: writers that meet fail with “database is locked”.",
                hint='Set DATABASES["default"]["OPTIONS"]["transaction_mode"] = "IMMEDIATE".',
                id="allm_django.W001",
            )
        ]
    return []


def check_connections(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W002 (needs ``--database``): an SQLite file without write-ahead log."""
    connection = connections[_alias()]
    if _alias() not in (databases or ()) or connection.vendor != "sqlite":
        return []
    with connection.cursor() as cursor:
        mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
    if mode in ("wal", "memory"):
        return []
    return [
        Warning(
            f"SQLite's journal mode is {mode}: readers and writers wait for each other.",
            hint='Set DATABASES["default"]["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL;".',
            id="allm_django.W002",
        )
    ]


def check_installation(**kwargs: Any) -> list[CheckMessage]:
    """W003: no ASGI application is named."""
    if conf.host_setting("ASGI_APPLICATION"):
        return []
    return [
        Warning(
            "ASGI_APPLICATION is not set: the development server can't serve the page's websocket.",
            hint="Set ASGI_APPLICATION to an application made by allm_django.asgi.with_assistant.",
            id="allm_django.W003",
        )
    ]


def check_hosts(**kwargs: Any) -> list[CheckMessage]:
    """E007: with ``*`` in ALLOWED_HOSTS every foreign page may open our websocket (security row 21)."""
    if conf.host_setting("DEBUG") or "*" not in conf.host_setting("ALLOWED_HOSTS", ()):
        return []
    return [
        Error(
            'ALLOWED_HOSTS has "*": any web page could open websockets in the name of its visitors.',
            hint="List the host names of this site.",
            id="allm_django.E007",
        )
    ]


def check_transport(**kwargs: Any) -> list[CheckMessage]:
    """W004, W005 (with ``--deploy``): cookies or sockets that may travel unencrypted (security row 22)."""
    messages: list[CheckMessage] = [
        Warning(
            f"{name} is off: whoever listens on the way can act as its owner, and approve calls.",
            hint=f"Set {name} = True.",
            id="allm_django.W004",
        )
        for name in ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE")
        if not conf.host_setting(name)
    ]
    if not conf.host_setting("SECURE_SSL_REDIRECT"):
        messages.append(
            Warning(
                "SECURE_SSL_REDIRECT is off: a page loaded over plain HTTP opens a plain websocket.",
                hint="Set SECURE_SSL_REDIRECT = True, or silence this check if a proxy redirects.",
                id="allm_django.W005",
            )
        )
    return messages


def check_channel_layer(**kwargs: Any) -> list[CheckMessage]:
    """W006: channels_redis' core layer drops idle websockets after 5 s with redis-py 8 (findings, open upstream)."""
    if conf.channel_layer_path() != CORE_LAYER or _redis_major() < FIRST_REDIS_THAT_DROPS:
        return []
    layer = conf.host_setting("CHANNEL_LAYERS", {})["default"]
    hosts = layer.get("CONFIG", {}).get("hosts") or [None]
    if all(isinstance(host, Mapping) and host.get("socket_timeout", 0) is None for host in hosts):
        return []
    return [
        Warning(
            "channels_redis.core with redis-py 8 or newer drops every idle websocket after 5 seconds.",
            hint='Use "channels_redis.pubsub.RedisPubSubChannelLayer", or give each host "socket_timeout": None.',
            id="allm_django.W006",
        )
    ]


def _redis_major() -> int:
    from importlib import metadata  # it brings a dozen modules, and few projects come here

    try:
        return int(metadata.version("redis").split(".")[0])
    except metadata.PackageNotFoundError:
        return 0


def _alias() -> str:
    """The database that holds our rows."""
    return Tool.objects.db
