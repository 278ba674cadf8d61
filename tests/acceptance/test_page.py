"""The page itself: streaming, history, drafts, safety, accessibility, static files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.conftest import NARROW, Site, Visit, Visitor
from tests.acceptance.site.payloads import XSS
from tests.acceptance.site.script import LONG

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()


def test_a_reload_in_mid_stream_shows_the_whole_text(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("slow reload")
    ann.sees("Paragraph 40 of")
    expect(ann.find(".caret")).to_have_count(1)
    ann.page.reload()
    ann.sees("Paragraph 40 of")
    ann.site.gate("reload").set()
    ann.finished()
    paragraphs = ann.find(".message.assistant .markdown > p").all_inner_texts()
    assert paragraphs == [re.sub(r"[*`]", "", line) for line in LONG]
    expect(ann.find(".caret")).to_have_count(0)


def test_the_view_follows_only_at_the_end_and_new_text_waits_behind_a_button(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("slow follow")
    ann.sees("Paragraph 40 of")
    scroller = ann.find("[data-part=scroller]")
    ann.page.wait_for_function(AT_END)
    scroller.evaluate("element => element.scrollTo(0, 0)")
    more = ann.page.get_by_role("button", name="New text")
    expect(more).to_be_hidden()
    ann.site.gate("follow").set()
    ann.finished()
    assert scroller.evaluate("element => element.scrollTop") == 0
    more.click()
    ann.page.wait_for_function(AT_END)
    expect(more).to_be_hidden()


AT_END = """() => {
    const scroller = document.querySelector("[data-part=scroller]");
    return scroller.scrollTop > 0 && scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop < 5;
}"""


def test_stop_ends_the_answer_and_says_so(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("slow never")
    ann.sees("Paragraph 40 of")
    ann.page.keyboard.press("Control+.")
    ann.find(".broken").wait_for()
    expect(ann.page.get_by_role("button", name="Stop")).to_be_hidden()
    ann.say("hello again")
    ann.sees("Hello. How can I help?")


def test_an_error_of_the_model_says_what_to_do(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("broken please")
    expect(ann.find(".broken")).to_have_text("The scripted model failed with status 400.")
    expect(ann.find(".halted")).to_have_count(0)  # told once
    expect(ann.button("Try again")).to_be_visible()


def test_progress_of_a_tool_is_shown_live(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("report pages")
    expect(ann.find("progress")).to_have_js_property("value", 0.5)
    ann.sees("page 2 of 4 50 %")
    ann.site.gate("pages").set()
    ann.sees("I was told: ")
    expect(ann.find("progress")).to_have_count(0)


@pytest.mark.row("R07")
def test_a_recipe_is_a_tree_whose_states_change_live(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("case steps")
    steps = sam.page.get_by_role("group", name="Steps of Wind a case up")
    recipe = sam.find(".call:has(> .steps:not([hidden])) > .call-line")
    expect(steps.locator("progress")).to_be_visible()
    expect(recipe).to_contain_text("Running in steps")
    expect(steps.locator(".card")).to_contain_text("goodwill")
    sam.site.gate("steps").set()
    expect(recipe).to_contain_text("A step waits")
    sam.page.reload()
    expect(recipe).to_contain_text("A step waits")
    expect(steps.locator(".call-line:visible")).to_have_text([re.compile("Done.*Look up"), re.compile("Done.*report")])
    assert violations(sam.page) == []
    steps.get_by_role("button", name="Approve").click()
    sam.finished()
    expect(steps.locator(".call-line")).to_have_text([re.compile("Done")] * 3)
    expect(recipe).to_contain_text("Done")


def test_markdown_is_shown_with_coloured_code_and_safe_links(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("markdown please")
    ann.finished()
    body = ann.find(".message.assistant")
    expect(body.locator("table td").first).to_have_text("Cup")
    expect(body.locator("code .hljs-keyword").first).to_have_text("def")
    link = body.get_by_role("link", name="the shop")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(link).to_have_attribute("target", "_blank")


def test_hostile_texts_stay_texts(visit: Visit) -> None:
    sam = visit("sam")
    foreign: list[str] = []
    sam.page.on("request", lambda request: foreign.append(request.url) if sam.site.address not in request.url else None)
    sam.ask(f"evil {XSS}")
    expect(sam.card().locator("textarea")).to_be_visible()
    sam.button("JSON").click()
    sam.find(".call-line:visible").click()
    for summary in sam.find("summary:visible").all():
        summary.click()
    sam.find(".rail-line").last.click()
    sam.page.reload()
    expect(sam.card().locator("textarea")).to_be_visible()
    assert sam.page.evaluate("window.pwned") is None
    assert foreign == []
    assert (
        sam.find("main img, main iframe, main object, main embed, main style, main script, main form form").count() == 0
    )
    hrefs = [link.get_attribute("href") or "" for link in sam.find(".message a").all()]
    assert all(href.startswith(("https://", "http://", "mailto:")) for href in hrefs), hrefs
    expect(sam.card().first.locator(".hidden-character").first).to_have_text("U+202E")
    assert sam.problems == [], "the policy had to step in: something tried to run"


def test_the_policy_is_strict(visit: Visit) -> None:
    ann = visit("ann")
    answer = ann.page.goto(f"{ann.site.address}/assistant/")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy


def test_older_messages_come_as_one_scrolls_up(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("many please")
    ann.sees("That was all.")
    ann.finished()
    ann.page.reload()
    expect(ann.find(".message")).to_have_count(50)
    top = ann.find(".message").first
    ann.find("[data-part=scroller]").evaluate("element => element.scrollTo(0, 0)")
    expect(ann.find(".message")).to_have_count(54)
    expect(top).to_contain_text("many please")
    expect(ann.page.get_by_role("button", name="New text")).to_be_hidden()


def test_a_draft_survives_a_reload_and_stays_with_its_conversation(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("hello there")
    ann.finished()
    ann.page.fill("#allm-text", "half a thought")
    ann.page.reload()
    expect(ann.find("#allm-text")).to_have_value("half a thought")
    ann.page.get_by_role("link", name="New chat").click()
    expect(ann.find("#allm-text")).to_have_value("")
    ann.page.go_back()
    expect(ann.find("#allm-text")).to_have_value("half a thought")


def test_composing_a_word_does_not_send(visit: Visit) -> None:
    ann = visit("ann")
    ann.open()
    ann.find(".start h2").wait_for()
    ann.page.fill("#allm-text", "にほん")
    ann.find("#allm-text").dispatch_event("keydown", {"key": "Enter", "keyCode": 229, "isComposing": True})
    expect(ann.find("#allm-text")).to_have_value("にほん")
    assert ann.page.url.endswith("/assistant/")


def test_the_sidebar_finds_conversations(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("hello marmalade")
    ann.finished()
    ann.page.get_by_label("Search conversations").fill("marmalade")
    expect(ann.find(".session-link")).to_have_count(1)
    ann.page.get_by_label("Search conversations").fill("no such words")
    expect(ann.find(".sessions-status")).to_have_text("Nothing found. Try another word.")


@pytest.mark.row("T24")
def test_a_long_result_is_shown_whole_and_the_menu_renames_and_gives_the_conversation_away(visit: Visit) -> None:
    sam = visit("sam", size=NARROW)
    sam.ask("long please")
    sam.finished()
    sam.find(".call-line").click()
    expect(sam.find(".call-details")).not_to_contain_text("parcel 400 of 400")
    sam.button("Show the whole result").click()
    expect(sam.find(".call-details")).to_contain_text("parcel 400 of 400")
    menu = sam.find("[data-part=menu]")
    menu.locator("summary").click()
    assert violations(sam.page) == []
    assert sam.page.evaluate("document.documentElement.scrollWidth") == NARROW[0]
    with sam.page.expect_download() as given:
        menu.get_by_role("link", name="Markdown").click()
    assert "parcel 400 of 400" in Path(given.value.path()).read_text()
    assert given.value.suggested_filename == f"session-{sam.session}.md"
    menu.locator("summary").click()
    menu.get_by_label("Title").fill("All the parcels")
    menu.get_by_role("button", name="Rename").click()
    expect(sam.find("h1")).to_have_text("All the parcels")
    expect(menu.locator(".menu-list")).to_be_hidden()


def test_who_may_nothing_reads_what_to_ask_for(visit: Visit) -> None:
    eve = visit("eve")
    answer = eve.page.goto(f"{eve.site.address}/assistant/")
    assert answer is not None
    assert answer.status == 403
    expect(eve.page.get_by_role("heading")).to_have_text("You may not use the assistant")
    assert "content-security-policy" in answer.headers


def test_a_conversation_of_someone_else_is_not_found(visit: Visit) -> None:
    sam, ann = visit("sam"), visit("ann")
    sam.ask("hello private")
    ann.open(f"{sam.session}/")
    expect(ann.page.get_by_role("alert").first).to_contain_text("There is no such conversation, or you may not see it.")


def test_status_is_announced_once_each(visit: Visit) -> None:
    sam = visit("sam")
    sam.open()
    sam.find(".start h2").wait_for()
    sam.page.evaluate("""() => {
        window.heard = [];
        const region = document.getElementById("allm-announce");
        new MutationObserver(() => region.textContent && window.heard.push(region.textContent))
            .observe(region, {childList: true, characterData: true, subtree: true});
    }""")
    sam.say("lookup 1042")
    sam.finished()
    sam.page.wait_for_function("window.heard.includes('The assistant has finished.')")
    heard = sam.page.evaluate("window.heard")
    assert len(heard) == len(set(heard)) <= 3, heard


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_wide_page(visit: Visit, scheme: str) -> None:
    sam = visit("sam", scheme=scheme)
    sam.open()
    sam.find(".start h2").wait_for()
    assert violations(sam.page) == []
    show_everything(sam)
    assert violations(sam.page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_narrow_page(visit: Visit, scheme: str) -> None:
    sam = visit("sam", size=NARROW, scheme=scheme)
    show_everything(sam)
    assert violations(sam.page) == []
    sam.find("[data-part=waiting-tab]").click()
    sam.find(".rail-line").first.click()
    assert violations(sam.page) == []
    sam.page.keyboard.press("Escape")
    sam.find(".head [data-toggle=sidebar]").click()
    assert violations(sam.page) == []


def show_everything(sam: Visitor) -> None:
    """Markdown, an opened line, two cards with their forms, a box for a reason."""
    sam.ask("everything please")
    expect(sam.card().locator("input[type=number]")).to_be_visible()
    expect(sam.card().locator("textarea")).to_be_visible()
    sam.find(".call-line:visible").click()
    sam.button("Reject").first.click()


STILL = """Promise.all(document.getAnimations().filter(animation => animation.effect.getTiming().iterations === 1)
    .map(animation => animation.finished))"""


def violations(page: Page) -> list[Any]:
    """What axe-core finds, in short."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE)
    page.evaluate(STILL)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [(each["id"], [node["html"][:160] for node in each["nodes"][:3]]) for each in found]


