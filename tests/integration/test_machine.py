"""A stored session under random acts of everybody, crashes included: what holds after each (S01, S06–S08, H02, L15)."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import allm_django as allm
from allm_django import sessions
from allm_django.chat.replay import replay
from allm_django.core.history import check_history
from allm_django.core.ids import USABLE_ID
from allm_django.core.states import OPEN_STATES, CallState, RunState, session_status
from allm_django.errors import AllmError, ConflictError, StateError
from allm_django.loop import points
from allm_django.models import Engine, Message, Run, Session, Tool, ToolCall
from allm_django.present.sessions import session_detail
from allm_django.runtime.tail import Cursor
from allm_django.store import leases
from allm_django.store.history import forget_history, load_history
from allm_django.store.shapes import call_shape, message_shape, session_shape
from allm_django.store.tools import save_tool
from allm_django.testing import ScriptedModel, call, cut, fail, raw_call, registered, say
from tests.integration.desk import ANY, COUNT, Desk
from tests.integration.fold import Fold, differences
from tests.integration.inline import Crash, drive_here
from tests.integration.standing import fresh, let_go

TOOLS = ("work", "safe", "refund", "ask", "halt", "broken", "plan")
CALLS = st.one_of(
    st.sampled_from(TOOLS).map(lambda name: call(name, {"n": 1})),
    st.sampled_from(["", "twice", "a b", "i" * 50]).map(lambda id: call("refund", {"n": 2}, id=id)),
    st.sampled_from(["{", '{"n": "x"}', "[]"]).map(lambda given: raw_call("work", given)),
    st.just(call("nothing")),
)
ANSWERS = st.one_of(
    st.sampled_from([say("Yes, and 🙂."), "", " ", cut("Half of it"), cut(""), fail(400), fail(503, retry_after=0)]),
    st.lists(CALLS, min_size=1, max_size=4),
    st.lists(CALLS, min_size=1, max_size=2).map(lambda calls: [say("I will."), *calls]),
)
SCRIPTS = st.lists(ANSWERS, max_size=3)
PLACES = ["begin_step", "provider", "complete_message", "break_message", "start_call", "handler", "finish_call"]
PLACES += ["flush", "flush", "add_steps", "halt"]
POINTS = [f"{place}:{side}" for place in PLACES for side in ("before", "after")]
DEATHS = [*POINTS, "commit:before"]
VERBS = st.sampled_from(["approve", "edit", "answer", "reject", "retry", "reask"])
ACTS = ("cancel", "decide", "configure", "send", "claim")


class World:
    """What all lives share: people, tools, an engine, and the loop that drives. ``started`` counts handlers' starts."""

    def __init__(self, desk: Desk, loop: asyncio.Runner) -> None:
        self.desk, self.loop = desk, loop
        self.started: Counter[str] = Counter()

        def noted(arguments: Any, ctx: allm.ToolContext) -> str:
            assert ctx.idempotency_key is not None
            self.started[ctx.idempotency_key] += 1
            return "done"

        def broken(arguments: Any) -> Any:
            raise allm.ToolError("It is broken.")

        desk.tool(noted, "work", schema=COUNT)
        desk.tool(lambda a, ctx: noted(a, ctx), "safe", idempotent=True)
        desk.tool(lambda a, ctx: noted(a, ctx), "refund", manual=True, schema=COUNT)
        desk.tool(lambda arguments: allm.AskUser("Which one?"), "ask")
        desk.tool(lambda arguments: allm.Halt("enough"), "halt")
        desk.tool(broken, "broken")
        steps = [allm.Step(name, {"n": 1}, name) for name in ("work", "refund", "broken")]
        plan = allm.recipe(schema=ANY, name="plan", manual="default")(lambda arguments: allm.Plan(serial=steps))
        key = desk.stack.enter_context(registered(plan)).key
        save_tool(Tool(name="plan", handler=key, description="Plan.", schema=ANY, enabled=True, manual=False))
        self.engine: Engine = desk.engine(typing="supersede", max_turns=4)


