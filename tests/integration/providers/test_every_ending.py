"""A session in which every kind of ending occurred, as our adapters send it: each request obeys its provider (S06)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import httpx2
import pytest

import allm_django as allm
from allm_django import sessions
from allm_django.models import Tool
from allm_django.providers import http
from allm_django.store.tools import save_tool
from allm_django.testing import drive
from tests.integration.desk import COUNT, Desk
from tests.integration.providers import rules
from tests.integration.providers.reading import model_at
from tests.integration.providers.server import DROP, Reply, Server, refusal
from tests.integration.providers.speaking import Call, spoken
from tests.integration.standing import die_at, let_go

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("S06", "L14", "L15")]
ONE = '{"n": 1}'


@pytest.fixture(autouse=True)
def _clients_without_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each drive has a loop and so a client of its own; reading certificates for loopback would be all the time."""
    monkeypatch.setattr(http, "create_async_httpx2_client", partial(httpx2.AsyncClient, verify=False))


class Talk:
    """A session whose model is a real adapter, its provider on loopback."""

    def __init__(self, desk: Desk, server: Server, kind: str) -> None:
        self.desk, self.server, self.kind = desk, server, kind
        self.made = 0
        _tools(desk)
        desk.start(typing="supersede")
        desk.model = model_at(server, kind)  # type: ignore[assignment]

    def call(self, name: str, arguments: str = ONE, id: str | None = None) -> Call:
        """A call, by default under an id as providers make them."""
        self.made += 1
        return name, arguments, f"call_{self.made}" if id is None else id

    def hears(self, *replies: Any) -> None:
        """Drive on while the model answers so."""
        self.server.answer(*replies)
        self.desk.drive()

    def says(self, text: str = "", *calls: Call, **more: Any) -> list[bytes]:
        """An answer of this provider."""
        return spoken(self.kind, text, calls, **more)

    def writes(self, text: str) -> None:
        """The owner's next message."""
        sessions.reply(self.desk.session, text)

    def decide(self, *verbs: str, **fields: Any) -> None:
        """Decide the open calls in order."""
        for call, verb in zip(self.desk.open(), verbs, strict=True):
            more = {"arguments": {"n": 2}} if verb == "edit" else {"value": "by hand"} if verb == "answer" else {}
            sessions.decide(call, verb, by=None, version=None, **more, **fields)


def _tools(desk: Desk) -> None:
    def broken(arguments: Any) -> Any:
        raise allm.ToolError("It is broken.")

    def stopped(arguments: Any) -> str:
        sessions.cancel(desk.session)
        return "stopped in time"

    desk.noted("work", schema=COUNT)
    desk.noted("silent", result="")
    desk.noted("refund", manual=True, schema=COUNT)
    desk.tool(broken, "broken")
    desk.tool(stopped, "stopped")
    desk.tool(lambda arguments: allm.AskUser("Which one?"), "ask")
    desk.tool(lambda arguments: allm.Halt("enough", 3), "halt")


def decided(talk: Talk) -> None:
    """Ran, failed, wrong arguments, unknown tools, odd ids; approved, edited, rejected, answered by hand."""
    odd = [talk.call("refund", id=id) for id in ("", "twice", "twice", "functions.refund:0")]
    wrong = [talk.call("work", given) for given in ('{"n": ', "[1]", '{"n": "x"}')]
    unknown = [talk.call("nothing"), talk.call("no such name!"), talk.call("n" * 70)]
    talk.hears(
        talk.says("Let me.", talk.call("work", id="i" * 60), *wrong, *unknown, talk.call("broken"), *odd),
        talk.says("Next."),
    )
    talk.decide("approve", "edit", "reject", "answer")
    talk.hears(talk.says("", talk.call("silent")), talk.says("\n"), talk.says("Well."))


def asked(talk: Talk) -> None:
    """A question, its answer; a halt of a tool's own, and a message after it."""
    talk.writes("Ask me.")
    talk.hears(talk.says("", talk.call("ask")))
    talk.writes("Blue.")
    talk.hears(talk.says("\n", talk.call("halt"), talk.call("work")))
    assert talk.desk.reason == "enough"


