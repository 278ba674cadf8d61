"""What must hold of a session, whatever was killed on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from allm_django.core.history import check_history
from allm_django.core.states import CallState, RunState
from allm_django.errors import AllmError
from allm_django.models import MessageChunk, Session, ToolCall
from allm_django.store.history import forget_history, load_history
from allm_django.store.shapes import call_shape, message_shape

ONCE = ("charge", "refund", "hang")


def problems_of(session: Session, ledger: Sequence[str]) -> Iterator[str]:
    """Everything that is wrong with it, in words; ``ledger``: a line an effect, ``kind key``."""
    yield from _problems_of_effects(session, Counter(ledger))
    yield from _problems_of_recipes(session)
    yield from _problems_of_events(session)
    yield from _problems_of_history(session)
    run = session.active_run
    if run is not None and run.state in (RunState.QUEUED, RunState.RUNNING):
        yield f"still {run.state}"
    if session.lease_owner is not None:
        yield "its lease was not given back"
    if session.messages.filter(complete=False, broken="").exists():
        yield "a message is still streaming"
    if MessageChunk.objects.filter(message__session=session).exists():
        yield "chunks were left"


def _problems_of_effects(session: Session, ledger: Counter[str]) -> Iterator[str]:
    for call in session.calls.filter(plan_shape=""):
        times = ledger[f"{call.name} {call.idempotency_key}"]
        if call.name in ONCE and times > 1:
            yield f"{call.name} took effect {times} times"
        if times > call.attempt:
            yield f"{call.name} took effect {times} times, its starts on record are {call.attempt}"
        if call.outcome == "succeeded" and not times:
            yield f"{call.name} succeeded without effect"
        if call.state != CallState.SETTLED:
            yield f"{call.name} is {call.state}"
        if times and call.name == "refund" and not call.decisions.filter(verb="approve").exists():
            yield "refund ran though nobody allowed it"


def _problems_of_recipes(session: Session) -> Iterator[str]:
    for recipe in session.calls.exclude(plan_shape=""):
        steps = list(recipe.steps.order_by("position"))
        if [step.name for step in steps] != ["note", "charge", "refund"] or recipe.outcome != "succeeded":
            yield f"{recipe.name} is {recipe.outcome} with {[step.name for step in steps]}"
        for step in steps:
            if step.content not in recipe.content:
                yield f"{recipe.name} does not have {step.name}'s result"


def _problems_of_events(session: Session) -> Iterator[str]:
    numbers = [event.number for event in session.events.order_by("number")]
    if numbers != list(range(1, session.event_count + 1)):
        yield f"event numbers are {numbers}, the counter is {session.event_count}"
    told: dict[str, dict[str, object]] = {}
    for event in session.events.order_by("number"):
        for item in [*event.data.get("messages", []), *event.data.get("calls", [])]:
            if told.get(item["id"], {}).get("outcome") and not item.get("outcome"):
                yield f"event {event.number} takes the result of {item['name']} back"
            told[item["id"]] = item
    calls = {call.id: call for call in session.calls.select_related("tool_version")}
    for call in calls.values():
        yield from _differences(call.name, told.get(str(call.id)), call_shape(call))
    for message in session.messages.all():
        ids = [
            str(call.id)
            for call in sorted(calls.values(), key=_place)
            if call.message_id == message.id and not call.parent_id
        ]
        yield from _differences(f"message {message.position}", told.get(str(message.id)), message_shape(message, ids))


def _place(call: ToolCall) -> int:
    return call.position


def _differences(what: str, told: object, stands: dict[str, object]) -> Iterator[str]:
    """Whoever has all events must have what the rows say."""
    if not isinstance(told, dict):
        yield f"no event tells of {what}"
        return
    for name, value in stands.items():
        if told.get(name) != value:
            yield f"{what}.{name} is {value!r}, events tell {told.get(name)!r}"


def _problems_of_history(session: Session) -> Iterator[str]:
    forget_history(session.pk)
    try:
        check_history(load_history(session.pk))
    except AllmError as error:
        yield error.message
