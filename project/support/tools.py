"""What the assistant may do at the support desk. Each tool really acts on the desk's rows.

A docstring's first line is what the model is told; ``manual=True`` means that a person decides each call.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal
from typing import Annotated, Any, Literal

from asgiref.sync import sync_to_async
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Count, Q, Sum
from django.utils import timezone
from pydantic import Field, WithJsonSchema

import allm_django as allm
from project.support.models import HandOver, Order, Refund

MOST = 20
CENT = Decimal("0.01")
PAUSE = 0.7  # seconds; report and checks are slow so that one sees them at work
# What a card calls an argument; the model reads its description in the docstring.
OrderNumber = Annotated[int, Field(title="Order", ge=1000, le=9999)]  # so nobody is asked about one that can't be
Euros = Annotated[
    Decimal,
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 100000}),  # a plain number on the card
    Field(title="Amount in euros"),
]


def get_order(order_id: int, *, lock: bool = False) -> Order:
    """The order with that number. Raises ToolError, in words for the model, if there is none."""
    orders = Order.objects.select_for_update(of=("self",)) if lock else Order.objects
    order = orders.select_related("customer").filter(number=order_id).first()
    if order is None:
        raise allm.ToolError(f"There is no order {order_id}. Order numbers have four digits, such as 1042.")
    return order


def iso(value: dt.date | None) -> str | None:
    """A date as the model reads it."""
    return value.isoformat() if value else None


def short(order: Order) -> dict[str, Any]:
    """An order in one line of a list."""
    return {
        "order_id": order.number,
        "customer": order.customer.name,
        "status": order.get_status_display(),
        "placed_on": iso(order.placed_on),
        "total": str(order.total),
    }


def whole(order: Order) -> dict[str, Any]:
    """Everything about one order that the desk may know."""
    return short(order) | {
        "items": [f"{item.quantity} × {item.product}, {item.unit_price} each" for item in order.items.all()],
        "refunded": str(order.refunded),
        "promised_for": iso(order.promised_for),
        "delivered_on": iso(order.delivered_on),
        "days_late": order.days_late,
    }


@allm.tool(title="Find orders", idempotent=True)
def find_orders(
    customer: Annotated[str, Field(title="Customer")] = "",
    status: Annotated[Literal["packed", "sent", "delivered", "returned", ""], Field(title="Status")] = "",
) -> dict[str, Any]:
    """Find orders by the customer's name or e-mail address, by status, or both; newest first, at most 20.

    Args:
        customer: A part of the customer's name or e-mail address; empty means all.
        status: Only orders in this status; empty means all.
    """
    orders = Order.objects.select_related("customer").filter(
        Q(customer__name__icontains=customer) | Q(customer__email__icontains=customer)
    )
    if status:
        orders = orders.filter(status=status)
    return {"found": orders.count(), "orders": [short(order) for order in orders[:MOST]]}


@allm.tool(title="Look up an order", idempotent=True)
def order_status(order_id: OrderNumber) -> dict[str, Any]:
    """Look up one order: its status, items, dates, what was paid and what was refunded.

    Args:
        order_id: The order's number, four digits.
    """
    return whole(get_order(order_id))


@allm.tool(
    title="Refund an order",
    manual=True,
    idempotent=False,
    metadata={"headline": "Refund {amount} euros on order {order_id}"},
)
def refund_order(
    order_id: OrderNumber, amount: Euros, reason: Annotated[str, Field(title="Reason")], ctx: allm.ToolContext
) -> dict[str, Any]:
    """Pay money back to the customer of an order, at most what was paid and not yet refunded.

    Args:
        order_id: The order's number, four digits.
        amount: Euros with two decimals, such as 49.50.
        reason: Why, in one sentence; the customer can read it.
    """
    cents = amount.quantize(CENT)
    if amount != cents or cents <= 0:
        raise allm.ToolError(f"{amount} is not an amount; give euros with two decimals, at least 0.01.")
    with transaction.atomic():
        order = get_order(order_id, lock=True)
        left = order.total - order.refunded
        if cents > left:
            raise allm.ToolError(f"Only {left} euros of order {order_id} are left to refund; {cents} were asked for.")
        refund = Refund.objects.create(order=order, amount=cents, reason=reason[:200], made_for=ctx.user)
    return {"refund": refund.pk, "order_id": order_id, "amount": str(cents), "left": str(left - cents)}


@allm.tool(
    title="E-mail the customer",
    manual=True,
    idempotent=False,
    metadata={"headline": "E-mail the customer of order {order_id}: {subject}"},
)
def send_email(
    order_id: OrderNumber, subject: Annotated[str, Field(title="Subject")], body: Annotated[str, Field(title="Text")]
) -> dict[str, Any]:
    """Send an e-mail to the customer of an order. The address is the one on the order and can't be chosen.

    Args:
        order_id: The order's number, four digits.
        subject: One line.
        body: Plain text, with greeting and signature.
    """
    order = get_order(order_id)
    EmailMessage(" ".join(subject.split()), body, to=[order.customer.email]).send()
    return {"sent_to": order.customer.email, "order_id": order_id, "subject": subject}


@allm.tool(
    title="Ask for a delivery day", idempotent=True, metadata={"headline": "When should order {order_id} be delivered?"}
)
def ask_delivery_day(order_id: OrderNumber) -> allm.AskUser | dict[str, Any]:
    """Ask the person at the desk which day an order should be delivered on; offers the next working days.

    Args:
        order_id: The order's number, four digits.
    """
    order = get_order(order_id)
    if order.status != Order.Status.PACKED:
        raise allm.ToolError(f"Order {order_id} is {order.get_status_display()}; its day can't be chosen any more.")
    days = (timezone.localdate() + dt.timedelta(days=n) for n in range(1, 8))
    working = [f"{d:%A}, {d.isoformat()}" for d in days if d.weekday() < 5]
    return allm.AskUser(f"On which day should order {order_id} reach {order.customer.name}?", options=working[:3])


@allm.tool(title="Set the delivery day", idempotent=True, metadata={"headline": "Promise order {order_id} for {day}"})
def set_delivery_day(order_id: OrderNumber, day: Annotated[dt.date, Field(title="Day")]) -> dict[str, Any]:
    """Promise a delivery day for an order that has not been sent yet.

    Args:
        order_id: The order's number, four digits.
        day: The day, as YYYY-MM-DD; not in the past.
    """
    order = get_order(order_id)
    if order.status != Order.Status.PACKED:
        raise allm.ToolError(f"Order {order_id} is {order.get_status_display()}; its day can't be set any more.")
    if day < timezone.localdate():
        raise allm.ToolError(f"{day} is in the past; give a day from {timezone.localdate()} on.")
    order.promised_for = day
    order.save(update_fields=["promised_for"])
    return {"order_id": order_id, "promised_for": day.isoformat()}


@allm.tool(
    title="Hand over to a colleague", idempotent=False, metadata={"headline": "Hand over to a colleague: {note}"}
)
def hand_over(
    note: Annotated[str, Field(title="Note")],
    ctx: allm.ToolContext,
    order_id: Annotated[int | None, Field(title="Order", ge=1000, le=9999)] = None,
) -> allm.Halt:
    """Hand the case over to a colleague, and end the conversation.

    Args:
        note: What the colleague needs to know.
        order_id: The order's number, if the case is about one.
    """
    order = get_order(order_id) if order_id is not None else None
    case = HandOver.objects.create(order=order, note=note[:1000], handed_over_by=ctx.user)
    return allm.Halt("handed_over", {"case": case.pk, "order_id": order_id, "note": case.note})


@allm.tool(title="Make the weekly report", idempotent=True, timeout=60)
async def weekly_report(ctx: allm.ToolContext) -> dict[str, Any]:
    """Make the report of the last seven days: orders by status, and refunds. Takes a few seconds."""
    report: dict[str, Any] = {"until": timezone.localdate().isoformat()}
    since = timezone.now() - dt.timedelta(days=7)
    for number, (status, label) in enumerate(Order.Status.choices, start=1):
        ctx.progress(number / 6, f"Counting orders that are {label}")
        await asyncio.sleep(PAUSE)
        report[f"orders {label}"] = await Order.objects.filter(status=status, placed_on__gte=since.date()).acount()
    ctx.progress(5 / 6, "Adding up refunds")
    await asyncio.sleep(PAUSE)
    refunds = Refund.objects.filter(made_at__gte=since)
    totals = await refunds.aaggregate(count=Count("pk"), sum=Sum("amount"))
    ctx.progress(1.0, "Done")
    return report | {"refunds": totals["count"], "refunded": str((totals["sum"] or Decimal(0)).quantize(CENT))}


@allm.tool(title="Check the parcel", idempotent=True)
async def check_parcel(order_id: OrderNumber, ctx: allm.ToolContext) -> dict[str, Any]:
    """Check where an order's parcel is and whether it came late.

    Args:
        order_id: The order's number, four digits.
    """
    ctx.progress(0.3, "Reading the parcel's dates")
    await asyncio.sleep(2 * PAUSE)
    order = await sync_to_async(get_order)(order_id)
    dates = {"promised_for": iso(order.promised_for), "delivered_on": iso(order.delivered_on)}
    return {"parcel": order.get_status_display(), "days_late": order.days_late} | dates


@allm.tool(title="Check earlier refunds", idempotent=True)
async def check_refunds(order_id: OrderNumber, ctx: allm.ToolContext) -> dict[str, Any]:
    """Count what was paid back on all orders of an order's customer.

    Args:
        order_id: The order's number, four digits.
    """
    ctx.progress(0.5, "Going through the customer's orders")
    await asyncio.sleep(3 * PAUSE)
    order = await sync_to_async(get_order)(order_id)
    refunds = Refund.objects.filter(order__customer=order.customer)
    totals = await refunds.aaggregate(count=Count("pk"), sum=Sum("amount"))
    return {"refunds": totals["count"], "refunded": str((totals["sum"] or Decimal(0)).quantize(CENT))}


@allm.recipe(title="Close a case")
def close_case(order_id: OrderNumber, amount: Euros, reason: Annotated[str, Field(title="Reason")]) -> allm.Plan:
    """Close a complaint: look the order up, check its parcel and the customer's earlier refunds, and refund.

    Args:
        order_id: The order's number, four digits.
        amount: Euros with two decimals, such as 49.50.
        reason: Why, in one sentence; the customer can read it.
    """
    order = {"order_id": order_id}
    return allm.Plan(
        serial=[allm.Step(order_status, order)],
        parallel=[
            allm.Step(check_parcel, order),
            allm.Step(check_refunds, order),
            allm.Step(refund_order, order | {"amount": float(amount), "reason": reason}),
        ],
        compose=lambda serial, parallel, errors: {**serial, **parallel, "errors": errors},
    )
