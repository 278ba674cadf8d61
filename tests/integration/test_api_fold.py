"""Stale state plus events equals a fresh load: at every point of a session's life, for every point before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from allm_django import sessions
from allm_django.core.results import AskUser
from allm_django.models import Engine, Session
from allm_django.testing import ScriptedModel, call, cut, drive, fail, open_calls, registered, say
from allm_django.tools.definition import tool
from tests.integration.cast import Browser, a_tool, an_engine, person, without_runner
from tests.integration.fold import Fold, differences

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@tool(manual=True, sensitive=["card"])
def refund(order: int, amount: float = 1.0, card: str = "") -> str:
    """Refund an order."""
    if order == 13:
        raise ValueError("no such order")
    return f"refunded {amount}"


@tool
def pick(colour: str) -> Any:
    """Ask for a colour."""
    return AskUser("Which shade?", options=["light", "dark"])


@pytest.fixture(autouse=True)
def _rooms() -> Iterator[None]:
    with without_runner(), registered(refund) as refunds, registered(pick) as picks:
        a_tool("refund", handler=refunds.key, schema=refunds.schema, sensitive=["card"])
        a_tool("pick", handler=picks.key, schema=picks.schema, manual=False)
        yield


class Life:
    """A session's life, with what a page would load after each act."""

    def __init__(self) -> None:
        self.ann, self.kim = person("ann", "chat"), person("kim", "decide_toolcall")
        self.browser = Browser(self.ann)
        self.engine: Engine = an_engine()
        self.session: Session = sessions.start(self.engine, user=self.ann, text="Refund order 7.")
        self.loads: list[dict[str, Any]] = []
        self.note()

    def note(self) -> None:
        """Load the page."""
        self.loads.append(self.browser.get(f"sessions/{self.session.pk}/").json())

    def goes_on(self, *script: Any) -> None:
        """The model says what it does next."""
        drive(self.session, ScriptedModel(list(script)))
        self.note()

    def decided(self, verb: str, **fields: Any) -> None:
        """Kim decides the first call that waits."""
        waiting = open_calls(self.session)[0]
        sessions.decide(waiting, verb, by=self.kim, version=waiting.version, **fields)
        self.note()

    def said(self, text: str) -> None:
        """Ann writes."""
        sessions.reply(self.session, text, user=self.ann)
        self.note()

    def stopped(self) -> None:
        """Ann stops it."""
        sessions.cancel(self.session, user=self.ann)
        self.note()


@pytest.mark.row("S08")
def test_stale_state_plus_events_equals_a_fresh_load() -> None:
    life = Life()
    cards = [call("refund", {"order": n, "card": "4111"}) for n in (7, 8, 13)]
    life.goes_on([say("I will."), *cards, call("pick", {"colour": "red"}), call("pick", {"colour": 7})])
    life.decided("edit", arguments={"order": 7, "amount": 2.5})
    life.decided("reject", reason="Not that one.")
    life.goes_on()
    life.decided("approve")
    life.goes_on()
    life.said("dark")
    life.goes_on([say("Next."), call("nothing", {})], fail(status=400))
    life.goes_on()
    life.said("Once more.")
    life.goes_on(cut("Half an ans"))
    life.said("Again.")
    life.goes_on([call("refund", {"order": 9})])
    life.stopped()
    life.said("Thanks.")
    life.goes_on(say("You are welcome."))
    assert life.loads[-1]["session"]["status"] == "completed"
    events = life.browser.get(f"sessions/{life.session.pk}/events/", limit=500).json()["events"]
    for place, earlier in enumerate(life.loads):
        for later in life.loads[place:]:
            upto = [event for event in events if event["n"] <= later["event"]]
            found = differences(Fold(earlier).apply_all(upto), later)
            assert not found, chr(10).join(found)
    assert differences(Fold.empty().apply_all(events), life.loads[-1]) == []
