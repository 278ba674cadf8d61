"""Engines: a model, its tools, its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.admin.base import StoreAdmin
from allm_django.admin.engine_form import EngineForm, key_status, provider_table
from allm_django.models import Engine
from allm_django.store.engines import delete_engine, save_engine

KEY_FIELDS = ("api_key_env", "base_url")


@admin.register(Engine)
class EngineAdmin(StoreAdmin):
    """The set-ups that people chat with."""

    form = EngineForm
    list_display = ("name", "title", "model", "key", "mode", "enabled")
    list_filter = ("enabled", "mode")
    search_fields = ("name", "title", "model")
    filter_horizontal = ("tools", "groups")
    readonly_fields = ("key", "providers")
    prepopulated_fields = {"name": ("title",)}
    fieldsets = (
        (None, {"fields": ("title", "name", "description", "enabled", "groups")}),
        (_("Model"), {"fields": ("model", "api_key_env", "key", "base_url", "params", "providers")}),
        (_("Instructions"), {"fields": ("system", "context")}),
        (_("Tools"), {"fields": ("tools", "tool_choice", "mode", "typing", "terminal_tool", "response_schema")}),
        (_("Limits and errors"), {"fields": ("max_turns", "limits", "on_tool_error", "halt_when")}),
        (_("On the page"), {"fields": ("notice", "examples")}),
        (_("Functions"), {"classes": ("collapse",), "fields": ("encoder", "executor")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Where a key is read from and sent to is for those who may configure tools: together they can give it away."""
        if access.may(request.user, "configure_tool"):
            return self.readonly_fields
        return (*self.readonly_fields, *KEY_FIELDS)

    def write(self, request: HttpRequest, obj: Engine, related: Mapping[str, Iterable[Any]]) -> None:
        """Through the store."""
        save_engine(obj, tools=related.get("tools"), groups=related.get("groups"))

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Django's; an address without scheme is https."""
        if db_field.name == "base_url":
            kwargs["assume_scheme"] = "https"
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def remove(self, obj: Engine) -> None:
        """Through the store."""
        delete_engine(obj)

    @admin.display(description=_("key"))
    def key(self, engine: Engine) -> str:
        """Whether it is there; never its value."""
        return key_status(engine)

    @admin.display(description=_("providers"))
    def providers(self, engine: Engine) -> SafeString:
        """What each kind of model id needs."""
        return provider_table()
