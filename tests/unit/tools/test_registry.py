"""What may enter the registry, and how it is found (T04, security rows 1–5)."""

from __future__ import annotations

import builtins
import importlib
import textwrap
import threading
from types import ModuleType
from typing import Any

import pytest

from allm_django.core.types import ToolSpec
from allm_django.errors import ConfigurationError, ToolDefinitionError
from allm_django.tools.registry import Registry, register, spec_of, tool, unique


def module(name: str, source: str) -> ModuleType:
    made = ModuleType(name)
    exec(compile(textwrap.dedent(source), name, "exec"), vars(made))
    return made


SHOP = """
from allm_django.tools.registry import register, tool

@tool
def lookup(q: str) -> str:
    return q

@tool(manual=True)
def refund(order: int) -> int:
    return order

@register("halt_when")
@register("encoder")
def decide(step):
    return True

def helper(a: int):
    return a

again = lookup
"""


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.register_module(module("shop.tools", SHOP))
    return made


@pytest.mark.row("T06")
def test_decorated_functions_of_a_module_enter_under_their_keys(registry: Registry) -> None:
    assert [definition.key for definition in registry.all()] == ["shop.tools.lookup", "shop.tools.refund"]
    definition = registry.get("shop.tools.refund")
    assert definition is not None
    assert registry.by_name("refund") is definition
    assert registry.find_key(definition.function) == "shop.tools.refund"
    assert registry.find_key(print) is None


def test_registering_a_module_twice_changes_nothing() -> None:
    made, shop = Registry(), module("shop.tools", SHOP)
    made.register_module(shop)
    made.register_module(shop)
    assert len(made.all()) == 2


def test_named_functions_are_found_by_kind_and_key(registry: Registry) -> None:
    assert registry.function("halt_when", "shop.tools.decide") is registry.function("encoder", "shop.tools.decide")
    assert registry.function("executor", "shop.tools.decide") is None
    assert registry.function("halt_when", "shop.tools.helper") is None
    assert registry.function_keys("encoder") == ["shop.tools.decide"]


def test_an_unknown_kind_of_function_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="halt_when"):
        register("anything")  # type: ignore[arg-type]


@pytest.mark.row("T06")
@pytest.mark.parametrize(
    "key",
    [
        "os.system",
        "shop.tools.helper",
        "shop.tools",
        "shop.tools.refund ",
        "shop.tools.Refund",
        "",
        "shop.toolsxrefund",
    ],
)
def test_a_key_that_code_did_not_register_is_nothing_and_imports_nothing(
    registry: Registry, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spy(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("something was imported")

    with monkeypatch.context() as patch:
        patch.setattr(importlib, "import_module", spy)
        patch.setattr(builtins, "__import__", spy)
        found = registry.get(key), registry.function("halt_when", key)
    assert found == (None, None)


def test_what_a_module_only_imports_stays_out() -> None:
    shop = module("shop.tools", SHOP)
    other = ModuleType("evil.tools")
    vars(other).update(lookup=shop.lookup, decide=shop.decide)
    made = Registry()
    made.register_module(other)
    assert made.all() == []
    assert made.function("halt_when", "shop.tools.decide") is None


@pytest.mark.parametrize(
    "source",
    [
        "f = tool(name='f', schema={'type': 'object'})(lambda arguments: 1)",
        "def outer():\n    @tool\n    def inner(a: int): ...\n    return inner\nf = outer()",
        "class C:\n    @staticmethod\n    @tool\n    def f(a: int): ...\nf = C.f",
        "@register('encoder')\ndef f(v): ...\ng = f\ndel f",
    ],
)
def test_lambdas_and_nested_functions_are_refused(source: str) -> None:
    with pytest.raises(ToolDefinitionError, match="module-level"):
        Registry().register_module(
            module("shop.tools", "from allm_django.tools.registry import register, tool\n" + source)
        )


def test_classes_and_instances_that_pose_as_tools_are_ignored() -> None:
    shop = module("shop.tools", SHOP)
    posing = module("evil.tools", "class C: ...\n")
    posing.C.__allm_tool__ = shop.lookup.__allm_tool__
    made = Registry()
    made.register_module(posing)
    assert made.all() == []


def test_two_tools_of_one_name_are_refused_naming_both(registry: Registry) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        registry.register_module(module("other.tools", SHOP))
    assert "other.tools.lookup" in caught.value.message
    assert "shop.tools.lookup" in caught.value.message


def test_a_frozen_registry_takes_nothing_more(registry: Registry) -> None:
    registry.freeze()
    with pytest.raises(ConfigurationError, match="frozen"):
        registry.register_module(module("late.tools", "x = 1"))


@tool
def temporary(a: int) -> int:
    """For a while."""
    return a


def test_tests_may_hold_a_tool_in_a_frozen_registry_for_a_while(registry: Registry) -> None:
    registry.freeze()
    with registry.registered(temporary) as definition:
        assert registry.get(f"{__name__}.temporary") is definition
        with pytest.raises(ToolDefinitionError), registry.registered(lambda refund: 1):
            pass
    assert registry.get(f"{__name__}.temporary") is None
    assert len(registry.all()) == 2


def test_temporary_tools_of_many_threads_do_not_disturb_each_other(registry: Registry) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        for turn in range(10):
            function = module(f"m{number}.x{turn}", f"def t{number}(a: int): ...").__dict__[f"t{number}"]
            with registry.registered(function) as definition:
                if registry.by_name(f"t{number}") is not definition:
                    failures.append(definition.key)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(registry.all()) == 2


def plain(a: int) -> int:
    """Plain."""
    return a


def test_an_engine_takes_functions_specs_and_registered_names(registry: Registry) -> None:
    spec = ToolSpec("mine", "Mine.", {"type": "object"})
    assert spec_of(spec) is spec
    assert spec_of(temporary).handler is temporary
    assert spec_of(plain).schema["required"] == ["a"]
    assert spec_of("refund", registry).manual
    assert spec_of("shop.tools.refund", registry).name == "refund"


@pytest.mark.parametrize("thing", ["os.system", "helper", lambda a: a, 3, None])
def test_an_engine_takes_nothing_else(registry: Registry, thing: Any) -> None:
    with pytest.raises(ToolDefinitionError):
        spec_of(thing, registry)


@pytest.mark.row("T04")
def test_two_tools_of_one_name_are_not_offered_together() -> None:
    one, two = (ToolSpec(name, "d", {"type": "object"}) for name in ("a", "b"))
    assert unique([one, two]) == (one, two)
    with pytest.raises(ToolDefinitionError, match="'a'"):
        unique([one, two, one])
