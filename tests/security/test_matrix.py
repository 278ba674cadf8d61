"""Who may do what, endpoint by endpoint: tests/security/matrix.txt, and nothing that it does not list.

To add an endpoint, an admin page or an admin action: write it, run this file, and the test that fails prints the line
as the code answers now. Judge each answer, then put the line among its neighbours in matrix.txt. A line is

    METHOD address answers… [body]

- ``METHOD``: GET, POST, …; ``WS`` opens a socket and says hello; ``ACT`` carries out an admin list's action on one row
  (the address is the list's, with ``#action`` behind).
- ``address``: as in the URLconf; each parameter is the name of an object of tests/security/world.py, such as
  ``<session>`` (a new kind of object is one entry more there). ``{rows}`` stands for each name of the group that the
  line ``rows = …`` lists, and ``<*>`` for the object of that name.
- ``answers``: one for each role of ``world.ROLES``: a status; ``login`` (sent to log in); for sockets ``open`` or the
  code that closes it; for actions the status, or ``none`` where the action is not on offer.
- ``body``: JSON, for POST; the admin's as a form's fields.

What each line proves besides: a refusal of an object is word for word that of one that does not exist (row 27), but
where the role sees the object and may not do this to it: then, and only then, 403 stands beside a 404.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.messages import get_messages
from django.core.cache import cache
from django.db import transaction
from django.test import Client, override_settings

from allm_django.runtime.tail import tail_check
from tests.integration.cast import QUIET, without_runner
from tests.integration.sockets import Socket
from tests.security.endpoints import PLACE, Endpoint, all_endpoints
from tests.security.world import ROLES, World, build

pytestmark = pytest.mark.django_db
TABLE = Path(__file__).with_name("matrix.txt")
GROUP = re.compile(r"(\w+) = (.*)")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOT_ON_OFFER = "No action selected."
MISSING = {True: str(uuid.UUID(int=1)), False: "999999"}  # by whether the object's key is a UUID


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: what is asked, with what body, and what each role is to be answered."""

    method: str
    address: str
    answers: tuple[str, ...]
    body: str

    @property
    def endpoint(self) -> Endpoint:
        """What it is about, without the objects' names."""
        return Endpoint.of(self.method, self.address)

    def __str__(self) -> str:
        answers = " ".join(f"{answer:{len(role)}}" for answer, role in zip(self.answers, ROLES, strict=False))
        return f"{self.method:6} {self.address:56} {answers} {self.body}".rstrip()


def read_table(text: str) -> list[Line]:
    """The lines, one for each name of a group."""
    lines, groups = [], {}
    for row in text.splitlines():
        if named := GROUP.fullmatch(row):
            groups[named[1]] = named[2].split()
        elif row.strip() and not row.startswith("#"):
            method, address, *rest = row.split(maxsplit=len(ROLES) + 2)
            answers, body = tuple(rest[: len(ROLES)]), "".join(rest[len(ROLES) :])
            lines += [Line(method, each, answers, body) for each in _spread(address, groups)]
    return lines


def _spread(address: str, groups: dict[str, list[str]]) -> list[str]:
    used = [name for name in groups if f"{{{name}}}" in address]
    if not used:
        return [address]
    return [address.replace(f"{{{used[0]}}}", each).replace("<*>", f"<{each}>") for each in groups[used[0]]]


LINES = read_table(TABLE.read_text())


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """The world, built once; nothing that is asked of it stays."""
    quiet = {**QUIET, "REQUESTS_PER_MINUTE": 1_000_000}
    logging.disable(logging.CRITICAL)  # each refusal is logged, with a traceback
    with django_db_blocker.unblock(), override_settings(ALLM=quiet), without_runner(), forgotten():
        yield build()
        tail_check.stop()
    cache.clear()
    logging.disable(logging.NOTSET)


@contextmanager
def forgotten() -> Iterator[None]:
    """Whatever is written inside the block is undone."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a word as in the table, and the body without what differs from request to request."""

    word: str
    body: str = ""


def ask(world: World, line: Line, role: str, *, missing: bool = False) -> Answer:
    """Ask as ``role``, and undo it. ``missing``: of an object that does not exist."""
    address = PLACE.sub(lambda place: _key(world, place[0][1:-1], missing), line.address)
    with forgotten():
        return ASKERS.get(line.method, _http)(world, line, role, address)


