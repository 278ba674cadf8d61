"""Who asks, and what there is to ask for: one small world for the whole matrix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from allm_django.core.states import CallState
from allm_django.models import (
    Delivery,
    Engine,
    Grant,
    MailSubscription,
    Rule,
    Run,
    Session,
    Tombstone,
    ToolCall,
    Webhook,
    Worker,
)
from tests.integration.admin_rows import make_call, make_decision, make_session, make_tool
from tests.integration.cast import a_tool, waiting_call

ROLES = ("anonymous", "stranger", "reader", "owner", "approver", "configurer", "inactive", "superuser")
NOW = timezone.now()
REFUND = "project.support.tools.refund_order"
# whether each role may enter the admin, and its permissions as patterns; the two left out hold all
RIGHTS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "stranger": (False, ()),
    "reader": (True, ("view_.*",)),
    "owner": (False, ("chat",)),
    "approver": (True, ("decide_toolcall",)),
    "configurer": (True, ("configure_tool", "view_tool", "add_tool", "change_tool", "delete_tool")),
}


@dataclass(frozen=True, slots=True)
class World:
    """The browsers by role, and the objects by the names that the table gives them."""

    browsers: dict[str, Client]
    objects: dict[str, Any]


def build() -> World:
    """Everything, in the database that is open. All sessions are the owner's; ``call`` waits for a decision."""
    people = {role: _person(role) for role in ROLES if role != "anonymous"}
    browsers = {role: Client(raise_request_exception=False) for role in ROLES}
    for role, user in people.items():
        browsers[role].force_login(user)
    return World(browsers, _objects(people))


def _person(role: str) -> User:
    everything = role in ("inactive", "superuser")
    staff, rights = RIGHTS.get(role, (True, ()))
    user = User.objects.create_user(
        role, is_staff=staff, is_superuser=everything, is_active=role != "inactive", first_name=role.title()
    )
    ours = Permission.objects.filter(content_type__app_label="allm_django")
    pattern = "|".join(rights) or "none"
    user.user_permissions.set(right for right in ours if re.fullmatch(pattern, right.codename))
    return user


def _objects(people: dict[str, User]) -> dict[str, Any]:
    """A colleague's new object is one more entry here; the name is what stands between < and > in the table."""
    owner, tool = people["owner"], a_tool(handler=REFUND)
    call = waiting_call(owner)
    event = call.session.events.get(number=1)
    return {
        "session": call.session,
        "call": call,
        "toolcall": call,
        "pendingcall": call,
        "unknown": _call_in(owner, CallState.UNKNOWN),
        "asking": _call_in(owner, CallState.ASKING, question={"text": "Which?", "options": []}),
        "decision": make_decision(call),
        "event": event,
        "run": call.run,
        "engine": call.session.engine,
        "tombstone": Tombstone.objects.create(
            session_id=uuid4(), why="retention", counts={"calls": 1}, intact=True, purged_at=NOW, hmac="0" * 64
        ),
        "tool": tool,
        **_notices(call),
        "rule": Rule.objects.create(name="over 100", effect="ask", when={}, tool=tool),
        "grant": _grant(call, people["approver"]),
        "worker": Worker.objects.create(host="here", pid=1, version="1", layer="memory", started_at=NOW, seen_at=NOW),
    }


def _notices(call: ToolCall) -> dict[str, Any]:
    hook = Webhook.objects.create(name="shop", url="https://shop.example/", secret_env="ALLM_WEBHOOK_SHOP")
    return {
        "webhook": hook,
        "mailsubscription": MailSubscription.objects.create(user=User.objects.get(username="approver")),
        "delivery": Delivery.objects.create(
            channel="webhook", event="call.pending", session_id=call.session_id, call_id=call.pk, webhook=hook,
            state="failed", next_at=NOW, created_at=NOW,
        ),
    }  # fmt: skip


def _grant(call: ToolCall, by: User) -> Grant:
    rest = {"session": call.session, "owner": call.session.owner, "tool_version": call.tool_version, "name": call.name}
    times = {"created_at": NOW, "expires_at": NOW + timedelta(days=1)}
    return Grant.objects.create(call=call, user=by, who=str(by), scope="session", match="any", **rest, **times)


def _call_in(owner: User, state: CallState, **values: Any) -> ToolCall:
    session = make_session(owner, engine=Engine.objects.get())
    call = make_call(session, make_tool(f"a-{state}"), {"order_id": "7"}, state=state, **values)
    Session.objects.filter(pk=session.pk).update(active_run=Run.objects.get(pk=call.run_id))
    call.refresh_from_db()
    return call
