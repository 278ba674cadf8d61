"""The driver itself: what a cancel and a clean stop do to what is at work (L15, H07)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import allm_django as allm
from allm_django.core import events
from allm_django.core.decide import HaltRun
from allm_django.core.policy import Offer
from allm_django.loop.advance import Driver
from allm_django.loop.api import prepare
from allm_django.loop.memory import MemoryJournal
from allm_django.providers.scripted import ScriptedModel, call, hold, say
from tests.unit.loop.twins import ANY, asking

pytestmark = pytest.mark.asyncio


def a_driver(entries: list[Any], *tools: allm.ToolSpec, grace: float = 20.0) -> tuple[Driver, MemoryJournal]:
    """A driver and its journal; ``grace``: seconds that calls with effects get after a cancel or stop."""
    journal, model, options = prepare(allm.EngineSpec(ScriptedModel(entries), tools), asking(), {})
    return Driver(journal, model, replace(options, cancel_grace=grace, stop_grace=grace)), journal


def spec(name: str, handler: Callable[..., Any], *, idempotent: bool = True) -> allm.ToolSpec:
    return allm.ToolSpec(name, "Works.", ANY, handler, idempotent=idempotent)


def told(journal: MemoryJournal) -> list[Any]:
    found = []
    while not journal.events.empty():
        found.append(journal.events.get_nowait())
    return found


def outcomes(journal: MemoryJournal) -> dict[str, str]:
    """The outcome of each settled call by its tool's name."""
    return {event.call.name: event.outcome for event in told(journal) if isinstance(event, events.CallSettled)}


@pytest.mark.row("L15")
async def test_a_cancel_in_mid_stream_keeps_the_text_and_halts() -> None:
    gate = asyncio.Event()
    driver, journal = a_driver([[say("Half"), hold(gate), say("never")]])
    task = asyncio.ensure_future(driver.run())
    while not isinstance(await journal.events.get(), events.TextStreamed):
        pass
    journal.cancelled.set()
    assert await task == HaltRun("cancelled")
    (broken,) = [event.message for event in told(journal) if isinstance(event, events.MessageBroken)]
    assert (broken.content, broken.complete) == ("Half", False)


@pytest.mark.row("L15")
async def test_a_cancel_closes_what_waits_and_what_may_be_dropped_and_starts_nothing_more() -> None:
    begun = asyncio.Event()
    started: list[str] = []

    async def endless(arguments: Any) -> None:
        started.append(arguments["n"])
        begun.set()
        await asyncio.Event().wait()

    tools = [spec("read", endless), allm.ToolSpec("refund", "Refunds.", ANY, manual=True)]
    driver, journal = a_driver([[call("refund"), call("read", {"n": 1}), call("read", {"n": 2})]], *tools)
    driver._slots = asyncio.Semaphore(1)
    task = asyncio.ensure_future(driver.run())
    await begun.wait()
    journal.cancelled.set()
    assert await task == HaltRun("cancelled")
    assert started == [1]
    settled = [event for event in told(journal) if isinstance(event, events.CallSettled)]
    assert [event.outcome for event in settled] == ["cancelled"] * 3
    words = {event.call.arguments["n"]: event.result.message for event in settled if event.call.name == "read"}
    assert "may have done part" in words[1]
    assert "was not run" in words[2]


@pytest.mark.parametrize("steps", range(8))
async def test_calls_that_end_while_a_cancel_closes_others_disturb_nothing(steps: int) -> None:
    both = asyncio.Barrier(3)

    async def endless(arguments: Any) -> None:
        await both.wait()
        await asyncio.Event().wait()

    async def ends(arguments: Any) -> str:
        await both.wait()
        await journal.cancelled.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        return "done"

    driver, journal = a_driver([[call("endless"), call("ends")]], spec("endless", endless), spec("ends", ends))
    task = asyncio.ensure_future(driver.run())
    await both.wait()
    journal.cancelled.set()
    assert await task == HaltRun("cancelled")
    found = outcomes(journal)
    assert found["endless"] == "cancelled"
    assert found["ends"] in ("cancelled", "succeeded")


@pytest.mark.row("L15")
async def test_a_started_call_with_effects_ends_by_itself_after_a_cancel() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def pay(arguments: Any) -> str:
        begun.set()
        let_go.wait()
        return "paid"

    driver, journal = a_driver([call("pay")], spec("pay", pay, idempotent=False))
    task = asyncio.ensure_future(driver.run())
    await asyncio.to_thread(begun.wait)
    journal.cancelled.set()
    asyncio.get_running_loop().call_soon(let_go.set)
    assert await task == HaltRun("cancelled")
    assert outcomes(journal) == {"pay": "succeeded"}


@pytest.mark.row("L15")
@pytest.mark.parametrize("how", ["cancel", "stop"])
async def test_a_call_with_effects_that_does_not_end_in_time_is_of_unknown_outcome(how: str) -> None:
    begun, let_go = threading.Event(), threading.Event()
    late: list[Any] = []

    def pay(arguments: Any) -> str:
        begun.set()
        let_go.wait()
        return "paid"

    driver, journal = a_driver([call("pay")], spec("pay", pay, idempotent=False), grace=0.01)
    journal.watch_late = lambda call_id, work: late.append(work)  # type: ignore[method-assign]
    task = asyncio.ensure_future(driver.run())
    await asyncio.to_thread(begun.wait)
    if how == "cancel":
        journal.cancelled.set()
    else:
        driver.stop()
    assert await task == (HaltRun("cancelled", waiting=True) if how == "cancel" else None)
    assert [str(view.state) for view in (await journal.load()).calls] == ["unknown"]
    let_go.set()
    settlement, _ = await late[0]
    assert settlement.result.value == "paid"


async def test_a_clean_stop_gives_idempotent_calls_back_to_be_run_elsewhere() -> None:
    begun = asyncio.Event()

    async def endless(arguments: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    driver, journal = a_driver([call("read")], spec("read", endless))
    task = asyncio.ensure_future(driver.run())
    await begun.wait()
    driver.stop()
    assert await task is None
    assert [str(view.state) for view in (await journal.load()).calls] == ["ready"]


async def test_a_clean_stop_in_mid_stream_breaks_the_answer_off() -> None:
    gate = asyncio.Event()
    driver, journal = a_driver([[say("Half"), hold(gate), say("never")]])
    task = asyncio.ensure_future(driver.run())
    while not isinstance(await journal.events.get(), events.TextStreamed):
        pass
    driver.stop()
    assert await task is None
    assert [type(event).__name__ for event in told(journal)][-1] == "MessageBroken"


async def test_a_call_whose_tool_is_gone_when_it_would_start_is_closed_and_not_asked_for_again() -> None:
    class Vanishing(dict[str, allm.ToolSpec]):
        """Tools that are there to be judged by, and not any more."""

        def get(self, name: str, default: Any = None) -> Any:
            return self.pop(name, default)

    driver, journal = a_driver([call("work"), say("Done.")])
    offer = Offer(Vanishing(work=spec("work", lambda _: "ran")))
    driver.journal = journal = MemoryJournal(replace(journal.setup, offer=offer))
    assert await driver.run() == HaltRun("completed")
    assert outcomes(journal) == {"work": "unavailable"}
