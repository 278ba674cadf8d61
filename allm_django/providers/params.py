"""The provider-neutral parameters of a model call: what there is, and what may be in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from allm_django.errors import InvalidInputError

DEFAULT_STALL_TIMEOUT = 180.0
CONNECT_TIMEOUT = 10.0
EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def _number(value: object, least: float = float("-inf")) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value < float("inf")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _texts(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value))


_Check = tuple[Callable[[Any], bool], str]
_NOT_NEGATIVE: _Check = (lambda v: _number(v, 0), "a number of 0 or more")
_ANY_NUMBER: _Check = (_number, "a number")
_COUNT: _Check = (lambda v: _whole(v) and v > 0, "a whole number above 0")

PARAMS: Mapping[str, _Check] = {
    "temperature": _NOT_NEGATIVE,
    "max_tokens": _COUNT,
    "top_p": (lambda v: _number(v, 0) and v <= 1, "a number from 0 to 1"),
    "top_k": _COUNT,
    "seed": (_whole, "a whole number"),
    "stop": (_texts, "text or a list of texts"),
    "timeout": (lambda v: _number(v) and v > 0, "a number of seconds above 0"),
    "parallel_tool_calls": (lambda v: isinstance(v, bool), "true or false"),
    "presence_penalty": _ANY_NUMBER,
    "frequency_penalty": _ANY_NUMBER,
    "thinking": (lambda v: isinstance(v, bool) or v in EFFORTS, f"true, false or one of {', '.join(EFFORTS)}"),
}


def check_params(params: Mapping[str, Any]) -> None:
    """Raise InvalidInputError (field ``params.<name>``) for a parameter that is unknown or of the wrong kind."""
    for name, value in params.items():
        if name not in PARAMS:
            raise InvalidInputError(
                f"params.{name}: there is no such parameter. Known are {', '.join(PARAMS)}.", field=f"params.{name}"
            )
        allowed, wanted = PARAMS[name]
        if not allowed(value):
            raise InvalidInputError(f"params.{name}: {value!r} given; {wanted} is needed.", field=f"params.{name}")