def test_the_narrowest_page_has_no_sideways_scroll(visit: Visit) -> None:
    sam = visit("sam", size=(320, 640))
    sam.ask("both please")
    expect(sam.card()).to_have_count(2)
    assert sam.page.evaluate("document.documentElement.scrollWidth") == 320


@pytest.mark.parametrize("static", ["manifest", "modules"])
def test_hashed_static_files_work(visit: Visit, own_site: Callable[..., Site], static: str) -> None:
    sam = visit("sam", at=own_site(static))
    missing: list[str] = []
    loaded: list[str] = []
    sam.page.on("response", lambda answer: (missing if answer.status >= 400 else loaded).append(answer.url))
    sam.ask("refund please")
    expect(sam.card().locator("input[type=number]")).to_have_value("49.5")
    sam.button("Approve: ").click()
    sam.sees('"refunded":49.5')
    hashed = [bool(re.search(r"\.[0-9a-f]{12}\.\w+$", url)) for url in loaded if "/static/" in url]
    assert [url for url in missing if "favicon" not in url] == []
    assert any(hashed)
    assert all(hashed) == (static == "modules")


def test_doubled_overlapping_and_early_news_change_nothing_and_a_gap_is_noticed(visit: Visit) -> None:
    ann = visit("ann")
    ann.open()
    assert ann.page.evaluate(FOLD) == {
        "text": "Grüße 👋 an alle",
        "answers": [True, True, True, False, True, False, True],
        "cursor": {"type": "hello", "event": 3, "message": "m", "offset": 15},
        "late": "Grüße 👋 an alle!",
    }


FOLD = """async () => {
    const { Store } = await import("/static/allm_django/chat/store.js");
    const store = new Store();
    const message = {id: "m", position: 0, role: "assistant", text: "", streaming: true};
    const event = (n, message) => ({type: "event", n, session: {}, messages: message ? [message] : [], calls: []});
    const text = (offset, text) => ({type: "text", message: "m", offset, text});
    store.load({session: {id: "s", status: "running"}, messages: [], calls: [], older: false, event: 1});
    const frames = [
        event(2, message), text(0, "Grüße 👋"), text(0, "Grüße 👋"), text(20, "zu früh"),
        text(6, "👋 an alle"), event(4), event(3, message),
    ];
    const answers = frames.map((frame) => store.apply(frame));
    const seen = {answers, text: store.messages.get("m").text, cursor: store.cursor()};
    store.apply(event(4, {...message, text: "Grüße 👋 an alle!", streaming: false}));
    store.apply(text(15, " mehr"));
    return {...seen, late: store.messages.get("m").text};
}"""
