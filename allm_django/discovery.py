"""Find the tools that code offers: ``<app>.tools`` of all installed apps, and ``ALLM["TOOL_MODULES"]`` (M04)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from allm_django.conf import conf
from allm_django.errors import ConfigurationError
from allm_django.tools.registry import Registry, registry

logger = logging.getLogger("allm_django")

_failures: dict[str, str] = {}


def discover(target: Registry = registry) -> None:
    """Import the modules of tools, register their functions in ``target``, freeze it. Makes no query.

    A module that can't be imported is logged with its traceback, offers no tool, and is a check error
    (allm_django.E005): ``runserver`` and ``migrate`` refuse to go on, a running site loses these tools only.
    """
    _failures.clear()
    for name in tool_modules():
        try:
            target.register_module(import_module(name))
        except Exception as error:
            logger.exception("The tools of %s could not be loaded; none of them is on offer.", name)
            _failures[name] = f"{type(error).__name__}: {error}"
    target.freeze()


def failures() -> Mapping[str, str]:
    """Module path → what went wrong, of those that the last :func:`discover` could not load."""
    return MappingProxyType(_failures)


def tool_modules() -> list[str]:
    """The dotted paths of the modules with tools, each once, in the order of INSTALLED_APPS."""
    return list(dict.fromkeys([*_of_apps(), *_of_settings()]))


def _of_apps() -> Iterator[str]:
    for app in apps.get_app_configs():
        if app.name != "allm_django" and app.module is not None and module_has_submodule(app.module, "tools"):
            yield f"{app.name}.tools"


def _of_settings() -> tuple[str, ...]:
    try:
        return tuple(conf().TOOL_MODULES)
    except ConfigurationError:
        return ()  # the check allm_django.E001 tells
