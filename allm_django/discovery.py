"""Find the tools that code offers: ``<app>.tools`` of all installed apps, and ``ALLM["TOOL_MODULES"]`` (M04)."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from allm_django.conf import conf
from allm_django.errors import AllmError, ConfigurationError
from allm_django.logs import get_logger
from allm_django.tools.registry import Registry, registry

logger = get_logger("allm_django")

_failures: dict[str, str] = {}


def discover(target: Registry = registry) -> None:
    """Import the modules of tools, register their functions in ``target``, freeze it. Makes no query.

    A module that can't be loaded is logged in one line (its traceback at level DEBUG: a check error follows, and
    that is what one reads), offers no tool, and is the check error allm_django.E005: ``runserver`` and ``migrate``
    refuse to go on, a running site loses these tools only.
    """
    _failures.clear()
    for name in tool_modules():
        try:
            target.register_module(import_module(name))
        except Exception as error:
            _failures[name] = _told(error)
            logger.error("The tools of %s could not be loaded; none of them is on offer. %s", name, _failures[name])
            logger.debug("How %s failed:", name, exc_info=True)
    target.freeze()


def failures() -> Mapping[str, str]:
    """Module path → what went wrong, of those that the last :func:`discover` could not load."""
    return MappingProxyType(_failures)


def _told(error: Exception) -> str:
    """What went wrong, and the innermost place in a file; our own errors name theirs."""
    text = f"{type(error).__name__}: {error}"
    inside = traceback.extract_tb(error.__traceback__)[2:]  # beyond this module and importlib's import_module
    places = [frame for frame in inside if not frame.filename.startswith("<frozen")]
    if isinstance(error, AllmError) or not places:
        return text
    return f"{text} ({places[-1].filename}:{places[-1].lineno})"


def is_listed(name: str) -> bool:
    """Whether only ``ALLM["TOOL_MODULES"]`` names this module; else it was found by its name."""
    return name in _of_settings() and name not in _of_apps()


def looked_in() -> list[str]:
    """Where :func:`discover` looks: the installed apps but Django's and our own, and the settings' modules."""
    names = (app.name for app in apps.get_app_configs())
    return [*(name for name in names if name != "allm_django" and not name.startswith("django.")), *_of_settings()]


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
