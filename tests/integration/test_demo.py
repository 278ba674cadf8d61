"""The demo, started as ``make demo`` starts it, by people who talk to it over HTTP and its websocket."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

ROOT = Path(__file__).resolve().parents[2]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("ALLM_", "DJANGO_"))}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY")
DEADLINE = 30


class Demo:
    """A running demo: its process, what it printed, and where it answers."""

    def __init__(self, var: Path, port: int = 0) -> None:
        environment = {name: value for name, value in CLEAN.items() if name not in KEYS}
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--port", str(port)],
            cwd=ROOT,
            env=environment | {"ALLM_VAR": str(var), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.people: list[Person] = []
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", self.said)
        assert found, self.said
        self.port = int(found[1])
        self.address = f"http://127.0.0.1:{self.port}"

    def stop(self) -> int:
        """Ctrl-C; the exit status."""
        for person in self.people:
            person.http.close()
        self.process.send_signal(signal.SIGINT)
        self.said += self.process.communicate(timeout=DEADLINE)[0]
        return self.process.returncode


class Person:
    """Someone with a browser: logged in, with cookies and the token that posts need."""

    def __init__(self, demo: Demo, username: str) -> None:
        self.demo = demo
        self.http = httpx.Client(base_url=demo.address, follow_redirects=True, timeout=DEADLINE)
        demo.people.append(self)
        self.http.get("/accounts/login/")
        form = {"username": username, "password": "demo", "csrfmiddlewaretoken": self.http.cookies["csrftoken"]}
        page = self.http.post("/accounts/login/", data=form)
        assert page.url.path == "/", page.text

    def get(self, path: str) -> Any:
        """An answer of the API."""
        answer = self.http.get(f"/api/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **data: Any) -> Any:
        """Do something through the API."""
        headers = {"X-CSRFToken": self.http.cookies["csrftoken"], "Referer": self.demo.address}
        answer = self.http.post(f"/api/{path}", json=data, headers=headers)
        assert answer.status_code in (200, 201, 202), answer.text
        return answer.json()

    def ask(self, text: str) -> dict[str, Any]:
        """Start a session with ``text`` and wait until it halts."""
        return self.wait(self.post("sessions/", text=text)["session"]["id"])

    def wait(self, session: str, until: Callable[[dict[str, Any]], bool] | None = None) -> dict[str, Any]:
        """The session once it has halted (or ``until`` holds), told by the socket that it looks different."""
        until = until or (lambda view: view["session"]["status"] != "running")
        cookies = "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())
        url = f"ws://127.0.0.1:{self.demo.port}/ws/allm/sessions/{session}/"
        with connect(url, origin=self.demo.address, additional_headers={"Cookie": cookies}, max_queue=None) as news:
            news.send(json.dumps({"type": "hello", "event": 0, "message": None, "offset": 0}))
            while True:
                frame = json.loads(news.recv(timeout=DEADLINE))
                if frame["type"] in ("event", "ready"):
                    view = self.get(f"sessions/{session}/")
                    if until(view):
                        return view

    def decide(self, call: dict[str, Any], verb: str, **more: Any) -> Any:
        """Decide a call at the version that was seen."""
        return self.post(f"calls/{call['id']}/decide/", verb=verb, version=call["version"], **more)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo with its database, e-mails and key in a folder of its own."""
    running = Demo(tmp_path_factory.mktemp("var"))
    yield running
    if running.process.poll() is None:
        running.stop()


@pytest.fixture(scope="module")
def agent(demo: Demo) -> Person:
    """Who chats."""
    return Person(demo, "agent")


@pytest.fixture(scope="module")
def approver(demo: Demo) -> Person:
    """Who decides."""
    return Person(demo, "approver")


def last_text(view: dict[str, Any]) -> str:
    """What was said last."""
    return str(view["messages"][-1]["text"])