class Life(RuleBasedStateMachine):
    """One session, its owner, its approvers, its admin and its workers."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.stack = ExitStack()
        self.stack.enter_context(transaction.atomic())
        self.stack.callback(transaction.set_rollback, True)
        self.keys = 0
        self.has_moved = False
        self.sent: tuple[str, str] | None = None
        self._live_in(sessions.start(world.engine, user=world.desk.user, text="Go."))

    def teardown(self) -> None:
        """What holds at the end holds for all that people look at; then nothing of it stays."""
        points.hook = None
        try:
            self._check_whole()
        finally:
            self.stack.close()

    def _live_in(self, session: Session) -> None:
        self.session, self.fold, self.cursor = session, Fold.empty(), Cursor()

    @initialize(calls=st.lists(CALLS, max_size=3))
    def begin(self, calls: list[Any]) -> None:
        """A life begins with a call that waits, and with others."""
        self.work([[call("refund", {"n": 1}), *calls]])

    # -- what people do ------------------------------------------------------------------------------------------------

    @rule(text=st.sampled_from(["Go.", "And?"]))
    def send(self, text: str) -> None:
        """The owner writes, whatever the state."""
        self.keys += 1
        with suppress(StateError):
            sessions.reply(self.session, text, key=f"key-{self.keys}")
            self.sent = text, f"key-{self.keys}"

    @precondition(lambda self: self.sent)
    @rule()
    def send_again(self) -> None:
        """The same request comes once more: nothing happens."""
        assert self.sent is not None
        before = fresh(self.session).event_count
        sessions.reply(self.session, self.sent[0], key=self.sent[1])
        assert fresh(self.session).event_count == before

    @rule(verb=st.sampled_from([sessions.cancel, sessions.resume, sessions.step]))
    def command(self, verb: Any) -> None:
        """Stop, or go on."""
        with suppress(StateError):
            verb(self.session)

    @rule(place=st.integers(0, 9), verb=VERBS, seen=st.integers(0, 1), twice=st.booleans())
    def decide(self, place: int, verb: str, seen: int, twice: bool) -> None:
        """Somebody decides a call, open or not, perhaps as it was before, perhaps at once again."""
        calls = list(self.session.calls.order_by("message__position", "position"))
        if not calls:
            return
        found = [row for row in calls if row.state in OPEN_STATES] or calls
        row = found[place % len(found)]
        more = {"arguments": {"n": 3}} if verb == "edit" else {}
        try:
            sessions.decide(row, verb, by=None, version=row.version - seen, value=1, **more)
        except AllmError:
            return
        assert not seen
        assert row.state in OPEN_STATES
        if twice:
            with pytest.raises(ConflictError):
                sessions.decide(row, verb, by=None, version=row.version, value=1, **more)

    @rule(name=st.sampled_from(TOOLS), change=st.sampled_from(["description", "enabled"]))
    def configure(self, name: str, change: str) -> None:
        """An admin changes a tool, or switches it off or on."""
        tool = Tool.objects.get(name=name)
        if change == "enabled":
            tool.enabled = not tool.enabled
        else:
            tool.description += "!"
        save_tool(tool)

    @precondition(lambda self: not self.has_moved)
    @rule()
    def move(self) -> None:
        """The session is taken elsewhere; life goes on there."""
        data = sessions.export(self.session, clear=True)
        moved = sessions.import_(data, user=self.world.desk.user, engine=self.world.engine)
        texts = moved.messages.order_by("position").values_list("text", flat=True)
        assert list(texts) == [message["text"] for message in data["messages"]]
        self.has_moved, self.sent = True, None
        self._live_in(moved)

    # -- what workers do -----------------------------------------------------------------------------------------------

    @rule(script=SCRIPTS)
    def work(self, script: list[Any]) -> None:
        """A worker drives the session to its next halt, or to where it dies."""
        drive_here(self.world.loop, self.session, ScriptedModel([*script, *[say("Done.")] * 3], chunk_size=3))
        self.session = fresh(self.session)

    @rule(script=SCRIPTS, point=st.sampled_from(POINTS), passes=st.integers(0, 1), act=st.sampled_from(ACTS))
    def meanwhile(self, script: list[Any], point: str, passes: int, act: str) -> None:
        """While a worker is at work, others act."""
        self.send("Now.")
        acts = {
            "cancel": lambda: self.command(sessions.cancel),
            "decide": lambda: self.decide(0, "approve", 0, False),
            "configure": lambda: self.configure("work", "enabled"),
            "send": lambda: self.send("Well?"),
            "claim": self._claim_in_vain,
        }
        self._at(point, passes, acts[act])
        self.work(script)
        points.hook = None

    @rule(
        script=SCRIPTS, point=st.sampled_from([*POINTS, "commit:before"]), passes=st.integers(0, 1), again=st.booleans()
    )
    def die(self, script: list[Any], point: str, passes: int, again: bool) -> None:
        """A worker dies at some point of its work; its lease runs out, and perhaps another takes over."""
        self.send("And?")

        def crash() -> None:
            raise Crash

        self._at(point, passes, crash)
        self.work(script)
        points.hook = None
        let_go(self.session)
        forget_history(self.session.pk)
        if again:
            self.all_is_well()
            self.work([])

    def _at(self, point: str, passes: int, act: Callable[[], None]) -> None:
        left = iter(range(passes))

        def hook(name: str) -> None:
            if name == point and next(left, None) is None:
                points.hook = None
                act()

        points.hook = hook

    def _claim_in_vain(self) -> None:
        held = fresh(self.session).lease_owner is not None
        assert (leases.claim_run(self.session.pk, uuid4()) is None) or not held

    # -- what holds ----------------------------------------------------------------------------------------------------

    @invariant()
    def all_is_well(self) -> None:
        """After each act: all that can be told from the rows, if anything has happened."""
        session = fresh(self.session)
        if session.event_count == self.fold.number and not self.cursor.offset:
            return
        run = session.runs.order_by("-created_at").first()
        calls = list(session.calls.select_related("tool_version").order_by("message__position", "position"))
        self._check_status(session, run, calls)
        for row in calls:
            self._check_call(row)
        self._hear(session)
        messages = list(session.messages.order_by("position"))
        if any(message.streaming for message in messages):
            view = session_detail(self.world.desk.user, session.pk)
        else:
            view = _view(session, run, messages, calls)
        assert differences(self.fold, view) == []
        self._check_history()

    def _hear(self, session: Session) -> None:
        """Events have no gap; text that a page has once shown stays, whatever becomes of its message."""
        shown = {key: message["text"] for key, message in self.fold.messages.items()}
        news = replay(session.pk, self.cursor)
        assert not news.resync
        self.fold.apply_all(map(json.loads, news.frames))
        self.cursor = news.cursor
        assert self.fold.number == session.event_count
        assert all(self.fold.messages[key]["text"].startswith(words) for key, words in shown.items())

    def _check_status(self, session: Session, run: Run | None, calls: list[ToolCall]) -> None:
        """The stored status is the derived one, and what waits is counted."""
        states = [CallState(row.state) for row in calls if row.state in OPEN_STATES]
        derived = session_status(RunState(run.state) if run else None, run.halted_reason if run else "", states)
        assert (session.status, session.waiting) == (derived, len(states))
        assert (session.active_run_id is None) == (run is None or run.state == RunState.ENDED)

    def _check_call(self, row: ToolCall) -> None:
        """Settled with one outcome, or neither; never run more often than it was started."""
        assert (row.state == CallState.SETTLED) == bool(row.outcome) == bool(row.finished_at)
        assert self.world.started[row.idempotency_key] <= row.attempt
        assert row.attempt <= 1 or row.name == "safe" or row.decisions.filter(verb="retry").exists()

    def _check_history(self) -> None:
        """The history is one that every provider takes: calls answered at once and once, usable ids, nothing blank."""
        history = load_history(self.session.pk)
        if any(message.role == "user" for message in history):
            check_history(history)
        assert all(message.content.strip() or message.calls or message.role == "tool" for message in history)
        assert all(USABLE_ID.fullmatch(made.id) for message in history for made in message.calls)

    def _check_whole(self) -> None:
        """What is presented is what was heard; memory and rows tell the same history. Dear, so not after each life."""
        session = fresh(self.session)
        assert session.event_count == self.fold.number
        if session.event_count % 4 == 0:
            assert differences(self.fold, session_detail(self.world.desk.user, session.pk)) == []
            remembered = load_history(session.pk)
            forget_history(session.pk)
            assert load_history(session.pk) == remembered


def _view(session: Session, run: Run | None, messages: list[Message], calls: list[ToolCall]) -> dict[str, Any]:
    """A fresh load, from rows at hand."""
    ids: dict[Any, list[str]] = {}
    for row in calls:
        if row.parent_id is None:
            ids.setdefault(row.message_id, []).append(str(row.pk))
    return {
        "session": session_shape(session, run),
        "messages": [message_shape(message, ids.get(message.pk, ())) for message in messages],
        "calls": [call_shape(row) for row in calls],
    }


@pytest.fixture
def world(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Where lives take place; all of it is one thread."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    gc.freeze()  # all that was imported need not be looked at again and again
    with asyncio.Runner() as loop:
        yield World(desk, loop)
    gc.unfreeze()


def live(world: World, lives: int, acts: int) -> None:
    """So many lives of at most so many acts."""
    wanted = settings(
        max_examples=lives,
        stateful_step_count=acts,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(lambda: Life(world), settings=wanted)


@pytest.mark.row("S01", "S06", "S08", "L15")
def test_whatever_happens_in_whatever_order_a_session_stays_whole(world: World) -> None:
    live(world, lives=int(os.environ.get("ALLM_LIVES", "200")), acts=4)


@pytest.mark.storm
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_lives(world: World, part: int) -> None:
    live(world, lives=500, acts=30)
