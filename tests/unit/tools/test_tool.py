"""@tool: from functions to definitions (T01–T03, T08)."""

from __future__ import annotations

import datetime as dt
import functools
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from allm_django.core.schema import compile_schema
from allm_django.core.types import ToolCall, ToolSpec
from allm_django.errors import InvalidArgumentsError, SchemaError, ToolDefinitionError
from allm_django.tools.context import ToolContext
from allm_django.tools.registry import bind, define, tool

if TYPE_CHECKING:
    from somewhere import Unknown

CTX = ToolContext(context={"a": 1}, session_id=None, tool_call=ToolCall("c1", "t"))
OPEN: dict[str, Any] = {"type": "object"}


class Item(BaseModel):
    sku: str
    count: int = 1


class Speed(Enum):
    FAST = "fast"


@tool(manual=True, timeout=10, sensitive=["card"], metadata={"team": ("a",)})
def refund_order(
    order_id: int,
    amount: Decimal,
    ctx: ToolContext,
    day: dt.date | None = None,
    card: str = "",
    items: list[Item] = [],  # noqa: B006
    speed: Speed = Speed.FAST,
    mode: Literal["full", "part"] = "full",
) -> Unknown:
    """Pay money back.

    Only once.

    Args:
        order_id: The order's number,
            four digits.
        amount (Decimal): Euros.

    Returns:
        day: not an argument's text
    """
    return order_id, amount, day, card, items, speed, mode, ctx


DEFINITION = refund_order.__allm_tool__


@pytest.mark.row("T01", "T08")
def test_a_definition_says_what_the_decorator_and_the_docstring_say() -> None:
    assert DEFINITION.key == f"{__name__}.refund_order"
    assert (DEFINITION.name, DEFINITION.title) == ("refund_order", "Refund order")
    assert DEFINITION.description == "Pay money back.\n\nOnly once."
    assert (DEFINITION.manual, DEFINITION.manual_fixed, DEFINITION.timeout) == (True, True, 10)
    assert DEFINITION.metadata == {"team": ["a"]}
    assert not DEFINITION.is_async


@pytest.mark.row("T08")
def test_the_schema_comes_from_hints_and_docstring() -> None:
    schema = DEFINITION.schema
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["order_id", "amount"]
    assert list(schema["properties"]) == ["order_id", "amount", "day", "card", "items", "speed", "mode"]
    assert schema["properties"]["order_id"] == {"type": "integer", "description": "The order's number, four digits."}
    assert schema["properties"]["amount"]["description"] == "Euros."
    assert "description" not in schema["properties"]["day"]
    assert "title" not in str(schema)


@pytest.mark.parametrize("amount", [49, 49.5, "49.50"])
def test_decimals_may_come_as_numbers_or_text(amount: Any) -> None:
    assert compile_schema(DEFINITION.schema).errors({"order_id": 1, "amount": amount}) == []


@pytest.mark.parametrize("amount", ["NaN", "1e5", "", True, None])
def test_what_is_no_decimal_is_refused_by_the_schema(amount: Any) -> None:
    assert compile_schema(DEFINITION.schema).errors({"order_id": 1, "amount": amount})


def test_the_function_stays_callable_as_it_was() -> None:
    assert refund_order(1, Decimal(2), CTX)[0] == 1


@pytest.mark.row("T08")
def test_arguments_come_converted_and_by_name() -> None:
    arguments = {"order_id": 7, "amount": 0.1, "day": "2024-02-29", "items": [{"sku": "x"}], "speed": "fast"}
    result = DEFINITION.invoke(arguments, CTX)
    assert result == (7, Decimal("0.1"), dt.date(2024, 2, 29), "", [Item(sku="x")], Speed.FAST, "full", CTX)


def test_what_does_not_convert_is_told_by_name_and_the_function_does_not_run() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"day: .*date"):
        DEFINITION.invoke({"order_id": 7, "amount": 1, "day": "soon"}, CTX)
    with pytest.raises(InvalidArgumentsError, match=r"items\[0\].sku"):
        DEFINITION.invoke({"order_id": 7, "amount": 1, "items": [{}]}, CTX)
    with pytest.raises(InvalidArgumentsError, match="extra"):
        DEFINITION.invoke({"order_id": 7, "amount": 1, "extra": 2}, CTX)


def test_arguments_may_be_called_what_pydantic_keeps_for_itself() -> None:
    @tool
    def odd(json: int, copy: int, model_config: int, schema: int = 4) -> list[int]:
        return [json, copy, model_config, schema]

    assert odd.__allm_tool__.invoke({"json": 1, "copy": 2, "model_config": 3}, CTX) == [1, 2, 3, 4]


