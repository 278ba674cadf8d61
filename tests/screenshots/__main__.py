"""``make screenshots``: the demo's pages as pictures, wide and narrow, light and dark, into a folder.

    python -m tests.screenshots [FOLDER] [--only WORD]

Starts the demo on a free port with a database of its own, and takes each page of :data:`PAGES`. Chromium is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests import services

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"wide": (1280, 800), "narrow": (360, 740)}
SCHEMES = ("light", "dark")
PATIENCE = 20_000


@dataclass(frozen=True, slots=True)
class Shot:
    """A page: who looks, at which address ({name} stands for a conversation's id), and what they do first."""

    name: str
    who: str
    address: str
    act: Callable[[Page], Any] = lambda page: None
    language: str = "en"


def start(page: Page) -> None:
    """The page before anything was written."""
    page.locator(".start h2").wait_for()


def conversation(page: Page) -> None:
    """A conversation with its cards, which build their forms when they are seen."""
    page.locator(".thread .message").first.wait_for()
    page.wait_for_timeout(600)
    for opener in page.locator(".call-line:visible").all()[:1]:
        opener.click()
    page.wait_for_timeout(300)


def edited(page: Page) -> None:
    """A card whose amount someone is changing."""
    field = page.locator(".card input[type=number]").last
    field.fill("29")
    field.blur()
    page.locator(".card .was").wait_for()


def rejecting(page: Page) -> None:
    """A card on which someone says why not."""
    page.locator("main").get_by_role("button", name="Reject").first.click()
    page.locator(".card textarea").last.fill("The customer has sent the cup back already.")


def inbox(page: Page) -> None:
    """What waits, beside the page or in its place."""
    start(page)
    if page.locator(".waiting-tab").is_visible():
        page.locator(".waiting-tab").click()
    page.locator(".rail-line").first.wait_for()
    page.wait_for_timeout(400)


PAGES = (
    Shot("start", "agent", "/", start),
    Shot("done", "agent", "/{done}/", conversation),
    Shot("approved", "agent", "/{approved}/", conversation),
    Shot("rejected", "agent", "/{rejected}/", conversation),
    Shot("waiting", "approver", "/{waiting}/", conversation),
    Shot("waiting-for-others", "agent", "/{waiting}/", conversation),
    Shot("edited", "approver", "/{waiting}/", edited),
    Shot("rejecting", "approver", "/{waiting}/", rejecting),
    Shot("two", "approver", "/{two}/", conversation),
    Shot("question", "agent", "/{question}/", conversation),
    Shot("unknown", "approver", "/{unknown}/", conversation),
    Shot("drift", "approver", "/{drift}/", conversation),
    Shot("hidden", "approver", "/{hidden}/", conversation),
    Shot("inbox", "approver", "/", inbox),
    Shot(
        "not-found", "agent", "/00000000-0000-4000-8000-000000000000/", lambda page: page.locator(".failure").wait_for()
    ),
    Shot("german", "approver", "/{unknown}/", conversation, "de"),
    Shot("admin-index", "admin", "/admin/"),
    Shot("admin-overview", "admin", "/admin/allm_django/overview/"),
    Shot("admin-tools", "admin", "/admin/allm_django/tool/"),
    Shot("admin-tool", "admin", "/admin/allm_django/tool/1/change/"),
    Shot("admin-tool-try", "admin", "/admin/allm_django/tool/1/try/"),
    Shot("admin-tool-model", "admin", "/admin/allm_django/tool/1/model/"),
    Shot("admin-inbox", "admin", "/admin/allm_django/pendingcall/"),
    Shot("admin-session", "admin", "/admin/allm_django/session/{two}/change/"),
    Shot("admin-calls", "admin", "/admin/allm_django/toolcall/"),
    Shot("admin-decisions", "admin", "/admin/allm_django/decision/"),
    Shot("admin-engine", "admin", "/admin/allm_django/engine/1/change/"),
)


@contextmanager
def demo() -> Iterator[tuple[str, dict[str, Any]]]:
    """The demo, running: its address, and what tests.screenshots.rows made."""
    with tempfile.TemporaryDirectory(prefix="allm-shots-") as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ALLM_", "DJANGO_"))}
        keyless = {name: value for name, value in kept.items() if not name.endswith("_API_KEY")}
        environment = keyless | {
            "ALLM_VAR": folder,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "tests.screenshots.rows"]
        made = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        serve = [sys.executable, "manage.py", "demo", "--port", "0"]
        server = subprocess.Popen(serve, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            said = next(line for line in server.stdout if "http://" in line)
            yield re.findall(r"http://[\d.:]+", said)[0], json.loads(made.stdout)
        finally:
            server.terminate()
            server.wait(timeout=20)


def take(browser: Browser, shot: Shot, where: str, made: dict[str, Any], folder: Path) -> None:
    """One page in all sizes and colours."""
    for size, (width, height) in SIZES.items():
        for scheme in SCHEMES:
            context = browser.new_context(
                color_scheme=scheme,
                reduced_motion="reduce",
                viewport={"width": width, "height": height},
                locale=shot.language,
            )
            context.set_default_timeout(PATIENCE)
            context.add_cookies([{"name": "sessionid", "value": made["cookies"][shot.who], "url": where}])
            page = context.new_page()
            page.goto(where + shot.address.format(**made["sessions"]))
            shot.act(page)
            whole = shot.address.startswith("/admin/")
            page.screenshot(path=folder / f"{shot.name}-{size}-{scheme}.png", full_page=whole, animations="disabled")
            context.close()


def main() -> int:
    """Take all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "var" / "screenshots")
    parser.add_argument("--only", default="", help="only pages whose name holds this word")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with demo() as (where, made), sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        browser = playwright.chromium.launch(executable_path=str(services.chromium()), args=arguments)
        for shot in (shot for shot in PAGES if options.only in shot.name):
            take(browser, shot, where, made, options.folder)
            sys.stdout.write(f"{shot.name}\n")
            sys.stdout.flush()
        browser.close()
    sys.stdout.write(f"{options.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
