"""People decide calls on the page; what they see, what runs, and what the model is told."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.acceptance.conftest import Site, Visit, Visitor


def test_an_automatic_tool_runs_and_the_answer_follows(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("lookup 1042")
    sam.sees("Order 1042 is sent.")
    sam.finished()
    line = sam.find(".call-line")
    expect(line).to_contain_text("Done")
    expect(line).to_contain_text("Look up an order")
    line.click()
    expect(sam.find(".call-details")).to_contain_text('"state":"sent"')
    expect(sam.find(".usage")).to_have_text(re.compile(r"Tokens: 2,400 in, 68 out · Cost: unknown"))


def test_a_manual_tool_waits_on_a_card_and_runs_once_approved(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("refund please")
    card = sam.card()
    expect(card).to_contain_text("Refund an order: ")
    expect(card).to_contain_text("Asked by Sam Solo")
    sam.button("Approve: Refund an order").click()
    sam.sees('I was told: {"refunded":49.5')
    expect(sam.card()).to_have_count(0)
    sam.find(".call-line").click()
    expect(sam.find(".call-details")).to_contain_text("Sam Solo approved it")


def test_who_approves_may_allow_the_same_call_again_beforehand(visit: Visit) -> None:
    """[H13]"""
    sam = visit("sam")
    sam.ask("notify twice")
    sam.button("Approve, and further calls").click()
    sam.page.get_by_label("How often").select_option("5")
    sam.button("Approve and allow these").click()
    sam.finished()
    sam.find(".call-line").last.click()
    expect(sam.find(".call-details").last).to_contain_text("Sam Solo had allowed it beforehand")


def test_edited_arguments_run_and_the_model_is_told(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("refund please")
    amount = sam.card().locator("input[type=number]")
    expect(amount).to_have_value("49.5")
    expect(sam.button("Edit and approve")).to_have_count(0)
    amount.fill("20")
    amount.blur()
    expect(sam.card().locator(".changed del")).to_have_text("49.5")
    expect(sam.button("Approve: ")).to_have_count(0)
    sam.button("Edit and approve").click()
    sam.sees('"refunded":20')
    expect(sam.find(".message.assistant").last).to_contain_text("20")
    sam.find(".call-line").click()
    expect(sam.find(".call-details .changes")).to_contain_text("49.5 → 20")


def test_one_click_approves_what_is_still_being_typed(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("refund please")
    sam.card().locator("input[type=number]").fill("21")
    expect(sam.button("Approve: ")).to_have_count(0)
    sam.button("Edit and approve").click()
    sam.sees('"refunded":21')


def test_raw_json_edits_the_same_draft_and_wrong_json_can_not_be_sent(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("refund please")
    sam.button("JSON").click()
    raw = sam.card().locator("textarea.raw")
    raw.fill('{"order_id": "1042", "amount": ')
    sam.button("Edit and approve").click()
    expect(sam.card().locator(".card-note")).to_contain_text("not valid JSON")
    raw.fill('{"order_id": "1042", "amount": 7, "note": "less"}')
    expect(sam.card().locator(".changes")).to_contain_text("amount 49.5 → 7")
    sam.button("Form").click()
    expect(sam.card().locator("input[type=number]")).to_have_value("7")
    sam.button("Edit and approve").click()
    sam.sees('"refunded":7')
    sam.sees('"note":"less"')


def test_arguments_that_do_not_fit_are_named_by_field_and_nothing_typed_is_lost(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("refund please")
    sam.button("JSON").click()
    sam.card().locator("textarea.raw").fill('{"order_id": "1042", "amount": "much"}')
    sam.button("Edit and approve").click()
    expect(sam.card().locator(".card-note")).to_contain_text("amount")
    expect(sam.card().locator("textarea.raw")).to_have_value('{"order_id": "1042", "amount": "much"}')


def test_a_rejection_carries_its_reason_to_the_model(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("refund please")
    sam.button("Reject").click()
    sam.page.get_by_label("Reason").fill("Too late for that")
    sam.card().locator(".box").get_by_role("button", name="Reject").click()
    sam.sees("Too late for that")
    expect(sam.find(".call-line")).to_contain_text("Rejected")


def test_a_result_given_by_hand_reaches_the_model_and_the_tool_does_not_run(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("refund please")
    sam.button("Answer instead").click()
    sam.page.get_by_label("Result").fill("Paid in cash at the desk")
    sam.button("Send answer").click()
    sam.sees("I was told: ")
    sam.sees("Paid in cash at the desk")
    expect(sam.find(".call-line")).to_contain_text("Answered by a person")


def test_parallel_calls_are_decided_in_any_order_across_a_reload(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("both please")
    expect(sam.card()).to_have_count(2)
    expect(sam.find(".group-head")).to_have_text("2 calls")
    sam.card("Notify").get_by_role("button", name="Approve: Notify a customer").click()
    expect(sam.card()).to_have_count(1)
    sam.page.reload()
    expect(sam.card()).to_have_count(1)
    sam.card("Refund").get_by_role("button", name="Approve: Refund an order").click()
    sam.sees("I was told: ")
    sam.sees('"refunded":10')
    expect(sam.find(".message.assistant").last).to_contain_text("Sorry")


def test_of_two_people_one_decides_and_the_other_sees_who_was_faster_and_keeps_what_was_typed(visit: Visit) -> None:
    ann, ben, kim = visit("ann"), visit("ben"), visit("kim")
    ann.ask("refund please")
    expect(ann.card()).to_contain_text("Waiting for someone who may decide “Refund an order”")
    expect(ann.button("Approve")).to_have_count(0)
    for person in (ben, kim):
        person.open(f"{ann.session}/")
        expect(person.card().locator("input[type=number]")).to_be_visible()
    kim.card().locator("input[type=number]").fill("5")
    kim.card().locator("input[type=number]").blur()
    expect(kim.button("Edit and approve")).to_be_visible()
    ben.button("Approve: Refund an order").click()
    expect(kim.card()).to_contain_text("Someone else was faster: Ben Okafor approved it")
    expect(kim.card().locator(".kept")).to_contain_text('"amount": 5')
    kim.button("Close").click()
    expect(kim.card()).to_have_count(0)
    for person in (ann, ben, kim):
        person.sees('"refunded":49.5')


def test_two_people_approve_and_neither_disturbs_what_the_other_types(visit: Visit) -> None:
    ann, ben, kim = visit("ann"), visit("ben"), visit("kim")
    ann.ask("payout please")
    expect(ann.card()).to_contain_text("0 of 2 approvals")
    expect(ann.card()).to_contain_text("Waiting for someone of Tills to decide “Pay out”")
    expect(ann.button("Approve")).to_have_count(0)
    for person in (ben, kim):
        person.open(f"{ann.session}/")
        expect(person.card()).to_contain_text("May decide: Tills")
        expect(person.card()).to_contain_text("Someone other than Ann Archer has to decide")
        expect(person.card()).to_contain_text(re.compile(r"Decide by .*\(in 45 min\)"))
    kim.button("Reject").click()
    kim.card().locator("textarea").fill("Too much?")
    ben.button("Approve: Pay out").click()
    expect(ben.card()).to_contain_text("1 of 2 approvals: Ben Okafor")
    expect(ben.card()).to_contain_text("You have approved it")
    expect(ben.button("Approve")).to_have_count(0)
    expect(kim.card()).to_contain_text("1 of 2 approvals: Ben Okafor")
    expect(kim.card().locator("textarea")).to_have_value("Too much?")
    kim.button("Cancel").click()
    kim.button("Approve: Pay out").click()
    for person in (ann, ben, kim):
        person.sees('"paid":500')
    expect(ann.find(".call-by")).to_contain_text("Ben Okafor, Kim Berger approved it")


def test_a_decision_that_comes_too_late_is_told_the_winner(visit: Visit) -> None:
    ann, ben = visit("ann"), visit("ben")
    ann.ask("refund please")
    ben.open(f"{ann.session}/")
    expect(ben.button("Approve: ")).to_be_visible()
    held: list[Route] = []
    ben.page.route("**/decide/", lambda route: held.append(route))
    ben.button("Approve: ").click()
    expect(ben.card()).to_contain_text("Sending")
    reject_as(visit("kim"), ann.session)
    held[0].continue_()
    expect(ben.card()).to_contain_text("Someone else was faster: Kim Berger rejected it")


def reject_as(person: Visitor, session: str) -> None:
    person.open(f"{session}/")
    person.button("Reject").click()
    person.card().locator(".box").get_by_role("button", name="Reject").click()
    expect(person.card()).to_have_count(0)


def test_the_rail_opens_a_card_of_another_conversation_in_place(visit: Visit) -> None:
    ann, ben = visit("ann"), visit("ben")
    ben.open()
    ann.ask("refund rail")
    entry = ben.find(f"[data-entry='{ann.card().get_attribute('data-call')}']")
    entry.locator(".rail-line").click()
    card = entry.locator(".card")
    expect(card).to_contain_text("Asked by Ann Archer in “refund rail”")
    card.get_by_role("button", name="Approve: ").click()
    ann.sees('"refunded":49.5')
    expect(entry).to_have_count(0)


def test_a_question_is_answered_by_one_of_its_options(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("shirt please")
    expect(ann.card()).to_contain_text("Which size should it be?")
    ann.card().get_by_role("button", name="M", exact=True).click()
    ann.sees("I was told: ")
    expect(ann.find(".message.assistant").last).to_contain_text("M")


def test_a_question_is_answered_in_the_composer_too(visit: Visit) -> None:
    ann = visit("ann")
    ann.ask("shirt please")
    expect(ann.card()).to_contain_text("Which size should it be?")
    ann.say("very large")
    ann.sees("I was told: ")
    expect(ann.find(".message.assistant").last).to_contain_text("very large")


def test_a_server_that_is_killed_and_started_again_still_has_the_card(
    visit: Visit, own_site: Callable[..., Site]
) -> None:
    own = own_site()
    sam = visit("sam", at=own)
    sam.ask("refund please")
    expect(sam.button("Approve: ")).to_be_visible()
    own.stop(signal.SIGKILL)
    expect(sam.find("[data-part=offline]")).to_contain_text("Reconnecting")
    own.start()
    expect(sam.find("[data-part=offline]")).to_be_hidden()
    sam.button("Approve: ").click()
    sam.sees('"refunded":49.5')


def test_no_key_decides_while_the_focus_is_elsewhere(visit: Visit) -> None:
    sam = visit("sam")
    decisions: list[str] = []
    sam.page.on("request", lambda request: decisions.append(request.url) if "/decide/" in request.url else None)
    sam.ask("refund please")
    expect(sam.card().get_by_label("order_id")).to_be_visible()
    for key in ("a", "e", "r", "Enter"):
        sam.card().get_by_label("order_id").press(key)
        sam.find("[data-part=scroller]").press(key)
    sam.card().press("Control+a")
    expect(sam.card().get_by_label("order_id")).to_have_value(re.compile(r"^\w{7}$"))
    expect(sam.find(".box")).to_have_count(0)
    expect(sam.button("Edit and approve")).to_be_visible()
    sam.button("Discard changes").click()
    sam.card().press("r")
    sam.card().press("a")
    sam.button("Cancel").click()
    expect(sam.button("Approve: ")).to_be_visible()
    assert decisions == []


def test_everything_goes_by_keyboard_alone(visit: Visit) -> None:
    sam = visit("sam")
    sam.open()
    sam.find(".start h2").wait_for()
    keys = sam.page.keyboard
    keys.press("/")
    keys.type("refund")
    keys.press("Shift+Enter")
    keys.type("please")
    expect(sam.find("#allm-text")).to_have_value("refund\nplease")
    keys.press("Enter")
    expect(sam.button("Approve: ")).to_be_visible()
    expect(sam.find("#allm-text")).to_be_focused()
    keys.press("Alt+w")
    expect(sam.card()).to_be_focused()
    keys.press("r")
    expect(sam.page.get_by_label("Reason")).to_be_focused()
    keys.press("Escape")
    expect(sam.card()).to_be_focused()
    keys.press("e")
    expect(sam.card().get_by_label("order_id")).to_be_focused()
    keys.press("Alt+w")
    keys.press("a")
    sam.sees('"refunded":49.5')


def test_stopping_while_a_card_waits_asks_first(visit: Visit) -> None:
    sam = visit("sam")
    sam.ask("refund please")
    sam.card().wait_for()
    sam.page.get_by_role("button", name="Stop").click()
    expect(sam.find("dialog.ask")).to_contain_text("Stopping closes it without running it")
    sam.page.get_by_role("button", name="Keep waiting").click()
    expect(sam.card()).to_have_count(1)
    sam.page.keyboard.press("Control+.")
    sam.page.get_by_role("button", name="Stop anyway").click()
    expect(sam.find(".call-line")).to_contain_text("Cancelled")
