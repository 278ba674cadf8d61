"""Notifications: webhooks, who wants e-mails, and what became of each delivery."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from allm_django.admin.base import ReadOnlyAdmin, StoreAdmin
from allm_django.admin.display import json_block, link_to, link_to_key, one_line
from allm_django.admin.fields import add_at_field
from allm_django.errors import InvalidInputError
from allm_django.models import Delivery, MailSubscription, Webhook
from allm_django.models.notice import EVENTS
from allm_django.store import deliveries, webhooks


class WebhookForm(forms.ModelForm):  # type: ignore[type-arg]
    """With the store's own checks at their fields."""

    events = forms.MultipleChoiceField(
        label=_("events"),
        choices=[(event, event) for event in EVENTS],
        widget=forms.CheckboxSelectMultiple,
        initial=list(EVENTS),
    )

    class Meta:
        model = Webhook
        fields = ("name", "url", "secret_env", "events", "enabled")

    def clean(self) -> Any:
        """Ask the store about address and secret."""
        cleaned: Any = super().clean()
        given = {name: cleaned.get(name, "") for name in ("url", "secret_env")}
        if all(given.values()):
            try:
                webhooks.check_address(Webhook(**given))
            except InvalidInputError as error:
                add_at_field(self, error)
        return cleaned


@admin.register(Webhook)
class WebhookAdmin(StoreAdmin):
    """Addresses that are told."""

    form = WebhookForm
    list_display = ("name", "url", "secret", "enabled")
    readonly_fields = ("secret",)
    fields = ("name", "url", "secret_env", "secret", "events", "enabled")

    def write(self, request: HttpRequest, obj: Webhook, related: Mapping[str, Iterable[Any]]) -> None:
        """Through the store."""
        webhooks.save_webhook(obj)

    def remove(self, obj: Webhook) -> None:
        """Through the store."""
        webhooks.delete_webhook(obj)

    @admin.display(description=_("secret"))
    def secret(self, hook: Webhook) -> str:
        """Whether it is there; never its value."""
        if not hook.secret_env:
            return "–"
        return gettext("set") if os.environ.get(hook.secret_env) else gettext("not set in this process")


@admin.register(MailSubscription)
class MailSubscriptionAdmin(StoreAdmin):
    """Who gets e-mails of calls that they may decide, and of questions in their own sessions."""

    list_display = ("user", "enabled")
    raw_id_fields = ("user",)
    list_select_related = ("user",)

    def write(self, request: HttpRequest, obj: MailSubscription, related: Mapping[str, Iterable[Any]]) -> None:
        """Through the store."""
        webhooks.save_subscription(obj)

    def remove(self, obj: MailSubscription) -> None:
        """Through the store."""
        webhooks.delete_subscription(obj)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """What was told to whom, or is tried again. The newest first."""

    actions = ("send_again",)
    list_display = ("created_at", "event", "channel", "recipient", "state", "attempts", "next_at", "error")
    list_filter = ("state", "channel", "event")
    list_defer = ("payload",)
    search_fields = ()
    fields = (
        "id", "event", "channel", "recipient", "session", "call", "state", "attempts", "next_at", "last_status",
        "error", "content", "created_at", "finished_at",
    )  # fmt: skip

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """All, for those who may view deliveries: what is in them is masked."""
        return rows.select_related("webhook", "user")

    def has_send_permission(self, request: HttpRequest) -> bool:
        """Those who may change deliveries."""
        return bool(request.user.has_perm("allm_django.change_delivery"))

    @admin.action(description=_("Send again"), permissions=["send"])
    def send_again(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        """Let those that are done or given up be sent once more."""
        count = deliveries.send_again(rows.values_list("pk", flat=True))
        words = ngettext("%(count)d delivery is sent again.", "%(count)d deliveries are sent again.", count)
        self.message_user(request, words % {"count": count})

    @admin.display(description=_("recipient"))
    def recipient(self, row: Delivery) -> SafeString | str:
        """The webhook or the person."""
        return link_to(row.webhook) if row.webhook else one_line(str(row.user)) if row.user else "–"

    @admin.display(description=_("last error"))
    def error(self, row: Delivery) -> str:
        """What went wrong last."""
        return one_line(row.last_error) or "–"

    @admin.display(description=_("session"))
    def session(self, row: Delivery) -> SafeString:
        """What it is about."""
        return link_to_key("session", row.session_id, row.session_id)

    @admin.display(description=_("call"))
    def call(self, row: Delivery) -> SafeString:
        """What it is about."""
        return link_to_key("toolcall", row.call_id, row.call_id)

    @admin.display(description=_("content"))
    def content(self, row: Delivery) -> SafeString | str:
        """What a webhook is sent."""
        return json_block(row.payload or None)
