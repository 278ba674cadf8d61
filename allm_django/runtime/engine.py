"""Advancing one stored run under its lease: resolve what it needs, then let the driver drive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allm_django import access
from allm_django.conf import conf, provider_factories
from allm_django.core.types import JSONObject
from allm_django.errors import ConfigurationError
from allm_django.loop.about import About
from allm_django.loop.advance import Driver
from allm_django.loop.options import LoopOptions
from allm_django.models import Run, ToolCall
from allm_django.providers.base import Model
from allm_django.providers.resolve import resolve_model
from allm_django.store.approvals import still_stands
from allm_django.store.journal import DatabaseJournal, Live, RunInDatabase
from allm_django.store.writing import Lease, alias
from allm_django.tools.registry import registry
from allm_django.tools.threads import SyncExecutor


async def make_driver(
    lease: Lease, run: RunInDatabase, live: Live, threads: SyncExecutor, model: Model | None = None
) -> Driver:
    """A driver for the leased run. Raises ConfigurationError when its model or a function is not to be had."""
    settings: JSONObject = await run(_settings_of, lease)
    session_id, trace = str(lease.session_id), str(settings.get("traceparent", ""))
    options = LoopOptions(
        threads=threads,
        on_tool_error=_policy(settings["on_tool_error"]),
        halt_when=_function("halt_when", settings["halt_when"]),
        encoder=_function("encoder", settings["encoder"]),
        executor=_function("executor", settings["executor"]),
        max_parallel=conf().MAX_PARALLEL,
        result_cap=conf().RESULT_CAP,
        attempts=conf().PROVIDER_ATTEMPTS,
        retry_after_max=conf().PROVIDER_RETRY_AFTER_MAX,
        cancel_grace=conf().CANCEL_GRACE_SECONDS,
        about=About(lease.request_id, session_id, settings["name"], trace),
    )
    chosen = model or resolve_model(
        settings["model"],
        keys=None if settings["api_key_env"] else conf().KEYS,
        base_url=settings["base_url"] or None,
        api_key_env=settings["api_key_env"] or None,
        registry=provider_factories(),
    )
    asks = options.halt_when is not None
    journal = DatabaseJournal(
        lease, run, live, asks_halt_when=asks, refuse=refuse_execution, may_decide=access.may_decide
    )
    return Driver(journal, chosen, options)


def refuse_execution(call: ToolCall) -> str:
    """Why a call that people let through may not run any more: a right was withdrawn (security row 19)."""
    if still_stands(call, access.may_decide):
        return ""
    return "The person who approved this may no longer decide it. The call was not run."


def _settings_of(lease: Lease) -> JSONObject:
    settings: JSONObject = Run.objects.using(alias()).get(pk=lease.run_id).settings
    return settings


def _policy(key: str) -> str | Callable[..., Any]:
    return key if key in ("continue", "halt") else _function("on_tool_error", key)


def _function(kind: str, key: str) -> Any:
    if not key:
        return None
    function = registry.function(kind, key)
    if function is None:
        raise ConfigurationError(f"The engine names {key!r} as {kind}, but code registers no such function.")
    return function
