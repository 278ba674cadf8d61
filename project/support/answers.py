"""What the planner says of a call's result: the truth, in plain sentences, whatever the result was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

CAPABILITIES = """I am a small scripted planner, not a language model, so I only understand a few kinds of sentences:

- Where is order 1042?
- Show the orders of Anna Weber
- Refund 49 euros on order 1042, the cup was broken
- E-mail the customer of order 1042 that the parcel is late and refund 10 euros
- Close the case of order 1042 with 24.50 euros, a cup was broken
- When should order 1051 be delivered?
- Make the weekly report
- Hand this over to a colleague

With an API key in the environment the same page runs on a real model; the README says how."""


def report(tool: str, content: str, is_error: bool) -> str:
    """One result in words. ``content`` is the model's copy of it."""
    data = parsed(content)
    if isinstance(data, dict) and "ran_with" in data:
        return f"{changes(data)} {report(tool, as_text(data.get('result')), is_error)}"
    if is_error:
        return f"{WORK.get(tool, tool)} was not done: {error_text(data)}"
    try:
        return SENTENCES[tool](data)
    except (KeyError, TypeError, AttributeError):
        return f"{WORK.get(tool, tool)}: the result I was given is “{as_text(data)}”."


def parsed(content: str) -> Any:
    """``content`` as JSON if it is, else as it stands."""
    try:
        return json.loads(content)
    except ValueError:
        return content


def as_text(data: Any) -> str:
    """Any result as text."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def error_text(data: Any) -> str:
    """The words of an error result."""
    if isinstance(data, dict):
        data = data.get("message") or data.get("error") or data
        return error_text(data) if isinstance(data, dict) and "message" in data else as_text(data)
    return as_text(data)


def changes(data: dict[str, Any]) -> str:
    """What a person changed before the call ran."""
    asked, ran = data.get("asked") or {}, data["ran_with"] or {}
    changed = [f"{name} from {asked.get(name)} to {value}" for name, value in ran.items() if asked.get(name) != value]
    return (
        f"A person changed the call first: {', '.join(changed)}." if changed else "A person looked at the call first."
    )


def order(data: dict[str, Any]) -> str:
    """A whole order."""
    lines = [f"**Order {data['order_id']}** of {data['customer']}: {data['status']}."]
    if data["promised_for"]:
        lines.append(f"It was promised for {data['promised_for']}.")
    if data["delivered_on"]:
        late = f", {data['days_late']} days late" if data["days_late"] else ", in time"
        lines.append(f"It arrived on {data['delivered_on']}{late}.")
    lines.append(f"Paid €{data['total']}, refunded €{data['refunded']}.")
    return " ".join(lines) + "\n\n" + "\n".join(f"- {item}" for item in data["items"])


def orders(data: dict[str, Any]) -> str:
    """A list of orders."""
    if not data["found"]:
        return "I found no such orders."
    lines = [f"- Order {o['order_id']}, {o['customer']}: {o['status']}, €{o['total']}" for o in data["orders"]]
    return f"I found {data['found']} orders; the newest first:\n\n" + "\n".join(lines)


def case(data: dict[str, Any]) -> str:
    """A case that was closed, or what kept it open."""
    told = [order(data["order_status"])] if "order_status" in data else []
    if refunds := data.get("check_refunds"):
        told.append(f"The customer had {refunds['refunds']} refunds before, €{refunds['refunded']} in all.")
    if "refund_order" in data:
        told.append(f"{report('refund_order', as_text(data['refund_order']), is_error=False)} The case is closed.")
    told += [f"{WORK.get(tool, tool)} was not done: {words}" for tool, words in data["errors"].items()]
    return "\n\n".join(told)


def week(data: dict[str, Any]) -> str:
    """The weekly report."""
    lines = [f"- {name}: {value}" for name, value in data.items() if name != "until"]
    return f"The seven days until {data['until']}:\n\n" + "\n".join(lines)


WORK = {
    "refund_order": "The refund",
    "send_email": "The e-mail",
    "order_status": "Looking up the order",
    "find_orders": "Looking for orders",
    "ask_delivery_day": "Asking for the day",
    "set_delivery_day": "Setting the delivery day",
    "weekly_report": "The report",
    "close_case": "Closing the case",
    "check_parcel": "Checking the parcel",
    "check_refunds": "Checking earlier refunds",
    "hand_over": "The hand-over",
}

SENTENCES: dict[str, Callable[[Any], str]] = {
    "order_status": order,
    "find_orders": orders,
    "weekly_report": week,
    "close_case": case,
    "refund_order": lambda d: (
        f"€{d['amount']} went back to the customer of order {d['order_id']}; €{d['left']} could still be refunded."
    ),
    "send_email": lambda d: f"The e-mail “{d['subject']}” is on its way to {d['sent_to']}.",
    "set_delivery_day": lambda d: f"Order {d['order_id']} is now promised for {d['promised_for']}.",
    "hand_over": lambda d: f"The case is handed over; its number is {d['case']}.",
}
