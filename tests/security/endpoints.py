"""What can be asked of the app: walked from the URLconf, the sockets' routes and the admin's registry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, get_resolver
from django.views.generic import RedirectView

from allm_django.chat.routing import websocket_urlpatterns

PLACE = re.compile(r"<[^>]*>")
WRITES = ("POST", "PUT", "PATCH", "DELETE")
APP = "allm_django"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method on an address whose parameters are all written ``<>``.

    ``WS`` opens a socket and says hello; ``ACT`` is an action of an admin list, named after the address.
    """

    method: str
    address: str
    named: str = field(default="", compare=False)  # with the parameters' names, for a proposal

    @classmethod
    def of(cls, method: str, address: str) -> Endpoint:
        """With the parameters' names taken out."""
        return cls(method, PLACE.sub("<>", address), address)


def all_endpoints() -> set[Endpoint]:
    """Everything there is of ours; the project's own pages and Django's are left out."""
    return {*_addresses(), *_sockets(), *_actions()}


def _addresses() -> Iterator[Endpoint]:
    for address, pattern, apps in _walk(get_resolver(), "", ()):
        if APP in apps or address.startswith(f"admin/{APP}/"):
            for method in _methods(pattern):
                yield Endpoint.of(method, f"/{address}")


def _walk(
    resolver: URLResolver, prefix: str, apps: tuple[str | None, ...]
) -> Iterator[tuple[str, URLPattern, tuple[str | None, ...]]]:
    for entry in resolver.url_patterns:
        address = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _walk(entry, address, (*apps, entry.app_name))
        else:
            yield address, entry, apps


def _methods(pattern: URLPattern) -> list[str]:
    """An admin's view takes what it likes: both are asked, but of the history, which only shows.

    Django's redirects from ``…/<id>/`` to the change page look at no object.
    """
    view = getattr(pattern.callback, "view_class", None)
    if view is RedirectView:
        return []
    if view is not None:
        return [method for method in ("GET", *WRITES) if hasattr(view, method.lower())]
    return ["GET"] if (pattern.name or "").endswith("_history") else ["GET", "POST"]


def _sockets() -> Iterator[Endpoint]:
    for pattern in websocket_urlpatterns:
        yield Endpoint.of("WS", f"/{pattern.pattern}")


def _actions() -> Iterator[Endpoint]:
    request = HttpRequest()
    request.user = User(is_superuser=True)
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label == APP:
            for action in model_admin.get_actions(request):
                yield Endpoint("ACT", f"/admin/{APP}/{model._meta.model_name}/#{action}")
