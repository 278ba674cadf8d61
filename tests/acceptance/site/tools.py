"""Tools of the browser tests' site; their results say what ran."""

from __future__ import annotations

import asyncio
from typing import Any

import allm_django as allm
from project.settings import VAR
from tests.acceptance.site.gate import Gate


@allm.tool(title="Look up an order", idempotent=True)
def look_up(order_id: str) -> dict[str, Any]:
    """Tell an order's state."""
    if order_id == "long":
        return {"order": order_id, "parcels": [f"parcel {n} of 400" for n in range(1, 401)]}
    return {"order": order_id, "state": "sent"}


@allm.tool(title="Refund an order", manual=True)
def refund(order_id: str, amount: float, note: str = "") -> dict[str, Any]:
    """Pay money back."""
    return {"refunded": amount, "order": order_id, "note": note}


@allm.tool(title="Notify a customer", manual=True)
def notify(text: str) -> dict[str, Any]:
    """Write to the customer."""
    return {"sent": text}


@allm.tool(title="Pay out", manual=True)
def pay_out(amount: float) -> dict[str, Any]:
    """Pay money out of the till. Two people have to approve."""
    return {"paid": amount}


@allm.tool(title="Order a shirt", idempotent=True)
def shirt() -> allm.AskUser:
    """Order a shirt, once its size is known."""
    return allm.AskUser("Which size should it be?", options=["S", "M", "L"])


@allm.tool(title="Make a report", idempotent=True)
async def make_report(gate: str, ctx: allm.ToolContext) -> dict[str, Any]:
    """Make a report; half of it until the gate opens."""
    while not Gate(VAR, gate).is_set():
        ctx.progress(0.5, "page 2 of 4")
        await asyncio.sleep(0.05)
    return {"pages": 4}


@allm.recipe(title="Wind a case up")
def wind_up(gate: str) -> allm.Plan:
    """Look the order up, then make a report and refund."""
    return allm.Plan(
        serial=[allm.Step(look_up, {"order_id": "1042"})],
        parallel=[
            allm.Step(make_report, {"gate": gate}),
            allm.Step(refund, {"order_id": "1042", "amount": 10.0}, "goodwill"),
        ],
    )