@pytest.mark.row("T08", "T09")
def test_the_context_is_found_by_its_type_or_by_its_name() -> None:
    def typed(a: int, where: ToolContext) -> Any:
        return where

    def named(ctx, a: int = 1):  # type: ignore[no-untyped-def]
        return ctx

    for function in (typed, named):
        definition = define(function)
        assert list(definition.schema["properties"]) == ["a"]
        assert definition.invoke({"a": 1}, CTX) is CTX


def test_sphinx_and_bare_docstrings_are_understood() -> None:
    def sphinx(a: int, b: int) -> None:
        """Do it.

        :param a: first
        :param int b: second
        :returns: nothing
        """

    def bare(a: int, b: int) -> None:
        """Do it: now.
        a: first
        b: second
        """

    for function, description in ((sphinx, "Do it."), (bare, "Do it: now.")):
        definition = define(function)
        assert [part["description"] for part in definition.schema["properties"].values()] == ["first", "second"]
        assert definition.description == description


def test_a_description_in_the_hint_wins() -> None:
    def function(a: Annotated[int, Field(description="from the hint", ge=3)]) -> None:
        """Do it.

        Args:
            a: from the docstring
        """

    assert define(function).schema["properties"]["a"] == {
        "description": "from the hint",
        "minimum": 3,
        "type": "integer",
    }


def test_without_a_docstring_the_title_is_the_description() -> None:
    def look_up() -> None: ...

    assert define(look_up).description == "Look up"


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    def inner(a: int) -> int:
        return a

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> int:
        return inner(*args, **kwargs) + 1

    assert define(outer).invoke({"a": 1}, CTX) == 2


class Strange:
    pass


def no_hint(a, b: int): ...  # type: ignore[no-untyped-def]
def many(*numbers: int): ...  # type: ignore[no-untyped-def]
def anything(**names: int): ...  # type: ignore[no-untyped-def]
def positional(a: int, /): ...  # type: ignore[no-untyped-def]
def strange(a: int, b: Strange): ...  # type: ignore[no-untyped-def]
def wrong_ctx(ctx: int): ...  # type: ignore[no-untyped-def]
def two_contexts(ctx: ToolContext, other: ToolContext): ...  # type: ignore[no-untyped-def]
def field_default(a: int = Field(ge=1)): ...  # type: ignore[no-untyped-def]
def unknown(a: Unknown): ...  # type: ignore[no-untyped-def]
def look_ahead(a: Annotated[str, Field(pattern="(a+)+$")]): ...  # type: ignore[no-untyped-def]


def generator(a: int):  # type: ignore[no-untyped-def]
    yield a


async def async_generator(a: int):  # type: ignore[no-untyped-def]
    yield a


@pytest.mark.row("T08")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_hint, "a: no type hint"),
        (many, "numbers: "),
        (anything, "names: "),
        (positional, "a: a is positional-only"),
        (strange, "b: its type has no JSON Schema"),
        (wrong_ctx, "ctx: this name is kept"),
        (two_contexts, "other: a second ToolContext"),
        (field_default, "a: use Annotated"),
        (unknown, "type hints can't be read"),
        (generator, "generator"),
        (async_generator, "generator"),
        (Strange, "@tool goes on a function"),
        (print, "@tool goes on a function"),
        (functools.partial(positional, 1), "@tool goes on a function"),
    ],
)
def test_a_function_that_can_not_serve_is_refused_at_once(function: Any, words: str) -> None:
    with pytest.raises(ToolDefinitionError, match=words):
        tool(function)


def test_an_error_names_the_function_its_file_and_line() -> None:
    line = no_hint.__code__.co_firstlineno
    with pytest.raises(ToolDefinitionError, match=rf"^{__name__}\.no_hint \(.*test_tool\.py:{line}\): a: no type hint"):
        tool(no_hint)
    with pytest.raises(SchemaError, match=rf"^{__name__}\.look_ahead \("):
        tool(look_ahead)
    with pytest.raises(ToolDefinitionError, match=r"^builtins\.print: "):
        tool(print)


@pytest.mark.row("T05")
def test_a_hint_whose_schema_could_hang_is_refused() -> None:
    with pytest.raises(SchemaError, match="schema/properties/a/pattern"):
        tool(look_ahead)


