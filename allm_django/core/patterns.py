"""Regular expressions that can't hang: each pattern gets a bound on the steps it may take (security row 36).

Python's ``re`` backtracks, so ``^(a+)+$`` takes exponential time. A pattern is accepted if either

* it is *deterministic*: wherever the matcher has a choice, the next character settles it, so that matching
  takes linear time (``^[a-z]+(-[a-z]+)*$``); or
* the number of its possible paths is a polynomial in the length of the text (``^.*foo.*$``: quadratic);

and the bound lets a text of :data:`USEFUL_LENGTH` characters through. Otherwise, and for back references,
lookaround, inline flags and repeats of what may be empty, SchemaError says what to change. Each match is
charged its bound (``Pattern.cost``), so a long text is refused rather than tried.

The dialect is what JSON Schema's ECMA-262 and Python's ``re`` share: ``$`` means the very end, ``\\d`` and
``\\w`` are ASCII.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]  # the parser has no public name
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from allm_django.errors import SchemaError

MAX_PATTERN_LENGTH = 1_000
MAX_STEPS = 10_000_000  # of one match; about 0.1 s
USEFUL_LENGTH = 64
MAX_POSITIONS = 400

_END = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", re.DOTALL)
_OTHER = 1 << 128  # any character beyond ASCII: told apart from ASCII only
_ALL = (1 << 129) - 1
_CHARACTERS = {sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN}
_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern and its bound: at most ``factor * n ** degree`` steps on ``n`` characters."""

    regex: re.Pattern[str]
    factor: float
    degree: int

    def cost(self, length: int) -> float:
        """The most steps that a match against ``length`` characters may take."""
        return float(self.factor * max(length, 1) ** self.degree)


