"""Results to JSON and to text; size caps; masking; making hidden characters visible (T11, T15, T24, T26)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any
from uuid import UUID

from allm_django.core.types import JSON
from allm_django.errors import EncodingError

MAX_DEPTH = 64
MAX_VALUES = 200_000
MAX_INTEGER_BITS = 4_096
DEFAULT_CAP = 32_768  # characters of the model's copy
MASK = "••••••"

# Printable as Unicode has it, yet without a shape: fillers, blanks and joiners.
_SHAPELESS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0⟦") | {
    *map(chr, range(0xFE00, 0xFE10)),
    *map(chr, range(0xE0100, 0xE01F0)),
}
_PLAIN = frozenset("\n\t\u00a0\u3000")  # not printable as Python has it, yet harmless


def to_json(value: object) -> JSON:
    """``value`` as what ``json.loads`` could give (T11); the given value is never changed.

    Decimal → text, so that no digit is lost; date, time, datetime → ISO 8601 (a naive one without offset);
    timedelta → ISO 8601 duration; UUID, lazy text → text; Enum → its value; dataclass, pydantic model, mapping →
    object;
    list, tuple, other sequences → list; set → list in a stable order. U+0000 and halves of surrogate pairs, which no
    database stores, become U+FFFD. Raises EncodingError, naming the place, for anything else: bytes, NaN, infinities,
    generators, what contains itself or is deeper than 64 levels or has over 200,000 values.
    """
    try:
        return _Encoder().encode(value, ())
    except EncodingError:
        raise
    except Exception as error:  # a value's own methods may raise anything
        raise EncodingError(f"The value could not be read ({type(error).__name__}).") from error


def to_text(value: object) -> str:
    """Text verbatim, anything else as compact JSON. Raises EncodingError as :func:`to_json` does."""
    encoded = to_json(value)
    return encoded if isinstance(encoded, str) else json.dumps(encoded, ensure_ascii=False, separators=(",", ":"))


def _storable(text: str) -> str:
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(slots=True)
class _Encoder:
    """One encoding; counts what it has seen."""

    values: int = 0
    opened: set[int] = field(default_factory=set)

    def encode(self, value: Any, path: tuple[object, ...]) -> JSON:
        self.values += 1
        if self.values > MAX_VALUES:
            raise EncodingError(f"The value holds more than {MAX_VALUES} values; return less.")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.encode(value.value, path)
        if isinstance(value, str):
            return _storable(str.__str__(value))  # plain, also of a SafeString
        if isinstance(value, (int, float)):
            return _number(value, path)
        text = _as_text(value, path)
        return self.container(value, path) if text is None else _storable(text)

    def container(self, value: Any, path: tuple[object, ...]) -> JSON:
        if id(value) in self.opened:
            raise _error(path, "contains itself")
        if len(path) >= MAX_DEPTH:
            raise _error(path[:4], f"is nested deeper than {MAX_DEPTH} levels")
        self.opened.add(id(value))
        try:
            return self.children(_opened(value, path), path)
        finally:
            self.opened.discard(id(value))

    def children(self, value: Any, path: tuple[object, ...]) -> JSON:
        if isinstance(value, Mapping):
            return self.mapping(value, path)
        if isinstance(value, AbstractSet):
            return sorted((self.encode(item, (*path, "{}")) for item in value), key=json.dumps)
        return [self.encode(item, (*path, number)) for number, item in enumerate(value)]

    def mapping(self, value: Mapping[Any, Any], path: tuple[object, ...]) -> JSON:
        encoded: dict[str, Any] = {}
        for key, item in value.items():
            name = self.encode(key, (*path, key))
            if isinstance(name, (list, dict)):
                raise _error(path, f"has a key that is {type(key).__name__}; use text")
            name = name if isinstance(name, str) else json.dumps(name)
            if name in encoded:
                raise _error((*path, name), "occurs twice once its key is text")
            encoded[name] = self.encode(item, (*path, name))
        return encoded


def _error(path: tuple[object, ...], what: str) -> EncodingError:
    where = "".join(f"[{part!r}]"[:80] for part in path)
    return EncodingError(f"The value{' at ' + where if where else ''} {what}.")


def _number(value: int | float, path: tuple[object, ...]) -> int | float:
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise _error(path, "is a whole number too large for JSON readers; return it as text")
        return int(value)
    if not isfinite(value):
        raise _error(path, f"is {value}, which JSON does not have; return None or text")
    return float(value)


def _is_lazy(value: object) -> bool:
    """Whether ``value`` is one of Django's lazy texts, told by its kind's name: this room has no Django."""
    return any(
        kind.__name__ == "Promise" and kind.__module__ == "django.utils.functional" for kind in type(value).__mro__
    )


def _as_text(value: Any, path: tuple[object, ...]) -> str | None:
    """The text that stands for a value that is written as text, else None."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise _error(path, f"is {value}, which JSON does not have; return None or text")
        return str(value)
    if isinstance(value, (date, time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    return str(value) if isinstance(value, UUID) or _is_lazy(value) else None


def _duration(value: timedelta) -> str:
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    fraction = f".{value.microseconds:06d}" if value.microseconds else ""
    return f"{sign}P{value.days}DT{value.seconds // 3600}H{value.seconds % 3600 // 60}M{value.seconds % 60}{fraction}S"


def _opened(value: Any, path: tuple[object, ...]) -> Any:
    """The mapping, set or sequence that a container is written as."""
    if _is_model(value):
        return _dumped(value, path)
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise _error(path, "is bytes; return text, e.g. base64 or a link")
    if isinstance(value, (Mapping, AbstractSet, Sequence)):
        return value
    raise _error(path, f"is {type(value).__module__}.{type(value).__qualname__}, which is not JSON; return a dict")


def _is_model(value: object) -> bool:
    """Whether it is a pydantic model; the library is not imported for values that can't be one."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def _dumped(value: Any, path: tuple[object, ...]) -> Any:
    try:
        return value.model_dump(mode="json")
    except Exception as error:  # a model's own serialisers may raise anything
        raise _error(path, f"is a {type(value).__name__} that can't be dumped ({type(error).__name__})") from error


def model_copy(text: str, cap: int = DEFAULT_CAP) -> str:
    """The model's copy of a result: ``text``, or its start and a marker that says how much is left out (T24).

    At most ``cap`` characters, marker included; a surrogate pair is never split.
    """
    if len(text) <= cap:
        return text
    marker = f"\n… [cut: {{left}} of {len(text)} characters left out]"
    keep = max(cap - len(marker.format(left=len(text))), 0)
    if keep and "\ud800" <= text[keep - 1] <= "\udbff":
        keep -= 1
    return text[:keep] + marker.format(left=len(text) - keep)


def mask(arguments: JSON, sensitive: Iterable[str]) -> JSON:
    """A copy of ``arguments`` with :data:`MASK` for each sensitive field's whole value (T26).

    A name hides that field at any depth; a dotted path hides it from the top, lists passed through
    (``items.card``). Letter case does not matter. Text that should have been an object (arguments that could not be
    parsed) is hidden whole.
    """
    hidden = frozenset(name.casefold() for name in sensitive)
    if not hidden:
        return arguments
    return MASK if isinstance(arguments, str) else _masked(arguments, hidden, "")


def _masked(value: JSON, hidden: frozenset[str], path: str) -> JSON:
    if isinstance(value, list):
        return [_masked(item, hidden, path) for item in value]
    if not isinstance(value, dict):
        return value
    copy: dict[str, Any] = {}
    for name, item in value.items():
        folded = name.casefold()
        here = f"{path}.{folded}" if path else folded
        copy[name] = MASK if folded in hidden or here in hidden else _masked(item, hidden, here)
    return copy


def visible(text: str) -> str:
    """``text`` with characters that hide or reorder others written out, as ⟦U+202E⟧ (security row 20).

    Line feeds and tabs stay. ⟦ itself is written out too, so that nothing can pass for such a mark.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_shown(char) else f"⟦U+{ord(char):04X}⟧" for char in text)


def _is_shown(char: str) -> bool:
    return char in _PLAIN or (char.isprintable() and char not in _SHAPELESS)
