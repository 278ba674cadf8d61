"""Rows for the admin's tests: people with permissions, sessions with a turn and its call."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission, User
from django.utils import timezone

from allm_django.core.states import CallState, Outcome, RunState
from allm_django.models import Decision, Engine, Event, Message, Run, Session, Tool, ToolCall
from allm_django.store.tools import current_version, save_tool

REFUND = "project.support.tools.refund_order"
LOOKUP = "project.support.tools.order_status"
REFUND_SCHEMA = {"type": "object", "properties": {"order_id": {"type": "integer"}, "card": {"type": "string"}}}


def person(name: str, *permissions: str, staff: bool = True) -> User:
    """Someone with those permissions of ours."""
    user = User.objects.create_user(username=name, password="x", is_staff=staff)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="allm_django", codename__in=permissions)
    )
    return user


def make_tool(name: str = "lookup", **values: Any) -> Tool:
    """A tool as an admin would save it."""
    values = {"handler": LOOKUP, "manual": False, "enabled": True, "description": "Looks things up."} | values
    return save_tool(Tool(name=name, title=values.pop("title", name.title()), **values))


def make_session(owner: User, title: str = "A session", engine: Engine | None = None) -> Session:
    """An empty session."""
    engine = engine or Engine.objects.get_or_create(name="desk", defaults={"model": "planner:desk"})[0]
    return Session.objects.create(owner=owner, engine=engine, title=title)


def make_call(
    session: Session, tool: Tool, arguments: dict[str, Any], *, state: CallState = CallState.PENDING, **values: Any
) -> ToolCall:
    """A turn in ``session`` with one call of ``tool``."""
    number = session.messages.count()
    run = Run.objects.create(
        session=session,
        state=RunState.ENDED if state == CallState.SETTLED else RunState.WAITING,
        halted_reason="completed" if state == CallState.SETTLED else "manual_tool_calls",
        request_id="r",
    )
    message = Message.objects.create(
        session=session, run=run, position=number + 1, role=Message.Role.ASSISTANT, text=f"Turn {number}"
    )
    values.setdefault("outcome", Outcome.SUCCEEDED if state == CallState.SETTLED else "")
    return ToolCall.objects.create(
        session=session,
        run=run,
        message=message,
        position=0,
        call_id=f"call-{number}",
        name=tool.name,
        tool_version=current_version(tool),
        raw_arguments=values.pop("raw_arguments", str(arguments)),
        asked_arguments=arguments,
        arguments=arguments,
        state=state,
        **values,
    )


def make_decision(call: ToolCall, who: str = "Kim", verb: str = "approve", reason: str = "") -> Decision:
    """A decision on ``call``."""
    return Decision.objects.create(
        session=call.session,
        call=call,
        number=call.session.decisions.count() + 1,
        call_version=1,
        who=who,
        verb=verb,
        name=call.name,
        arguments_before=call.asked_arguments,
        arguments_after=call.arguments,
        reason=reason,
        outcome="ready",
        created_at=timezone.now(),
        hmac="0" * 64,
    )


def make_event(session: Session) -> Event:
    """The session's next event."""
    return Event.objects.create(
        session=session, number=session.events.count() + 1, kind="MessageAdded", data={}, created_at=timezone.now()
    )