@lru_cache(maxsize=2_048)
def bounded(text: str) -> Pattern:
    """Compile ``text``, or raise SchemaError if it is no regular expression or can't be bounded."""
    if len(text) > MAX_PATTERN_LENGTH:
        raise SchemaError(f"the pattern is longer than {MAX_PATTERN_LENGTH} characters; shorten it.")
    source = _END.sub(lambda match: r"\Z" if match[0] == "$" else match[0], text)
    try:
        tree = _parser.parse(source, re.ASCII)
        regex = re.compile(source, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise SchemaError(f"the pattern is not a regular expression: {error}.") from None
    if tree.state.flags & ~re.ASCII:
        raise SchemaError("the pattern sets flags such as (?i); spell out what may match, e.g. [Aa].")
    factor, degree = _bound(tree)
    if not (len(tree) and tree[0] == (sre.AT, sre.AT_BEGINNING)):
        degree += 1  # tried from each start
    pattern = Pattern(regex, factor, degree)
    if pattern.cost(USEFUL_LENGTH) > MAX_STEPS:
        raise _too_costly()
    return pattern


def _bound(tree: Any) -> tuple[float, int]:
    deterministic = _Positions.fan_out(tree)
    if deterministic:
        return float(deterministic), 1
    factor, degree = _paths(tree)
    return factor * (1 + min(tree.getwidth()[0], MAX_PATTERN_LENGTH)), degree


def _too_costly() -> SchemaError:
    return SchemaError(
        "the pattern may take too long: it repeats something that can match in several ways, as in (a+)+ or (a|ab)*; "
        "let the next character always tell what comes next, or use fewer repeats."
    )


def _paths(items: Any) -> tuple[float, int]:
    """Bound the ways through a sequence as (factor, degree)."""
    factor, degree = 1.0, 0
    for op, value in items:
        more, power = _ways(op, value)
        factor, degree = factor * more, degree + power
        if factor > MAX_STEPS:
            raise _too_costly()
    return factor, degree


def _ways(op: Any, value: Any) -> tuple[float, int]:
    if op in _CHARACTERS or op is sre.AT:
        return 1.0, 0
    if op is sre.SUBPATTERN:
        return _paths(_group(value))
    if op is sre.BRANCH:
        branches = [_paths(branch) for branch in value[1]]
        return sum(factor for factor, _ in branches), max(degree for _, degree in branches)
    low, high, body = _repeat(op, value)
    factor, degree = _paths(body)
    if (factor, degree) == (1.0, 0):
        return (1.0, 1) if high is None else (float(high - low + 1), 0)
    if high is None or degree * high > 6 or high > 64:
        raise _too_costly()
    return float((high - low + 1) * factor**high), degree * high


def _group(value: Any) -> Any:
    _, added, removed, body = value
    if added or removed:
        raise SchemaError("the pattern sets flags such as (?i:…); spell out what may match, e.g. [Aa].")
    return body


def _repeat(op: Any, value: Any) -> tuple[int, int | None, Any]:
    """(least, most or None for endless, body) of a repeat; SchemaError for anything else."""
    if op not in _REPEATS:
        raise SchemaError(
            "the pattern uses a back reference, lookaround or an atomic group; these are not allowed. Write it without."
        )
    low, high, body = value
    if body.getwidth()[0] == 0:
        raise SchemaError("the pattern repeats something that may be empty, as in (a*)*; repeat something that is not.")
    return low, None if high is sre.MAXREPEAT else high, body


class _Positions:
    """The characters of a pattern as positions, and which may follow which (Glushkov's construction).

    Deterministic: those that may follow one position share no character, and each is reached one way only.
    """

    def __init__(self) -> None:
        self.masks: list[int] = []
        self.follow: list[int] = []  # the union of the masks that may follow a position
        self.fan: list[int] = []

    @classmethod
    def fan_out(cls, tree: Any) -> int:
        """The most characters to compare at a step if the pattern is deterministic, else 0."""
        self = cls()
        try:
            _, first, _ = self._sequence(tree)
            self._disjoint(first)
        except _AmbiguousError:
            return 0
        return max([len(first), *self.fan], default=0) or 1

    def _disjoint(self, positions: list[int], taken: int = 0) -> int:
        for position in positions:
            if taken & self.masks[position]:
                raise _AmbiguousError
            taken |= self.masks[position]
        return taken

    def _link(self, last: list[int], first: list[int]) -> None:
        for position in last:
            self.follow[position] = self._disjoint(first, self.follow[position])
            self.fan[position] += len(first)

    def _sequence(self, items: Any) -> _Part:
        part: _Part = (True, [], [])
        for op, value in items:
            part = self._join(part, self._item(op, value))
        return part

    def _join(self, one: _Part, two: _Part) -> _Part:
        self._link(one[2], two[1])
        first = one[1] + two[1] if one[0] else one[1]
        last = one[2] + two[2] if two[0] else two[2]
        return one[0] and two[0], first, last

    def _item(self, op: Any, value: Any) -> _Part:
        if op is sre.AT:
            return True, [], []
        if op in _CHARACTERS:
            if len(self.masks) >= MAX_POSITIONS:
                raise _AmbiguousError
            self.masks.append(_mask(op, value))
            self.follow.append(0)
            self.fan.append(0)
            return False, [len(self.masks) - 1], [len(self.masks) - 1]
        if op is sre.SUBPATTERN:
            return self._sequence(_group(value))
        if op is sre.BRANCH:
            return self._branch(value[1])
        return self._repeated(*_repeat(op, value))

    def _branch(self, branches: Any) -> _Part:
        parts = [self._sequence(branch) for branch in branches]
        if sum(empty for empty, _, _ in parts) > 1:
            raise _AmbiguousError
        firsts = [position for _, first, _ in parts for position in first]
        return any(empty for empty, _, _ in parts), firsts, [position for part in parts for position in part[2]]

    def _repeated(self, low: int, high: int | None, body: Any) -> _Part:
        """x{2,4} is xx(x(x)?)?, and x{2,} is xxx*: only so is each count reached in one way."""
        if max(low, high or 0) > MAX_POSITIONS:
            raise _AmbiguousError
        if high is None:
            tail = self._sequence(body)
            self._link(tail[2], tail[1])
            tail = (low == 0, tail[1], tail[2])
            mandatory = max(low - 1, 0)
        else:
            tail, mandatory = (True, [], []), low
            for _ in range(high - low):
                tail = (True, *self._join(self._sequence(body), tail)[1:])
        for _ in range(mandatory):
            tail = self._join(self._sequence(body), tail)
        return tail


_Part = tuple[bool, list[int], list[int]]  # may be empty, first positions, last positions


class _AmbiguousError(Exception):
    pass


def _mask(op: Any, value: Any) -> int:
    """The characters that an item matches: a bit for each of ASCII, and one for all the rest."""
    if op is sre.ANY:
        return _ALL & ~(1 << 10)
    if op is sre.LITERAL:
        return 1 << min(int(value), 128)
    if op is sre.NOT_LITERAL:
        return _ALL & ~(1 << value) if value < 128 else _ALL
    if op is sre.RANGE:
        return sum(1 << code for code in range(min(value[0], 128), min(value[1], 128) + 1))
    if op is sre.CATEGORY:
        return _category(str(value))
    negated = value[0][0] is sre.NEGATE
    mask = 0
    for part_op, part in value[negated:]:
        mask |= _mask(part_op, part)
    return (_ALL & ~mask) | _OTHER if negated else mask


@lru_cache(maxsize=16)
def _category(name: str) -> int:
    letter = {"DIGIT": "d", "WORD": "w", "SPACE": "s"}[name.rsplit("_", 1)[1]]
    regex = re.compile("\\" + letter, re.ASCII)
    mask = sum(1 << code for code in range(128) if regex.match(chr(code)))
    return _ALL & ~mask if "_NOT_" in name else mask
