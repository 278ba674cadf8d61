from __future__ import annotations

from typing import Any

import pytest

from allm_django.errors import InvalidInputError
from allm_django.providers.params import PARAMS, check_params

GOOD = {
    "temperature": 0.5,
    "max_tokens": 100,
    "top_p": 1,
    "top_k": 4,
    "seed": -1,
    "stop": ["a", "b"],
    "timeout": 2.5,
    "parallel_tool_calls": False,
    "presence_penalty": -0.5,
    "frequency_penalty": 1,
    "thinking": "low",
}


def test_every_known_parameter_is_accepted() -> None:
    check_params(GOOD)
    assert GOOD.keys() == PARAMS.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "warm"),
        ("temperature", True),
        ("temperature", float("nan")),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("top_p", 2),
        ("seed", "1"),
        ("stop", [1]),
        ("timeout", 0),
        ("timeout", float("inf")),
        ("parallel_tool_calls", 1),
        ("thinking", "hard"),
        ("thinking", []),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match="is needed") as caught:
        check_params({name: value})
    assert caught.value.field == f"params.{name}"


def test_an_unknown_parameter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="Known are temperature, max_tokens") as caught:
        check_params({"temprature": 1})
    assert caught.value.field == "params.temprature"
