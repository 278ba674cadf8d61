"""The addresses of the tools' own admin pages (M02–M04)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import transaction
from django.urls import URLPattern, path

from allm_django.admin.tool_check import schema_check
from allm_django.admin.tool_compare import compare_page, sync_page
from allm_django.admin.tool_exchange import export_page, import_page
from allm_django.admin.tool_model import model_page
from allm_django.admin.tool_try import try_page

PAGES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("export/", "export", export_page),
    ("import/", "import", import_page),
    ("sync/", "sync", sync_page),
    ("schema/", "schema", schema_check),
    ("<int:pk>/model/", "model", model_page),
    ("<int:pk>/compare/", "compare", compare_page),
    ("<int:pk>/try/", "try", try_page),
)


def tool_urls(admin: Any) -> list[URLPattern]:
    """The pages behind the admin's login, each named ``allm_django_tool_<name>``."""
    return [path(route, _view(admin, page), name=f"allm_django_tool_{name}") for route, name, page in PAGES]


def _view(admin: Any, page: Callable[..., Any]) -> Callable[..., Any]:
    """Outside ATOMIC_REQUESTS: that a tool was tried is on record before it starts, and stays there."""
    guarded: Callable[..., Any] = admin.admin_site.admin_view(partial(page, admin))
    return transaction.non_atomic_requests(guarded) if page is try_page else guarded
