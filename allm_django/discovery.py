"""Find the tools that code offers: ``<app>.tools`` of all installed apps, ``ALLM["TOOL_MODULES"]`` and
``ALLM["RESOLVERS"]`` (M04, R01).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from django.apps import apps
from django.utils.module_loading import import_string, module_has_submodule

from allm_django.conf import conf
from allm_django.errors import AllmError, ConfigurationError, ToolDefinitionError
from allm_django.logs import get_logger
from allm_django.tools.registry import Registry, registry
from allm_django.tools.resolvers import Resolver, ResolverSource

logger = get_logger("allm_django")

_failures: dict[str, str] = {}


def discover(target: Registry = registry) -> None:
    """Import the modules of tools, register their functions in ``target``, and then the resolvers, which are not
    asked yet; freeze it. Makes no query.

    What can't be loaded is logged in one line (its traceback at level DEBUG: a check error follows, and that is what
    one reads), offers no tool, and is the check error allm_django.E005: ``runserver`` and ``migrate`` refuse to go
    on, a running site loses these tools only.
    """
    _failures.clear()
    for name, register in _found(target):
        try:
            register(name)
        except Exception as error:
            _failures[name] = _told(error)
            logger.error("The tools of %s could not be loaded; none of them is on offer. %s", name, _failures[name])
            logger.debug("How %s failed:", name, exc_info=True)
    target.freeze()


def _found(target: Registry) -> Iterator[tuple[str, Callable[[str], None]]]:
    for name in tool_modules():
        yield name, lambda path: target.register_module(import_module(path))
    for name in _of_settings("RESOLVERS"):
        yield name, lambda path: target.add_source(ResolverSource(path, _resolver(path)))


def _resolver(path: str) -> Resolver:
    """What the path names: a resolver, or its class."""
    found = import_string(path)
    made = found() if isinstance(found, type) else found
    if not isinstance(made, Resolver):
        kind = type(made).__name__
        raise ToolDefinitionError(f"{kind} is no resolver: available_tools, resolve and dispatch_recipe are needed.")
    return made


def failures() -> Mapping[str, str]:
    """Path → what went wrong, of those that the last :func:`discover` could not load."""
    return MappingProxyType(_failures)


def _told(error: Exception) -> str:
    """What went wrong, and the innermost place in a file; our own errors name theirs."""
    text = f"{type(error).__name__}: {error}"
    inside = traceback.extract_tb(error.__traceback__)[3:]  # beyond this module and importlib's import_module
    places = [frame for frame in inside if not frame.filename.startswith("<frozen")]
    if isinstance(error, AllmError) or not places:
        return text
    return f"{text} ({places[-1].filename}:{places[-1].lineno})"


def is_listed(name: str) -> bool:
    """Whether only the settings name this module or resolver; else it was found by its name."""
    return name in (*_of_settings("TOOL_MODULES"), *_of_settings("RESOLVERS")) and name not in _of_apps()


def looked_in() -> list[str]:
    """Where :func:`discover` looks: the installed apps but Django's and our own, and the settings' modules."""
    names = (app.name for app in apps.get_app_configs())
    found = [name for name in names if name != "allm_django" and not name.startswith("django.")]
    return [*found, *_of_settings("TOOL_MODULES")]


def tool_modules() -> list[str]:
    """The dotted paths of the modules with tools, each once, in the order of INSTALLED_APPS."""
    return list(dict.fromkeys([*_of_apps(), *_of_settings("TOOL_MODULES")]))


def _of_apps() -> Iterator[str]:
    for app in apps.get_app_configs():
        if app.name != "allm_django" and app.module is not None and module_has_submodule(app.module, "tools"):
            yield f"{app.name}.tools"


def _of_settings(name: str) -> tuple[str, ...]:
    try:
        return tuple(getattr(conf(), name))
    except ConfigurationError:
        return ()  # the check allm_django.E001 tells
