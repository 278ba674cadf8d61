"""A running site and browsers that look at it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.acceptance.site.gate import Gate

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE = 20_000  # milliseconds until a browser gives up
WIDE, NARROW = (1280, 800), (360, 740)
expect.set_options(timeout=PATIENCE)


@dataclass
class Site:
    """The server of tests.acceptance.site in a process of its own, with its database in ``folder``."""

    folder: Path
    static: str = "plain"
    port: int = 0
    process: subprocess.Popen[str] | None = None
    cookies: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start; on the same port when it ran before."""
        self.process = self._python("serve", self.port)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def prepare(self) -> None:
        """Make the database, with everyone logged in."""
        with self._python("prepare") as process:
            self.cookies = json.loads(process.communicate()[0])

    def copy(self, folder: Path, static: str = "plain") -> Site:
        """The same site, not running, in another folder."""
        return Site(Path(shutil.copytree(self.folder, folder)), static, cookies=self.cookies)

    def gate(self, name: str) -> Gate:
        """What the script and the tools wait at."""
        return Gate(self.folder, name)

    def _python(self, module: str, *arguments: object) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ALLM_", "DJANGO_"))}
        environment |= {"ALLM_VAR": str(self.folder), "SITE_STATIC": self.static}
        environment |= {"DJANGO_SETTINGS_MODULE": "tests.acceptance.site.settings"}
        command = [sys.executable, "-m", f"tests.acceptance.site.{module}", *map(str, arguments)]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop by a signal and wait for its end."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.communicate(timeout=20)
            self.process = None

    @property
    def address(self) -> str:
        """Where the server answers."""
        return f"http://127.0.0.1:{self.port}"


class Visitor:
    """A person with a browser tab on the page."""

    def __init__(self, site: Site, context: BrowserContext, name: str, size: tuple[int, int]) -> None:
        self.site, self.context = site, context
        self.page: Page = context.new_page()
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        context.add_cookies([{"name": "sessionid", "value": site.cookies[name], "url": site.address}])

    def _heard(self, kind: str, text: str) -> None:
        if kind == "error" and "Failed to load resource" not in text and "WebSocket" not in text:
            self.problems.append(text)

    def open(self, path: str = "") -> None:
        """Open the page; ``path`` below it."""
        self.page.goto(f"{self.site.address}/assistant/{path}")

    def ask(self, text: str) -> None:
        """Write a message in a new conversation and send it."""
        self.open()
        self.find(".start h2").wait_for()
        self.say(text)
        self.page.wait_for_url("**/assistant/*-*/")

    def say(self, text: str) -> None:
        """Write a message and send it."""
        self.page.fill("#allm-text", text)
        expect(self.find("[data-part=send]")).to_be_enabled()
        self.page.press("#allm-text", "Enter")

    def find(self, selector: str, **options: Any) -> Locator:
        """Elements by selector."""
        return self.page.locator(selector, **options)

    def button(self, name: str) -> Locator:
        """A button by the beginning of its name, in the conversation."""
        return self.page.locator("main").get_by_role("button", name=name)

    def card(self, text: str = "") -> Locator:
        """The waiting card in the conversation that holds ``text``."""
        return self.find(".thread .card", has_text=text)

    def sees(self, text: str) -> None:
        """Wait until ``text`` stands in the conversation."""
        self.find("[data-part=content]").get_by_text(text).first.wait_for()

    def finished(self) -> None:
        """Wait until the run has ended."""
        self.find(".usage").wait_for()

    @property
    def session(self) -> str:
        """The id of the open conversation."""
        return self.page.url.rstrip("/").rsplit("/", 1)[1]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory, chromium_path: Path) -> Site:
    """A site with a fresh database, to be copied."""
    original = Site(tmp_path_factory.mktemp("prepared"))
    original.prepare()
    return original


@pytest.fixture(scope="session")
def site(prepared: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site that most tests share."""
    running = prepared.copy(tmp_path_factory.mktemp("shared") / "site")
    running.start()
    yield running
    running.stop()


@pytest.fixture
def own_site(prepared: Site, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """``own_site()`` → a site of the test's own, running, with people but without conversations."""
    made: list[Site] = []

    def make(static: str = "plain") -> Site:
        made.append(prepared.copy(tmp_path / "site", static))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture(scope="module")
def browser(chromium_path: Path) -> Iterator[Browser]:
    """One Chromium a module: Playwright's loop must be gone before asynchronous tests of other modules run."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(chromium_path), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> dict[tuple[str, str, str], BrowserContext]:
    """A browser profile for each site, person and colour scheme, so that scripts are fetched once."""
    return {}


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser, contexts: dict[tuple[str, str, str], BrowserContext], site: Site) -> Iterator[Visit]:
    """``visit("ann")`` → a person at the page. At the end no page may have had an error in its scripts."""
    visitors: list[Visitor] = []

    def enter(name: str, *, at: Site = site, size: tuple[int, int] = WIDE, scheme: str = "light") -> Visitor:
        key = (at.address, name, scheme)
        if key not in contexts:
            contexts[key] = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
            contexts[key].set_default_timeout(PATIENCE)
        visitors.append(Visitor(at, contexts[key], name, size))
        return visitors[-1]

    yield enter
    for visitor in visitors:
        visitor.page.close()
    assert [problem for visitor in visitors for problem in visitor.problems] == []