def open_calls(view: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls that wait for someone."""
    return [call for call in view["calls"] if call["state"] in ("pending", "asking", "unknown")]


def test_it_prints_address_logins_and_six_things_to_try(demo: Demo, agent: Person) -> None:
    assert all(name in demo.said for name in ("agent", "approver", "admin", "not a language model"))
    engine = agent.get("engines/")["results"][0]
    assert len(engine["examples"]) == 6
    assert all(example in demo.said for example in engine["examples"])
    assert "not a language model" in engine["notice"]


def test_an_automatic_tool_answers_at_once(agent: Person) -> None:
    view = agent.ask("Where is order 1042?")
    assert view["session"]["status"] == "completed"
    assert "3 days late" in last_text(view)


def test_a_refund_waits_for_the_approver_and_then_is_made(agent: Person, approver: Person) -> None:
    view = agent.ask("Refund 49 euros on order 1042, the cup was broken")
    assert view["session"]["status"] == "awaiting_tools"
    card = next(
        c for c in approver.get("calls/?state=pending&scope=decide")["results"] if c["session"] == view["session"]["id"]
    )
    assert card["may_decide"]
    approver.decide(card, "approve")
    view = agent.wait(view["session"]["id"], lambda v: v["session"]["status"] == "completed")
    assert "€49.00 went back" in last_text(view)
    assert "refunded €49.00" in last_text(agent.ask("Where is order 1042?"))


def test_two_calls_of_one_turn_are_decided_one_by_one(agent: Person, approver: Person, demo: Demo) -> None:
    view = agent.ask("E-mail the customer of order 1043 that the parcel is late AND refund 10 euros")
    mail, refund = (approver.get(f"calls/{call['id']}/") for call in open_calls(view))
    approver.decide(refund, "reject", reason="Not our fault")
    approver.decide(mail, "edit", arguments=mail["arguments"] | {"subject": "Sorry"})
    view = agent.wait(view["session"]["id"], lambda v: v["session"]["status"] == "completed")
    assert "A person changed the call first" in last_text(view)
    assert "Not our fault" in last_text(view)


def test_a_case_is_closed_in_steps_of_which_one_waits(agent: Person, approver: Person) -> None:
    view = agent.ask("Close the case of order 1044 with 1 euro, a cup was broken")
    steps = {call["name"]: call["outcome"] for call in view["calls"] if call["parent"]}
    assert steps == {"order_status": "succeeded", "check_parcel": "succeeded", "check_refunds": "succeeded",
                     "refund_order": ""}  # fmt: skip
    (refund,) = (approver.get(f"calls/{call['id']}/") for call in open_calls(view))
    approver.decide(refund, "approve")
    view = agent.wait(view["session"]["id"], lambda v: v["session"]["status"] == "completed")
    assert "€1.00 went back" in last_text(view)
    assert "The case is closed." in last_text(view)


def test_a_question_comes_back_to_the_person_who_asked(agent: Person) -> None:
    view = agent.ask("When should order 1051 be delivered?")
    assert view["session"]["status"] == "awaiting_user"
    day = open_calls(view)[0]["question"]["options"][0]
    agent.post(f"sessions/{view['session']['id']}/messages/", text=day)
    view = agent.wait(view["session"]["id"], lambda v: v["session"]["status"] == "completed")
    assert "Order 1051 is now promised for" in last_text(view)


def test_the_slow_report_comes(agent: Person) -> None:
    assert "The seven days until" in last_text(agent.ask("Make the weekly report"))


def test_a_hand_over_ends_with_its_own_word(agent: Person) -> None:
    assert agent.ask("Hand this over to a colleague")["session"]["run"]["halted_reason"] == "handed_over"


def test_the_page_its_files_and_the_admin_answer(demo: Demo) -> None:
    admin = Person(demo, "admin")
    page = admin.http.get("/").text
    files = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    assert files
    for path in [*files, "/admin/", "/admin/support/order/", "/api/schema/"]:
        assert admin.http.get(path).status_code == 200, path


def test_the_login_page_brings_its_icon_and_styles(demo: Demo) -> None:
    with httpx.Client(base_url=demo.address, timeout=DEADLINE) as visitor:
        page = visitor.get("/accounts/login/").text
        assert 'rel="icon"' in page
        for path in re.findall(r'href="(/static/[^"]+)"', page):
            assert visitor.get(path).status_code == 200, path


def test_a_taken_port_is_passed_over_and_a_second_start_keeps_everything(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = Demo(tmp_path, taken.getsockname()[1])
        assert first.port > taken.getsockname()[1]
        session = Person(first, "agent").ask("Refund 5 euros on order 1042, it came late")["session"]["id"]
        assert first.stop() == 0
    second = Demo(tmp_path)
    try:
        approver, agent = Person(second, "approver"), Person(second, "agent")
        [card] = approver.get("calls/?state=pending&scope=decide")["results"]
        approver.decide(card, "approve")
        assert "€5.00 went back" in last_text(agent.wait(session, lambda v: v["session"]["status"] == "completed"))
    finally:
        assert second.stop() == 0
