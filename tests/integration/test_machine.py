"""A stored session under random acts of everybody, crashes included: what holds after each (S01, S06–S08, H02, L15)."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any

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
from allm_django.core.history import check_history
from allm_django.core.ids import USABLE_ID
from allm_django.core.states import OPEN_STATES, CallState, RunState, session_status
from allm_django.errors import AllmError, ConflictError, StateError
from allm_django.loop import points
from allm_django.models import Event, Tool
from allm_django.present.records import events_after
from allm_django.present.sessions import session_detail
from allm_django.present.threads import thread_page
from allm_django.store.history import forget_history, load_history
from allm_django.store.tools import save_tool
from allm_django.testing import ScriptedModel, call, cut, drive, fail, raw_call, say
from tests.integration.desk import COUNT, Desk
from tests.integration.fold import Fold, differences
from tests.integration.standing import Crash, fresh, let_go

TOOLS = ("work", "safe", "refund", "ask", "halt", "broken")
CALLS = st.one_of(
    st.sampled_from(TOOLS).map(lambda name: call(name, {"n": 1})),
    st.sampled_from(["", "twice", "a b", "i" * 50]).map(lambda id: call("refund", {"n": 2}, id=id)),
    st.sampled_from(["{", '{"n": "x"}', "[]"]).map(lambda given: raw_call("work", given)),
    st.just(call("nothing")),
)
ANSWERS = st.one_of(
    st.sampled_from([say("Yes."), "", " ", cut("Half"), cut(""), fail(400), fail(503, retry_after=0)]),
    st.lists(CALLS, min_size=1, max_size=4),
    st.lists(CALLS, min_size=1, max_size=2).map(lambda calls: [say("I will."), *calls]),
)
SCRIPTS = st.lists(ANSWERS, max_size=3)
POINTS = [
    f"{place}:{side}"
    for place in ("begin_step", "provider", "complete_message", "start_call", "handler", "finish_call", "halt")
    for side in ("before", "after")
] + ["commit:before"]
VERBS = st.sampled_from(["approve", "edit", "answer", "reject", "retry", "reask"])


class Life(RuleBasedStateMachine):
    """One session, its owner, its approvers, its admin and its workers."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(transaction.atomic())
        self.stack.callback(transaction.set_rollback, True)
        self.desk = Desk(self.stack)
        self.started: Counter[str] = Counter()
        self.keys = 0
        self.sent: tuple[str, str] | None = None
        self._register()
        self.session = sessions.start(self.desk.engine(typing="supersede", max_turns=4), user=self.desk.user)
        self.fold = Fold.empty()

    def teardown(self) -> None:
        """Nothing of it stays."""
        points.hook = None
        self.stack.close()

    def _register(self) -> None:
        def noted(arguments: Any, ctx: allm.ToolContext) -> str:
            assert ctx.idempotency_key is not None
            self.started[ctx.idempotency_key] += 1
            return "done"

        def broken(arguments: Any) -> Any:
            raise allm.ToolError("It is broken.")

        self.desk.tool(noted, "work", schema=COUNT)
        self.desk.tool(lambda a, ctx: noted(a, ctx), "safe", idempotent=True)
        self.desk.tool(lambda a, ctx: noted(a, ctx), "refund", manual=True, schema=COUNT)
        self.desk.tool(lambda arguments: allm.AskUser("Which one?"), "ask")
        self.desk.tool(lambda arguments: allm.Halt("enough"), "halt")
        self.desk.tool(broken, "broken")

    @initialize(calls=st.lists(CALLS, max_size=3))
    def begin(self, calls: list[Any]) -> None:
        """A life begins with a call that waits, and with others."""
        self.send("Go.")
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

    # -- what workers do -----------------------------------------------------------------------------------------------

    @rule(script=SCRIPTS)
    def work(self, script: list[Any]) -> None:
        """A worker drives the session to its next halt."""
        self.session = drive(self.session, ScriptedModel([*script, *[say("Done.")] * 3]))

    @rule(
        calls=st.lists(CALLS, max_size=2),
        point=st.sampled_from(POINTS),
        passes=st.integers(0, 1),
        taken_over=st.booleans(),
    )
    def die(self, calls: list[Any], point: str, passes: int, taken_over: bool) -> None:
        """A worker dies at some point of its work; after a while its lease has run out, and another takes over."""
        self.send("And?")
        left = iter(range(passes))

        def crash(name: str) -> None:
            if name == point and next(left, None) is None:
                points.hook = None
                raise Crash

        points.hook = crash
        with suppress(Crash):
            drive(self.session, ScriptedModel([[call("work", {"n": 1}), *calls], *[say("Done.")] * 3]))
        points.hook = None
        let_go(self.session)
        forget_history(self.session.pk)
        if taken_over:
            self.work([])

    @rule()
    def move(self) -> None:
        """The session is taken elsewhere; life goes on there."""
        data = sessions.export(self.session, clear=True)
        moved = sessions.import_(data, user=self.desk.user, engine=self.session.engine)
        again = sessions.export(moved, clear=True)
        assert [message["text"] for message in again["messages"]] == [m["text"] for m in data["messages"]]
        self.session, self.fold, self.sent = moved, Fold.empty(), None

    # -- what holds ----------------------------------------------------------------------------------------------------

    @invariant()
    def events_have_no_gap_and_fold_to_what_a_load_shows(self) -> None:
        """Numbers from 1; a page that heard all sees what a page that just came sees."""
        numbers = Event.objects.filter(session=self.session).order_by("number").values_list("number", flat=True)
        session = fresh(self.session)
        assert list(numbers) == list(range(1, session.event_count + 1))
        self.fold.apply_all(events_after(session, self.fold.number, 500)["events"])
        load = session_detail(self.desk.user, session.pk) | thread_page(self.desk.user, session, limit=1000)
        assert differences(self.fold, load) == []

    @invariant()
    def the_stored_status_is_the_derived_one(self) -> None:
        """And what waits is counted."""
        session = fresh(self.session)
        run = session.runs.order_by("-created_at").first()
        states = [CallState(row.state) for row in session.calls.filter(state__in=OPEN_STATES)]
        derived = session_status(RunState(run.state) if run else None, run.halted_reason if run else "", states)
        assert (session.status, session.waiting) == (derived, len(states))
        assert (session.active_run is None) == (run is None or run.state == RunState.ENDED)

    @invariant()
    def each_call_has_at_most_one_result_and_ran_only_as_often_as_it_was_started(self) -> None:
        """Settled with an outcome, or neither."""
        for row in self.session.calls.all():
            assert (row.state == CallState.SETTLED) == bool(row.outcome) == bool(row.finished_at)
            assert self.started[row.idempotency_key] <= row.attempt
            assert row.attempt <= 1 or row.name == "safe" or row.decisions.filter(verb="retry").exists()

    @invariant()
    def the_history_is_one_that_every_provider_takes(self) -> None:
        """Calls answered at once and once, usable ids, nothing blank; the same from memory and from the rows."""
        remembered = load_history(self.session.pk)
        forget_history(self.session.pk)
        history = load_history(self.session.pk)
        assert remembered == history
        if any(message.role == "user" for message in history):
            check_history(history)
        assert all(message.content.strip() or message.calls or message.role == "tool" for message in history)
        ids = [made.id for message in history for made in message.calls]
        assert all(USABLE_ID.fullmatch(id) for id in ids)


# Whoever dies before a piece of work leaves it unawaited.
QUICK = settings(
    max_examples=10, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.django_db
@pytest.mark.row("S01", "S06", "S08", "L15")
def test_whatever_happens_in_whatever_order_a_session_stays_whole() -> None:
    run_state_machine_as_test(Life, settings=QUICK)


@pytest.mark.storm
@pytest.mark.django_db
def test_ten_thousand_lives() -> None:
    run_state_machine_as_test(Life, settings=settings(QUICK, max_examples=10_000, stateful_step_count=30))
