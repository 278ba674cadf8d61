"""Read a call's arguments as a model wrote them (T21, security row 34)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import Any

from allm_django.core.types import JSONObject

MAX_BYTES = 32 * 1024
MAX_DEPTH = 32

_AGAIN = "Send the call again with one JSON object as its arguments."


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One thing wrong with a call's arguments.

    ``path`` is dotted, with list positions in brackets (``items[0].price``), and empty for the whole.
    ``message`` is a full sentence that names the path, for models and people alike.
    """

    path: str
    message: str


class _RefusedError(Exception):
    pass


def parse_arguments(raw: str | JSONObject | None) -> tuple[JSONObject | None, str]:
    """Return (arguments, "") or (None, what to mend).

    Empty text and null mean ``{}``. Not accepted: anything but one object, NaN and infinities, a name that occurs twice
    in one object (what is shown must be what runs), more than 32 KB, deeper than 32 levels, characters that no
    database can store (U+0000, lone surrogates).
    """
    try:
        text = _as_text(raw)
        if not text.strip():
            return {}, ""
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)
        return _checked(value), ""
    except _RefusedError as refusal:
        return None, f"{refusal} {_AGAIN}"
    except json.JSONDecodeError as error:
        return None, f"{_syntax(error)} {_AGAIN}"
    except RecursionError:
        return None, f"The arguments are nested deeper than {MAX_DEPTH} levels. {_AGAIN}"
    except (TypeError, ValueError) as error:
        return None, f"The arguments are not JSON: {str(error)[:100]}. {_AGAIN}"


def _as_text(raw: str | JSONObject | None) -> str:
    text = "" if raw is None else raw if isinstance(raw, str) else json.dumps(raw, allow_nan=False, ensure_ascii=False)
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _RefusedError(f"The arguments are larger than {MAX_BYTES} bytes.")
    return text


def _once(pairs: list[tuple[str, Any]]) -> JSONObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _RefusedError(f"{twice[:60]!r} occurs twice in one object.")
    return found


def _no_constant(name: str) -> Any:
    raise _RefusedError(f"{name} is not a JSON number.")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _RefusedError("A number is too large.")
    return number


def _checked(value: Any) -> JSONObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _RefusedError(f"The arguments are {kind_of(value)}, but must be an object.")
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _RefusedError(f"The arguments are nested deeper than {MAX_DEPTH} levels.")
        level = [child for container in level for child in _inner(container)]
    return value


def _inner(container: Any) -> list[Any]:
    if isinstance(container, dict):
        for name in container:
            _storable(name)
    children = container.values() if isinstance(container, dict) else container
    for child in children:
        if isinstance(child, str):
            _storable(child)
    return [child for child in children if isinstance(child, (dict, list))]


def _storable(text: str) -> None:
    if "\x00" in text or (not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)):
        raise _RefusedError("A text holds U+0000 or half of a surrogate pair, which can't be stored.")


def _syntax(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
        return "The arguments break off before the JSON is complete."
    return f"The arguments are not valid JSON ({error.msg} at character {error.pos + 1})."


def kind_of(value: object) -> str:
    """The JSON kind of ``value`` in plain words, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else type(value).__name__


def path_text(path: Any) -> str:
    """A path of names and positions as text: ``items[0].price``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{str(part)[:60]}" for part in path)
    return text.removeprefix(".")


def not_json(arguments: object, error: Exception) -> ArgumentProblem:
    """The problem of arguments that are not JSON, with its place where it can be found."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), arguments)]
    for path, value in waiting:
        if len(path) > MAX_DEPTH:
            break
        if isinstance(value, dict):
            waiting += [((*path, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, number), item) for number, item in enumerate(value)]
        elif isinstance(value, float) and not isfinite(value):
            return ArgumentProblem(
                path_text(path), f"{path_text(path)} must be a finite number; NaN or infinity given."
            )
        elif value is not None and not isinstance(value, (str, int, float)):
            what = type(value).__name__
            return ArgumentProblem(path_text(path), f"{path_text(path)} is not JSON; {what} given.")
    return ArgumentProblem("", f"The arguments are not JSON: {str(error)[:100]}.")
