"""The demo's tools really act on the desk's rows, and refuse in words that a model can use."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core import mail
from django.utils import timezone

import allm_django as allm
from allm_django.core.headline import PLACEHOLDER, headline
from allm_django.tools.registry import registry
from project.support import demo, tools
from project.support.models import HandOver, Order, Refund

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def rows() -> None:
    """The demo's customers and orders."""
    demo.make_rows()


def context(**more: Any) -> allm.ToolContext:
    """What a handler is told about its call."""
    return allm.ToolContext(context=None, session_id=None, tool_call=allm.ToolCall("c1", "tool"), **more)


def test_every_argument_has_a_title_for_its_card() -> None:
    for definition in registry.all():
        if definition.key.startswith("project.support."):
            for name, schema in definition.schema["properties"].items():
                assert schema.get("title"), (definition.name, name)


def test_a_refunds_card_says_what_will_happen() -> None:
    definition = tools.refund_order.__allm_tool__  # type: ignore[attr-defined]
    template = str(definition.metadata["headline"])
    assert headline(definition.title, {"order_id": 1042, "amount": 49}, template) == "Refund 49 euros on order 1042"


def test_headlines_name_only_arguments_that_are_always_there() -> None:
    for definition in registry.all():
        needed = PLACEHOLDER.findall(str(definition.metadata.get("headline", "")))
        assert set(needed) <= set(definition.schema.get("required", ())), definition.name


def test_an_order_is_looked_up_whole() -> None:
    order = tools.order_status(1042)
    assert order["total"] == "138.00"
    assert order["refunded"] == "0.00"
    assert order["days_late"] == 3
    assert len(order["items"]) == 2


def test_an_order_that_is_not_there_is_said_to_be_so() -> None:
    with pytest.raises(allm.ToolError, match="no order 7"):
        tools.order_status(7)


def test_orders_are_found_by_customer_and_status() -> None:
    packed = tools.find_orders(status="packed")
    assert packed["found"] == Order.objects.filter(status="packed").count() > 0
    name = packed["orders"][0]["customer"]
    assert {order["customer"] for order in tools.find_orders(customer=name.upper())["orders"]} == {name}
    assert len(tools.find_orders()["orders"]) == tools.MOST
    assert tools.find_orders(customer="nobody")["found"] == 0


def test_a_refund_is_written_with_the_person_it_was_made_for() -> None:
    agent = get_user_model().objects.create_user("alex")
    result = tools.refund_order(1042, Decimal("49"), "The cup was broken.", context(user=agent))
    assert (result["amount"], result["left"]) == ("49.00", "89.00")
    refund = Refund.objects.get(pk=result["refund"])
    assert (refund.amount, refund.made_for, refund.order.number) == (49, agent, 1042)


@pytest.mark.parametrize("amount", ["0", "-1", "0.001", "10.999"])
def test_an_amount_that_is_none_is_refused(amount: str) -> None:
    with pytest.raises(allm.ToolError, match="not an amount"):
        tools.refund_order(1042, Decimal(amount), "x", context())
    assert not Refund.objects.filter(order__number=1042).exists()


def test_no_more_than_what_is_left_goes_back() -> None:
    tools.refund_order(1042, Decimal("100"), "x", context())
    with pytest.raises(allm.ToolError, match=r"Only 38\.00 euros"):
        tools.refund_order(1042, Decimal("38.01"), "x", context())
    assert tools.refund_order(1042, Decimal("38"), "x", context())["left"] == "0.00"


def test_an_email_goes_to_the_customer_of_the_order_and_its_subject_stays_one_line() -> None:
    sent = tools.send_email(1042, "Your order\nBcc: all@mail.example", "Hello")
    [message] = mail.outbox
    assert message.to == [sent["sent_to"]] == [Order.objects.get(number=1042).customer.email]
    assert message.subject == "Your order Bcc: all@mail.example"


def test_the_delivery_day_is_asked_for_and_then_set() -> None:
    question = tools.ask_delivery_day(1051)
    assert isinstance(question, allm.AskUser)
    assert len(question.options) == 3
    day = timezone.localdate() + dt.timedelta(days=2)
    assert tools.set_delivery_day(1051, day)["promised_for"] == day.isoformat()
    with pytest.raises(allm.ToolError, match="in the past"):
        tools.set_delivery_day(1051, timezone.localdate() - dt.timedelta(days=1))


def test_the_day_of_a_delivered_order_is_neither_asked_for_nor_set() -> None:
    with pytest.raises(allm.ToolError, match="delivered"):
        tools.ask_delivery_day(1042)
    with pytest.raises(allm.ToolError, match="delivered"):
        tools.set_delivery_day(1042, timezone.localdate())


def test_a_hand_over_makes_a_case_and_halts() -> None:
    halt = tools.hand_over("Call them.", context(), 1042)
    assert halt.reason == "handed_over"
    assert HandOver.objects.get(pk=halt.value["case"]).order == Order.objects.get(number=1042)


@pytest.mark.django_db(transaction=True)
@pytest.mark.asyncio
async def test_the_weekly_report_counts_and_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "PAUSE", 0)
    told: list[float | None] = []
    report = await tools.weekly_report(context(report=lambda fraction, text: told.append(fraction)))
    week = timezone.localdate() - dt.timedelta(days=7)
    assert (
        report["orders packed, not yet sent"]
        == await Order.objects.filter(status="packed", placed_on__gte=week).acount()
    )
    assert report["refunds"] == await Refund.objects.acount()
    assert report["refunded"] == f"{sum([refund.amount async for refund in Refund.objects.all()]):.2f}"
    assert told == sorted(told, key=lambda fraction: fraction or 0)
    assert told[-1] == 1
