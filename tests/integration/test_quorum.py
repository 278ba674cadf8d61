"""How many have to approve, and who may: quorum, four-eyes, groups; in verbs, access, cards and the API (H10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from allm_django import sessions
from allm_django.errors import (
    AlreadyApprovedError,
    AlreadyDecidedError,
    NotAllowedError,
    NotFoundError,
    VersionMismatchError,
)
from allm_django.models import Approval, ToolCall
from allm_django.present.cards import card
from allm_django.testing import call, say
from tests.integration.cast import Browser, a_tool, again, person, waiting_call, without_runner
from tests.integration.desk import COUNT, Desk

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.row("H10")]


@pytest.fixture(autouse=True)
def _no_runner() -> Iterator[None]:
    with without_runner():
        yield


def waiting(desk: Desk, **row: Any) -> ToolCall:
    """A call that two people have to approve."""
    desk.noted(manual=True, schema=COUNT, **{"quorum": 2, **row})
    desk.run(call("work", {"n": 1}), say("Done."))
    return desk.call()


def people(*names: str) -> list[User]:
    return [person(name, "decide_toolcall") for name in names]


def test_a_call_runs_once_two_different_people_have_approved_it(desk: Desk) -> None:
    seen, (bob, eve) = waiting(desk), people("bob", "eve")
    first = sessions.approve(seen, by=bob, version=seen.version)
    assert (first.state, first.version, first.decided_verb) == ("pending", seen.version, "")
    assert desk.drive().status == "awaiting_tools"
    assert desk.ran == []
    assert sessions.approve(seen, by=eve, version=seen.version).state == "ready"
    desk.drive()
    assert (desk.ran, desk.reason, desk.call().decided_name) == ([{"n": 1}], "completed", "eve")
    assert [(row.who, row.verb, row.outcome) for row in desk.session.decisions.all()] == [
        ("bob", "approve", "pending"),
        ("eve", "approve", "ready"),
    ]
    kinds = desk.kinds()
    assert kinds.index("CallPartlyApproved") < kinds.index("CallApproved")


def test_the_same_person_twice_counts_once_and_is_told_so(desk: Desk) -> None:
    seen, (bob,) = waiting(desk), people("bob")
    sessions.approve(seen, by=bob, version=seen.version, key="one")
    assert sessions.approve(seen, by=bob, version=seen.version, key="one").state == "pending"  # a resend
    with pytest.raises(AlreadyApprovedError):
        sessions.approve(seen, by=again(bob), version=seen.version)
    assert (desk.call().state, desk.call().approvals.count(), desk.session.decisions.count()) == ("pending", 1, 1)


def test_the_database_holds_one_approval_of_a_person_and_version(desk: Desk) -> None:
    seen, (bob,) = waiting(desk), people("bob")
    row = {"call": seen, "call_version": 1, "user": bob, "who": "bob", "created_at": timezone.now()}
    Approval.objects.create(**row)
    with pytest.raises(IntegrityError), transaction.atomic():
        Approval.objects.create(**row)
    Approval.objects.create(**{**row, "call_version": 2})


def test_an_edit_voids_earlier_approvals_and_is_the_first_of_the_new_version(desk: Desk) -> None:
    seen, (bob, eve, kim) = waiting(desk), people("bob", "eve", "kim")
    sessions.approve(seen, by=bob, version=seen.version)
    edited = sessions.approve(seen, by=eve, version=seen.version, arguments={"n": 2})
    assert (edited.state, edited.version, edited.arguments) == ("pending", seen.version + 1, {"n": 2})
    with pytest.raises(VersionMismatchError):
        sessions.approve(seen, by=kim, version=seen.version)
    with pytest.raises(AlreadyApprovedError):
        sessions.approve(edited, by=eve, version=edited.version)
    assert sessions.approve(edited, by=bob, version=edited.version).state == "ready"
    desk.drive()
    assert desk.ran == [{"n": 2}]


def test_one_rejection_closes_whoever_has_approved(desk: Desk) -> None:
    seen, (bob, eve) = waiting(desk), people("bob", "eve")
    sessions.approve(seen, by=bob, version=seen.version)
    sessions.reject(seen, by=eve, version=seen.version, reason="No.")
    with pytest.raises(AlreadyDecidedError):
        sessions.approve(seen, by=eve, version=seen.version)
    desk.drive()
    assert (desk.ran, desk.call().outcome) == ([], "rejected")


def test_code_in_nobodys_name_cant_stand_for_several_people_but_can_reject(desk: Desk) -> None:
    seen = waiting(desk)
    with pytest.raises(NotAllowedError, match="2 people"):
        sessions.approve(seen, by=None, version=seen.version)
    assert sessions.reject(seen, by=None).outcome == "rejected"


def test_an_approval_of_someone_who_may_no_longer_decide_does_not_count(desk: Desk) -> None:
    seen, (bob, eve, kim) = waiting(desk), people("bob", "eve", "kim")
    sessions.approve(seen, by=bob, version=seen.version)
    bob.user_permissions.clear()
    assert sessions.approve(seen, by=eve, version=seen.version).state == "pending"
    assert [row.who for row in desk.call().approvals.all()] == ["eve"]
    assert sessions.approve(seen, by=kim, version=seen.version).state == "ready"


@pytest.mark.parametrize("lose", ["right", "account"])
def test_a_right_withdrawn_after_the_last_approval_blocks_the_execution(desk: Desk, lose: str) -> None:
    """Security row 19: the call is settled, and the model told that it was not run."""
    seen, (bob, eve) = waiting(desk), people("bob", "eve")
    sessions.approve(seen, by=bob, version=seen.version)
    sessions.approve(seen, by=eve, version=seen.version)
    bob.user_permissions.clear() if lose == "right" else bob.delete()
    desk.drive()
    assert (desk.ran, desk.call().outcome, desk.reason) == ([], "unavailable", "completed")
    assert "may no longer decide" in desk.told()[0]


def test_a_call_of_unknown_outcome_is_run_again_only_if_as_many_say_so(desk: Desk) -> None:
    seen, (bob, eve) = waiting(desk), people("bob", "eve")
    sessions.approve(seen, by=bob, version=seen.version)
    sessions.approve(seen, by=eve, version=seen.version)
    ToolCall.objects.filter(pk=seen.pk).update(state="unknown", attempt=1)
    seen.refresh_from_db()
    assert (card(bob, seen.pk)["approvals"], "retry" in card(bob, seen.pk)["verbs"]) == ([], True)
    assert sessions.retry(seen, by=bob, version=seen.version).state == "unknown"
    assert "retry" not in card(bob, seen.pk)["verbs"]
    assert sessions.retry(seen, by=eve, version=seen.version).state == "ready"
    desk.drive()
    assert len(desk.ran) == 1


def test_a_card_says_how_many_have_approved_and_offers_it_to_nobody_twice(desk: Desk) -> None:
    seen, (bob, eve) = waiting(desk, four_eyes=True), people("bob", "eve")
    sessions.approve(seen, by=bob, version=seen.version)
    mine, theirs = card(bob, seen.pk), card(eve, seen.pk)
    assert [(c["quorum"], [a["by"] for a in c["approvals"]], c["four_eyes"]) for c in (mine, theirs)] == [
        (2, ["bob"], True)
    ] * 2
    assert (mine["approved"], theirs["approved"]) == (True, False)
    assert ("approve" in mine["verbs"], "edit" in mine["verbs"], "approve" in theirs["verbs"]) == (False, True, True)


def test_over_http_the_second_try_of_one_person_is_a_conflict_that_says_why(desk: Desk) -> None:
    """The same person in two browsers (security row 18)."""
    seen, (bob,) = waiting(desk), people("bob")
    one, two = Browser(bob), Browser(bob)
    answer = one.decide(seen, "approve").json()
    assert (answer["call"]["state"], answer["call"]["approved"], answer["decision"]["outcome"]) == (
        "pending",
        True,
        "pending",
    )
    again_ = two.decide(seen, "approve")
    assert (again_.status_code, again_.json()["code"], again_.json()["call"]["version"]) == (
        409,
        "already_approved",
        seen.version,
    )


# -- who may (four-eyes and groups), at every door ---------------------------------------------------------------------

MAY = {  # tool → who may decide ann's call
    (): {"ann", "finance", "other"},
    ("finance",): {"finance"},
    ("four_eyes",): {"finance", "other"},
    ("four_eyes", "finance"): {"finance"},
}


@pytest.mark.parametrize("terms", MAY, ids=lambda terms: "+".join(terms) or "open")
def test_each_door_lets_in_the_same_people(terms: tuple[str, ...]) -> None:
    """Inbox, card, API and verb ask access, and access alone."""
    a_tool(four_eyes="four_eyes" in terms, groups=[name for name in terms if name == "finance"])
    cast = {
        "ann": person("ann", "chat", "decide_toolcall", "decide_own_toolcall"),
        "stranger": person("stranger", "chat"),
        "finance": person("finance", "decide_toolcall", groups=["finance"]),
        "other": person("other", "decide_toolcall", groups=["sales"]),
    }
    seen = waiting_call(cast["ann"])
    for name, who in cast.items():
        may, browser = name in MAY[terms], Browser(who)
        listed = browser.get("calls/", state="open", scope="decide")
        assert [row["id"] for row in listed.json().get("results", [])] == ([str(seen.pk)] if may else [])
        shown = browser.get(f"calls/{seen.pk}/").json()
        assert shown.get("may_decide", False) == may
        if not may:
            assert browser.decide(seen, "reject").status_code in (403, 404)
            with pytest.raises((NotAllowedError, NotFoundError)):
                sessions.reject(seen, by=who, version=seen.version)
    seen.refresh_from_db()
    assert seen.state == "pending"
