"""Bodies: JSON only, bounded, each name once, only numbers that JSON has (security row 34)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from allm_django.api.problems import TooLargeError
from allm_django.conf import conf

BYTES_PER_CHARACTER = 12  # at most, in JSON: one code point as two escapes of six
ROOM_FOR_THE_REST = 256 * 1024


def max_body() -> int:
    """The most bytes of a body: the longest text and the largest arguments, however they are escaped."""
    return conf().MAX_TEXT * BYTES_PER_CHARACTER + ROOM_FOR_THE_REST


class StrictJSONParser(BaseParser):
    """Parses what :func:`json.loads` would, but refuses what two readers could understand differently."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """The value. Raises ParseError or TooLargeError."""
        data = stream.read(max_body() + 1)
        if len(data) > max_body():
            raise TooLargeError
        try:
            return json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse)
        except RecursionError:
            raise ParseError("The body is nested too deep.") from None
        except ValueError as error:
            raise ParseError(f"The body is not JSON: {str(error)[:100]}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ParseError("A name occurs twice in one object of the body.")
    return found


def _refuse(name: str) -> Any:
    raise ParseError(f"{name} is not a JSON number.")