def closed(talk: Talk) -> None:
    """Cancelled and overtaken while it waits; cancelled at work; its tool gone after the approval."""
    talk.writes("Wait.")
    talk.hears(talk.says("I ask.", talk.call("refund")))
    sessions.cancel(talk.desk.session)
    talk.writes("Wait again.")
    talk.hears(talk.says("", talk.call("work"), talk.call("refund")))
    talk.writes("Never mind.")
    talk.hears(talk.says("", talk.call("stopped"), talk.call("refund"), talk.call("ask")), talk.says("Unheard."))
    talk.writes("Once more.")
    talk.hears(talk.says("", talk.call("refund")))
    talk.decide("approve")
    _switch("refund", enabled=False)
    talk.hears(talk.says("It was gone."))
    _switch("refund", enabled=True)


def broke(talk: Talk) -> None:
    """Streams that break, empty answers, a refusal of the provider, a worker that dies while it streams."""
    talk.writes("Break.")
    talk.hears(Reply([*talk.says("Half an", talk.call("work"), whole=False), DROP]))
    sessions.resume(talk.desk.session)
    talk.hears(refusal(400, {"error": {"message": "no"}}))
    sessions.resume(talk.desk.session)
    talk.hears(talk.says(), talk.says("Here I am."))
    talk.writes("Die.")
    die_at(talk.desk, "begin_step:after")
    sessions.cancel(talk.desk.session)
    let_go(talk.desk.session)
    talk.desk.drive()
    assert talk.desk.reason == "cancelled"


def lost(talk: Talk) -> None:
    """Outcomes that nobody knows: answered, rejected, tried again. One turn only, after a limit."""
    for verb in ("answer", "reject", "retry"):
        talk.writes("Go on.")
        talk.server.answer(talk.says("", talk.call("work")), talk.says("Well."))
        die_at(talk.desk, "handler:before")
        let_go(talk.desk.session)
        talk.desk.drive()
        assert talk.desk.reason == "unknown_outcome"
        talk.decide(verb)
        talk.desk.drive()
    talk.writes("One turn.")
    sessions.cancel(talk.desk.session)
    sessions.step(talk.desk.session)
    talk.hears(talk.says("", talk.call("work")))
    assert talk.desk.reason == "max_turns"


def _switch(name: str, **values: Any) -> None:
    tool = Tool.objects.get(name=name)
    for field, value in values.items():
        setattr(tool, field, value)
    save_tool(tool)


ENDINGS = {"succeeded", "failed", "invalid", "unavailable", "rejected", "answered", "cancelled", "superseded"}


@pytest.mark.parametrize("kind", rules.RULES)
def test_every_request_obeys_its_provider_whatever_happened_before(desk: Desk, server: Server, kind: str) -> None:
    talk = Talk(desk, server, kind)
    for part in (decided, asked, closed, broke, lost):
        part(talk)
        for number, seen in enumerate(server.seen):
            _obeys(kind, seen.json, f"{part.__name__}, request {number}")
    assert set(Counter(call.outcome for call in desk.calls())) == ENDINGS
    for other in rules.RULES:  # the engine's model may be changed in mid-session
        talk.writes("Bye.")
        server.answer(spoken(other, "Bye."))
        drive(desk.session, model_at(server, other))
        _obeys(other, server.seen[-1].json, f"{kind} before {other}")
        assert str(server.seen[-1].json).count("Once more.") == 1


def test_signatures_come_back_with_the_calls_that_they_sign(desk: Desk, server: Server) -> None:
    talk = Talk(desk, server, "anthropic")
    decided(talk)
    turns = [turn["content"] for turn in server.seen[-1].json["messages"] if turn["role"] == "assistant"]
    assert [[block["type"] for block in turn][:1] for turn in turns] == [["thinking"]] * len(turns)
    assert {turn[0]["signature"] for turn in turns} == {"signed=="}


def _obeys(kind: str, body: Any, where: str) -> None:
    try:
        rules.RULES[kind](body)
    except rules.RefusedError as refused:
        raise AssertionError(f"{kind} would refuse {where}: {refused}") from refused
