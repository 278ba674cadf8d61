"""The brain under random interleavings of everything that can happen to a run (H02, H07, L04–L06, L15, S02, S06).

The machine keeps a journal as the database does, by the project's own tables, verdicts and settlements; between any
two looks of the driver, handlers end, people decide, someone cancels, the worker dies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from allm_django.core.decide import (
    AwaitCalls,
    CallModel,
    CallView,
    CheckStep,
    CloseCalls,
    ExecuteCalls,
    HaltRun,
    Snapshot,
    next_action,
)
from allm_django.core.policy import Offer, judge
from allm_django.core.settle import (
    Ending,
    Settlement,
    after_crash,
    settle_answered,
    settle_closed,
    settle_ending,
    settle_rejected,
)
from allm_django.core.states import (
    OPEN_STATES,
    CallState,
    Outcome,
    RunState,
    SessionStatus,
    check_call_transition,
    check_run_transition,
    session_status,
)
from allm_django.core.types import Limits, ToolResult, ToolSpec

S = CallState
MAX_TURNS = 3
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
TOOLS = {
    "read": ToolSpec("read", "Reads.", SCHEMA, idempotent=True),
    "write": ToolSpec("write", "Writes.", SCHEMA),
    "refund": ToolSpec("refund", "Refunds.", SCHEMA, manual=True),
}
OFFER = Offer(TOOLS)
CALLS = st.lists(
    st.tuples(st.sampled_from([*TOOLS, "unheard_of"]), st.sampled_from(["", '{"n": 1}', '{"n": "x"}', "{", "[]"])),
    max_size=4,
)
ENDINGS = st.sampled_from(
    [
        Ending("ok", 1, "1"),
        Ending("error", code="tool_error", message="no"),
        Ending("ask", question="Sure?"),
        Ending("halt", 1, "1", word="out_of_stock"),
        Ending("timeout", code="timeout", message="late"),
    ]
)


@dataclass
class Row:
    """A call as the journal keeps it; ``allowed``: something let it run."""

    id: str
    name: str
    state: CallState
    run: int
    effect: str = ""
    results: list[ToolResult] = field(default_factory=list)
    allowed: bool = False
    starts: int = 0
    retries: int = 0

    @property
    def idempotent(self) -> bool:
        return self.name in TOOLS and TOOLS[self.name].idempotent

    def move(self, settlement: Settlement) -> None:
        check_call_transition(self.state, settlement.state, settlement.outcome)
        assert (settlement.result is not None) == (settlement.state is S.SETTLED)
        self.state, self.effect = settlement.state, settlement.effect
        if settlement.result is not None:
            self.results.append(settlement.result)


class Journal:
    """A thread and its runs."""

    def __init__(self) -> None:
        self.run = 0
        self.calls: list[Row] = []  # of the last message
        self.all: list[Row] = []
        self.checks = False
        self._begin()

    def _begin(self) -> None:
        self.run += 1
        self.state, self.reason = RunState.QUEUED, ""
        self.turns = self.blanks = self.checked = 0
        self.answered = self.cancel = self.halt_when = False
        self.error = ""

    def snapshot(self) -> Snapshot:
        return Snapshot(
            limits=Limits(max_turns=MAX_TURNS),
            calls=tuple(CallView(row.id, row.state, row.effect if row.run == self.run else "") for row in self.calls),
            turns=self.turns,
            blanks=self.blanks,
            answered=self.answered,
            cancel_requested=self.cancel,
            error=self.error,
            halt_when=self.halt_when,
            step_checked=not self.checks or self.checked == self.turns,
        )

    def to(self, state: RunState) -> None:
        check_run_transition(self.state, state)
        self.state = state

    def requeue(self) -> None:
        if self.state is RunState.WAITING:
            self.to(RunState.QUEUED)

    def take_answer(self, text: str, calls: list[tuple[str, str]]) -> None:
        self.turns += 1
        self.calls = []
        for name, raw in calls:
            id_ = f"c{len(self.all)}"
            verdict = judge(id_, name, raw, OFFER)
            row = Row(id_, name, verdict.state, self.run, verdict.effect, allowed=verdict.state is S.READY)
            if verdict.result is not None:
                row.results.append(verdict.result)
            self.calls.append(row)
            self.all.append(row)
        self.answered = bool(text) and not calls
        self.blanks = 0 if text or calls else self.blanks + 1

    def by_id(self, id_: str) -> Row:
        return next(row for row in self.calls if row.id == id_)

    @property
    def open(self) -> list[Row]:
        return [row for row in self.calls if row.state in OPEN_STATES]

    @property
    def executing(self) -> list[Row]:
        return [row for row in self.calls if row.state is S.EXECUTING]

    def resume(self) -> None:
        self._begin()


class Interleavings(RuleBasedStateMachine):
    """Rules are what may happen; invariants what must always hold."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = Journal()

    # -- the driver --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.journal.state in (RunState.QUEUED, RunState.RUNNING))
    @rule(text=st.sampled_from(["", "words"]), calls=CALLS, verdict=st.booleans(), breaks=st.booleans())
    def drive_once(self, text: str, calls: list[tuple[str, str]], verdict: bool, breaks: bool) -> None:
        self._act(text, calls, verdict, breaks)

    def _act(self, text: str, calls: list[tuple[str, str]], verdict: bool = False, breaks: bool = False) -> None:
        journal = self.journal
        if journal.state is RunState.QUEUED:
            journal.to(RunState.RUNNING)
        match next_action(journal.snapshot()):
            case CallModel():
                assert all(len(row.results) == 1 for row in journal.all), "a request with a call that has no result"
                assert journal.turns < MAX_TURNS
                assert not journal.cancel
                if breaks and not text and not calls:
                    journal.turns += 1
                    journal.error = "stream_broken"
                else:
                    journal.take_answer(text, calls)
            case ExecuteCalls(ids):
                for row in map(journal.by_id, ids):
                    assert row.allowed, "a call runs that nothing allowed"
                    row.move(Settlement(S.EXECUTING))
                    row.starts += 1
            case AwaitCalls():
                assert journal.executing
            case CheckStep():
                assert journal.checks
                journal.checked, journal.halt_when = journal.turns, verdict
            case CloseCalls():
                for row in journal.calls:
                    if row.state in (S.READY, S.PENDING, S.ASKING):
                        row.move(settle_closed(row.id, Outcome.CANCELLED))
                    elif row.state is S.EXECUTING:
                        row.move(settle_closed(row.id, Outcome.CANCELLED) if row.idempotent else after_crash(False))
            case HaltRun(reason, waiting, metadata):
                assert not any(row.state in (S.READY, S.EXECUTING) for row in journal.calls)
                assert waiting == bool(journal.open)
                pending = [row.id for row in journal.calls if row.state is S.PENDING]
                assert metadata.get("manual_tool_calls", []) == pending
                journal.to(RunState.WAITING if waiting else RunState.ENDED)
                journal.reason = reason

    # -- the world ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.journal.executing)
    @rule(data=st.data(), ending=ENDINGS, halts=st.booleans())
    def handler_ends(self, data: st.DataObject, ending: Ending, halts: bool) -> None:
        row = data.draw(st.sampled_from(self.journal.executing))
        row.move(settle_ending(row.id, ending, idempotent=row.idempotent, stored=True, halt_on_error=halts))

    @precondition(lambda self: self.journal.open)
    @rule(data=st.data(), verb=st.sampled_from(["approve", "reject", "answer", "retry"]))
    def person_decides(self, data: st.DataObject, verb: str) -> None:
        row = data.draw(st.sampled_from(self.journal.open))
        self._decide(row, verb)

    def _decide(self, row: Row, verb: str) -> None:
        if verb == "answer":
            row.move(settle_answered(row.id, "by hand"))
        elif verb == "reject" and row.state is not S.ASKING:
            row.move(settle_rejected(row.id, "no"))
        elif (verb, row.state) in (("approve", S.PENDING), ("retry", S.UNKNOWN)):
            row.move(Settlement(S.READY))
            row.allowed = True
            row.retries += verb == "retry"
        else:
            return
        self.journal.requeue()

    @precondition(lambda self: self.journal.state is not RunState.ENDED)
    @rule()
    def someone_cancels(self) -> None:
        self.journal.cancel = True
        self.journal.requeue()

    @precondition(lambda self: self.journal.state is RunState.RUNNING)
    @rule()
    def worker_dies(self) -> None:
        for row in self.journal.executing:
            row.move(after_crash(row.idempotent))
        self.journal.to(RunState.QUEUED)

    @precondition(lambda self: self.journal.state is RunState.ENDED and not self.journal.answered)
    @rule(checks=st.booleans())
    def someone_resumes(self, checks: bool) -> None:
        self.journal.checks = checks
        self.journal.resume()

    @precondition(lambda self: self.journal.state is RunState.ENDED)
    @rule()
    def someone_writes(self) -> None:
        self.journal.calls = []
        self.journal.resume()

    # -- what holds --------------------------------------------------------------------------------------------------

    @invariant()
    def each_call_has_at_most_one_result_and_has_it_exactly_when_settled(self) -> None:
        for row in self.journal.all:
            assert len(row.results) == (row.state is S.SETTLED)

    @invariant()
    def nothing_ran_that_nobody_allowed(self) -> None:
        assert all(row.allowed for row in self.journal.all if row.starts)

    @invariant()
    def a_call_with_effects_started_once_unless_a_person_said_again(self) -> None:
        for row in self.journal.all:
            if not row.idempotent:
                assert row.starts <= 1 + row.retries

    @invariant()
    def the_status_never_contradicts_the_rows(self) -> None:
        journal = self.journal
        states = [row.state for row in journal.open]
        status = session_status(journal.state, journal.reason, states)
        if journal.state is RunState.WAITING:
            assert states
            assert status is (SessionStatus.AWAITING_USER if S.ASKING in states else SessionStatus.AWAITING_TOOLS)
        if journal.state is RunState.ENDED:
            assert not states
            assert (status is SessionStatus.ERROR) == (journal.reason in ("error", "tool_error"))

    def teardown(self) -> None:
        """From wherever it stands: a cancel and a word on what is unknown end the run, in a few looks."""
        journal = self.journal
        if journal.state is not RunState.ENDED:
            self.someone_cancels()
        for _ in range(3 * (len(journal.calls) + 2)):
            if journal.state is RunState.ENDED:
                break
            if journal.state is RunState.WAITING:
                for row in journal.open:
                    assert row.state is S.UNKNOWN
                    self._decide(row, "reject")
                journal.requeue()
            self._act("", [])
        assert journal.state is RunState.ENDED
        self.each_call_has_at_most_one_result_and_has_it_exactly_when_settled()
        assert all(row.state is S.SETTLED for row in journal.all)
        journal.calls = []
        journal.resume()
        assert next_action(journal.snapshot()) == CallModel()  # and the thread goes on


Interleavings.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestInterleavings = Interleavings.TestCase
TestInterleavings.pytestmark = [pytest.mark.row("L04", "L06", "L15", "S06")]


@pytest.mark.row("L06")
def test_left_alone_every_run_ends_within_its_turns() -> None:
    """Termination: with people who decide and handlers that end, a run of N turns takes a bounded number of looks."""
    machine = Interleavings()
    journal = machine.journal
    answer: Any = [("read", ""), ("write", '{"n": 1}'), ("refund", ""), ("unheard_of", "")]
    for _looks in range(1, 20 * MAX_TURNS):
        machine._act("", answer)
        for row in journal.executing:
            row.move(settle_ending(row.id, Ending("ok"), idempotent=row.idempotent, stored=True))
        if journal.state is RunState.WAITING:
            for row in journal.open:
                machine._decide(row, "approve" if row.state is S.PENDING else "answer")
        if journal.state is RunState.ENDED:
            break
    assert (journal.state, journal.reason, journal.turns) == (RunState.ENDED, "max_turns", MAX_TURNS)
