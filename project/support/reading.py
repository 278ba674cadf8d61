"""What a sentence asks for, by plain patterns: the planner's understanding, which is not much."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

CLAUSE = re.compile(
    r"\s*[,;.]?\s+(?:and|then|also)\s+(?=(?:please\s+|then\s+)?(?:refund|pay|close|e-?mail|write|tell|hand|look|show)\b)",
    re.I,
)
ORDER = re.compile(r"(?:\border\s*(?:no\.?|number)?|#)\s*#?\s*(\d{1,9})\b", re.I)
NUMBER = r"(?<![\d.,])(\d{1,6}(?:[.,]\d{1,2})?)(?![.,]?\d)"
AMOUNT = re.compile(rf"(?:€|\beuros?\b|\beur\b)\s*{NUMBER}|{NUMBER}\s*(?:€|euros?\b|eur\b)|\brefund\s+{NUMBER}", re.I)
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
REASON = re.compile(r"(?:,|;|:|\bbecause\b|\bsince\b)\s*(?:because\s+|as\s+|since\s+)?(\D.*)$", re.I | re.S)
NEWS = re.compile(r"(?:\bthat|\babout|:|\border\s+#?\d+)\s+(?!that\b|about\b)([^\d\s].+)$", re.I | re.S)
NAME = re.compile(r"\b(?:of|for|from|by)\s+(?:customer\s+)?([^\W\d_][\w.@'-]*(?:\s+[^\W\d_][\w'-]*)?)")
STATUSES = {"packed": "packed", "sent": "sent", "on": "sent", "delivered": "delivered", "returned": "returned"}


@dataclass(frozen=True, slots=True)
class Wish:
    """One call that would do what was asked for."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


class UnclearError(Exception):
    """Something is missing; the text says what, in words for the person."""


def understand(text: str, earlier: Sequence[str] = ()) -> list[Wish]:
    """The calls that ``text`` asks for; none if it is not understood.

    An order that is not named is the one spoken of before: in the sentence, else in the ``earlier`` texts, latest
    last. Raises UnclearError when something is still missing.
    """
    wishes = []
    for clause in CLAUSE.split(text):
        rule = next((make for pattern, make in RULES if pattern.search(clause)), None)
        if rule is not None:
            wishes.append(rule(clause, order_in([clause, text, *reversed(earlier)])))
    return wishes


def order_in(texts: Sequence[str]) -> int | None:
    """The first order number in ``texts``."""
    return next((int(found[1]) for text in texts if (found := ORDER.search(text))), None)


def needed(order: int | None) -> int:
    """``order``, or a question back."""
    if order is None:
        raise UnclearError("Which order do you mean? Write its number, for example “order 1042”.")
    return order


def close_case(clause: str, order: int | None) -> Wish:
    """Close the case of order 1042 with 24.50 euros, a cup was broken."""
    return Wish("close_case", refund(clause, order).arguments)


def refund(clause: str, order: int | None) -> Wish:
    """Refund 49 euros on order 1042, the cup was broken."""
    found = AMOUNT.search(clause)
    if found is None:
        raise UnclearError("How much should go back? Write the amount in euros, for example “refund 49 euros”.")
    amount = float(next(group for group in found.groups() if group).replace(",", "."))
    rest = REASON.search(clause[found.end() :])
    amount = int(amount) if amount.is_integer() else amount
    reason = sentence(rest[1]) if rest else "Agreed with the customer."
    return Wish("refund_order", {"order_id": needed(order), "amount": amount, "reason": reason})


def send_email(clause: str, order: int | None) -> Wish:
    """E-mail the customer of order 1042 that the parcel is late."""
    number = needed(order)
    found = NEWS.search(clause)
    news = sentence(found[1]) if found else "We have news about your order and will call you."
    body = f"Hello,\n\nthis is about your order {number}. {news}\n\nKind regards\nThe support desk"
    return Wish("send_email", {"order_id": number, "subject": f"Your order {number}", "body": body})


def delivery_day(clause: str, order: int | None) -> Wish:
    """When should order 1051 be delivered? · Deliver order 1051 on 2030-01-31."""
    if found := DATE.search(clause):
        return Wish("set_delivery_day", {"order_id": needed(order), "day": found[0]})
    return Wish("ask_delivery_day", {"order_id": needed(order)})


def hand_over(clause: str, order: int | None) -> Wish:
    """Hand this over to a colleague."""
    about = {"order_id": order} if order is not None else {}
    return Wish("hand_over", {"note": sentence(clause), **about})


def find_orders(clause: str, order: int | None) -> Wish:
    """Show the orders of Anna Weber. · Which orders are packed?"""
    name = NAME.search(clause)
    status = next((STATUSES[word] for word in re.findall(r"\w+", clause.lower()) if word in STATUSES), "")
    return Wish("find_orders", {"customer": name[1] if name else ""} | ({"status": status} if status else {}))


def sentence(text: str) -> str:
    """``text`` as a sentence."""
    words = " ".join(text.split()).strip(" ,;")
    return f"{words[:1].upper()}{words[1:]}" + ("" if words.endswith((".", "!", "?")) else ".")


RULES: list[tuple[re.Pattern[str], Callable[[str, int | None], Wish]]] = [
    (re.compile(r"\bclose\b|\bsettle\b", re.I), close_case),
    (re.compile(r"\bhand\b.*\bover\b|\bescalate\b|\bto a colleague\b", re.I), hand_over),
    (re.compile(r"\brefund|\bmoney back\b|\bpay back\b|\breimburse", re.I), refund),
    (re.compile(r"\be-?mail\b|\b(?:write|tell)\b.*\bcustomer\b", re.I), send_email),
    (re.compile(r"\bweekly\b|\breport\b", re.I), lambda clause, order: Wish("weekly_report")),
    (re.compile(r"\bshould\b.*\bdeliver|\bdelivery (?:day|date)\b|\bdeliver\b", re.I), delivery_day),
    (re.compile(r"\borders\b", re.I), find_orders),
    (ORDER, lambda clause, order: Wish("order_status", {"order_id": needed(order)})),
    (
        re.compile(r"\bwhere\b|\bstatus\b|\blook up\b", re.I),
        lambda _, order: Wish("order_status", {"order_id": needed(order)}),
    ),
]