def _key(world: World, name: str, missing: bool) -> str:
    found = world.objects.get(name)
    if found is None:  # a parameter that names no object
        return MISSING[True] if name == "uuid" else name
    return MISSING[isinstance(found.pk, uuid.UUID)] if missing else str(found.pk)


def _http(world: World, line: Line, role: str, address: str) -> Answer:
    browser = world.browsers[role]
    if address.startswith("/api/"):
        found = browser.generic(line.method, address, line.body, content_type="application/json")
    elif line.method == "POST":
        found = browser.post(address, json.loads(line.body or "{}"))
    else:
        found = browser.generic(line.method, address)
    return _answer(found)


def _act(world: World, line: Line, role: str, address: str) -> Answer:
    address, action = address.split("#")
    row = world.objects[address.rstrip("/").rsplit("/", 1)[1]]
    fields = {"action": action, "index": 0, "_selected_action": [row.pk], **json.loads(line.body or "{}")}
    browser = world.browsers[role]
    browser.cookies.pop("messages", None)  # what an earlier line was told and nobody has read
    found = browser.post(address, fields)
    listed = "cl" in (getattr(found, "context_data", None) or {})  # the list again: there are no actions at all
    if listed or any(str(message) == NOT_ON_OFFER for message in get_messages(found.wsgi_request)):
        return Answer("none")
    return _answer(found)


def _answer(found: Any) -> Answer:
    place = found.headers.get("Location", "")
    if found.status_code == 302 and "/login/" in place:
        return Answer("login")
    body = UUID.sub("…", re.sub(r'"request_id": ?"[^"]*"', "", found.content.decode()))
    return Answer(str(found.status_code), body + place)


def _socket(world: World, line: Line, role: str, address: str) -> Answer:
    return Answer(async_to_sync(_hello)(world.browsers[role], address.removeprefix("/ws/allm/")))


async def _hello(browser: Client, path: str) -> str:
    wire = Socket(path, browser)
    try:
        if not await wire.connect():
            return "shut"
        await wire.send({"type": "hello", "event": 0, "message": None, "offset": 0})
        message = await wire.wire.receive_output(timeout=10)
        return str(message["code"]) if message["type"] == "websocket.close" else "open"
    finally:
        await wire.leave()


ASKERS = {"ACT": _act, "WS": _socket}


def test_every_endpoint_is_listed_and_every_line_is_an_endpoint(world: World) -> None:
    listed, there = {line.endpoint for line in LINES}, all_endpoints()
    assert sorted(map(str, listed - there)) == [], "lines of matrix.txt that are no endpoints (any more)"
    new = [_proposal(world, endpoint) for endpoint in sorted(there - listed, key=str)]
    assert not new, "not listed in matrix.txt; so they answer now:\n" + "\n".join(new)


def _proposal(world: World, endpoint: Endpoint) -> str:
    """A line for an endpoint as it answers now."""
    model = re.search(r"admin/allm_django/(\w+)/", endpoint.named)

    def name(place: re.Match[str]) -> str:
        own = place[0][1:-1].rpartition(":")[2].removesuffix("_id")
        return f"<{model[1] if model and own == 'object' else own}>"

    line = Line(endpoint.method, PLACE.sub(name, endpoint.named or endpoint.address), (), "")
    return str(replace(line, answers=tuple(ask(world, line, role).word for role in ROLES)))


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.method} {line.address} {line.body}".strip())
def test_each_role_is_answered_as_the_table_says(world: World, line: Line) -> None:
    found = [ask(world, line, role) for role in ROLES]
    assert str(Line(line.method, line.address, tuple(answer.word for answer in found), line.body)) == str(line)
    if any(name[1:-1] in world.objects for name in PLACE.findall(line.address)):
        for place, role in enumerate(ROLES):
            _check_missing(found[place], ask(world, line, role, missing=True), _seen(line, place))


def _seen(line: Line, place: int) -> bool:
    """Whether the table lets the role see the object that the line is about."""
    first = PLACE.search(line.address)
    assert first is not None
    page = line.address[: first.end()] + ("/change/" if line.address.startswith("/admin/") else "/")
    answers = {other.address: other.answers for other in LINES if other.method in ("GET", "WS")}
    return page in answers and answers[page][place] in ("200", "open")


def _check_missing(answer: Answer, missing: Answer, seen: bool) -> None:
    """What does not exist is never there; what may not be seen is answered just the same."""
    assert missing.word in ("404", "403", "401", "302", "login", "4404", "4401"), missing
    assert seen or answer == missing
