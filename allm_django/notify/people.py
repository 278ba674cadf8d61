"""Who gets an e-mail: active people who asked for it, have an address, and may do something about the call."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from allm_django import access
from allm_django.models import MailSubscription, ToolCall

TO_DECIDE = ("call.pending", "call.escalated", "call.expired")


def those_to_mail(event: str, call: ToolCall) -> list[Any]:
    """The owner when a tool asks; else everyone who may decide the call (groups and four-eyes as access says)."""
    if event not in (*TO_DECIDE, "call.asked"):
        return []
    asked = event == "call.asked" or call.question is not None
    wanted = MailSubscription.objects.filter(enabled=True, user__is_active=True).select_related("user")
    if asked:
        wanted = wanted.filter(user=call.session.owner_id)
    people = [subscription.user for subscription in wanted.iterator()]
    return [user for user in people if address_of(user) and (asked or access.may_decide(user, call))]


def address_of(user: Any) -> str:
    """The person's e-mail address; empty for none, and for one that is not an address."""
    field = getattr(type(user), "get_email_field_name", lambda: "email")()
    address = str(getattr(user, field, "") or "")
    try:
        validate_email(address)
    except ValidationError:
        return ""
    return address