@pytest.mark.row("T02", "T03")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"manual": None}, "manual"),
        ({"manual": "yes"}, "manual"),
        ({"manual": 1}, "manual"),
        ({"compact": None}, "compact"),
        ({"idempotent": "no"}, "idempotent"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"name": "auto"}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": 5}, "name"),
        ({"description": None, "summary": 3}, "summary"),
        ({"metadata": {"a": object()}}, "metadata"),
        ({"metadata": ["a"]}, "metadata"),
        ({"sensitive": "a"}, "sensitive"),
        ({"sensitive": ["typo"]}, "sensitive"),
        ({"sensitive": [3]}, "sensitive"),
        ({"schema": {}}, "schema/type"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    def function(a: int = 1) -> None: ...

    with pytest.raises((ToolDefinitionError, SchemaError)) as caught:
        tool(**options)(function)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("manual", "starts", "fixed"), [(True, True, True), (False, False, False), ("default", True, False)]
)
def test_what_manual_means_for_the_admin(manual: Any, starts: bool, fixed: bool) -> None:
    def function() -> None: ...

    definition = define(function, manual=manual)
    assert (definition.manual, definition.manual_fixed) == (starts, fixed)


def one(arguments: dict[str, Any]) -> Any:
    return ["one", arguments]


def two(arguments: dict[str, Any], ctx: ToolContext) -> Any:
    return ["two", arguments, ctx]


async def asynchronous(arguments: dict[str, Any]) -> Any:
    return ["async", arguments]


class Handler:
    def __call__(self, arguments: Any, ctx: Any = None) -> Any:
        return ["two", arguments, ctx]

    def method(self, arguments: Any) -> Any:
        return ["one", arguments]

    async def amethod(self, arguments: Any) -> Any: ...


class AsyncHandler:
    async def __call__(self, arguments: Any) -> Any: ...


@pytest.mark.row("T08")
@pytest.mark.parametrize("make", [bind, lambda handler: define(handler, schema=OPEN).bound])
def test_functions_of_one_and_two_arguments(make: Any) -> None:
    assert make(one).call({"a": 1}, CTX) == ["one", {"a": 1}]
    assert make(two).call({"a": 1}, CTX) == ["two", {"a": 1}, CTX]
    assert make(asynchronous).is_async
    assert not make(one).is_async


@pytest.mark.row("T08")
@pytest.mark.parametrize(
    ("handler", "is_async", "first"),
    [
        (Handler(), False, "two"),
        (Handler().method, False, "one"),
        (functools.partial(two, ctx=None), False, "two"),
        (lambda arguments, *, more=1: ["one", arguments], False, "one"),
        (Handler().amethod, True, None),
        (AsyncHandler(), True, None),
        (functools.partial(asynchronous), True, None),
    ],
)
def test_any_callable_can_be_a_handler(handler: Any, is_async: bool, first: Any) -> None:
    bound = bind(handler)
    assert bound.is_async is is_async
    if not is_async:
        assert bound.call({}, CTX)[0] == first


@pytest.mark.row("T08")
@pytest.mark.parametrize(
    "handler",
    [
        lambda: 1,
        lambda a, b, c: 1,
        lambda *a: 1,
        lambda a, **more: 1,
        lambda a, *, needed: 1,
        generator,
        async_generator,
        Handler,
        dict,
        "text",
        None,
        type,
    ],
)
def test_any_other_signature_is_refused_when_it_is_bound(handler: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="handler"):
        bind(handler)


def test_two_equal_handlers_are_never_mixed_up() -> None:
    class Equal(Handler):
        def __init__(self, name: str) -> None:
            self.name = name

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Equal)

        def __hash__(self) -> int:
            return 1

        def __call__(self, arguments: Any, ctx: Any = None) -> Any:
            return self.name

    assert [bind(Equal(name)).call({}, CTX) for name in "ab"] == ["a", "b"]


def test_a_spec_carries_everything_and_binds_back_to_its_definition() -> None:
    spec = DEFINITION.spec()
    assert isinstance(spec, ToolSpec)
    assert spec.handler is refund_order
    assert (spec.name, spec.manual, spec.timeout, spec.sensitive) == ("refund_order", True, 10, ("card",))
    assert bind(spec.handler) is DEFINITION.bound


def test_a_fingerprint_stays_and_changes_with_what_a_person_looks_at() -> None:
    def make(hint: Any, **options: Any) -> str:
        def function(a, b=object()):  # type: ignore[no-untyped-def]  # noqa: B008
            return a

        function.__annotations__ = {"a": hint, "b": Any}
        return str(define(function, **options).fingerprint)

    assert make(int) == make(int)
    assert (
        len({make(int), make(str), make(int, manual=True), make(int, manual="default"), make(int, sensitive=["a"])})
        == 5
    )
