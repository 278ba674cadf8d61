"""What requests may hold. Unknown fields are refused by name; kinds are not converted (security rows 14, 34)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q
from rest_framework import serializers
from rest_framework.request import Request

from allm_django.conf import conf
from allm_django.core.grants import MATCHES, MAX_SECONDS, MAX_USES, MIN_SECONDS, SCOPES
from allm_django.core.schema import parse_arguments
from allm_django.errors import InvalidInputError
from allm_django.models import Session

MAX_WHOLE, MAX_KEY, MAX_REASON = 2**31 - 1, 200, 2_000
# What each verb takes besides verb and version.
VERB_FIELDS: dict[str, frozenset[str]] = {
    "approve": frozenset({"grant"}),
    "edit": frozenset({"arguments", "reason"}),
    "answer": frozenset({"value", "reason"}),
    "reject": frozenset({"reason"}),
    "retry": frozenset({"reason"}),
    "reask": frozenset(),
}
NEEDED = {"edit": "arguments", "answer": "value"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Strict(serializers.Serializer[Any]):
    """A serializer that refuses fields it does not know."""

    def to_internal_value(self, data: Any) -> Any:
        """Refuse first what is not a field here."""
        if isinstance(data, Mapping) and (unknown := sorted(set(map(str, data)) - set(self.fields))):
            words = f"is not a field here; known are {', '.join(self.fields) or 'none'}."
            raise serializers.ValidationError({name[:64]: [words] for name in unknown[:5]})
        return super().to_internal_value(data)


class Text(serializers.CharField):
    """Text as it is: neither converted from other kinds nor trimmed; at most ``MAX_TEXT`` characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        """The text."""
        if not isinstance(data, str):
            raise serializers.ValidationError(f"Text is needed, not {type(data).__name__}.")
        if len(data) > conf().MAX_TEXT:
            raise serializers.ValidationError(f"The text is longer than {conf().MAX_TEXT} characters.")
        return super().to_internal_value(data)


class Spoken(Text):
    """A message's text: not blank."""

    def to_internal_value(self, data: Any) -> str:
        """The text."""
        text = super().to_internal_value(data)
        if not text.strip():
            raise serializers.ValidationError("The text is blank.")
        return text


class Whole(serializers.IntegerField):
    """A whole number; not a text that looks like one."""

    def to_internal_value(self, data: Any) -> int:
        """The number."""
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError(f"A whole number is needed, not {type(data).__name__}.")
        return int(super().to_internal_value(data))


class JSONValue(serializers.JSONField):
    """Any JSON within the bounds of arguments: 32 KB, 32 levels, characters that can be stored."""

    def to_internal_value(self, data: Any) -> Any:
        """The value."""
        found, problem = parse_arguments({"value": data})
        if found is None:
            raise serializers.ValidationError(problem)
        return found["value"]


class JSONArguments(serializers.DictField):
    """A call's arguments: one object, 32 KB, 32 levels."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """The arguments."""
        found, problem = parse_arguments(data) if isinstance(data, dict) else (None, "An object is needed.")
        if found is None:
            raise serializers.ValidationError(problem)
        return found


class StartInput(Strict):
    """A new session. Without ``engine``: the only one there is."""

    engine = Text(required=False, max_length=64)
    text = Spoken(required=False)
    title = Text(required=False, allow_blank=True, max_length=200)
    context = JSONValue(required=False, allow_null=True)  # type: ignore[assignment]  # DRF takes fields off the class


class MessageInput(Strict):
    """What a person writes."""

    text = Spoken()


class TitleInput(Strict):
    """Another title."""

    title = Spoken(max_length=200)


class NothingInput(Strict):
    """A verb without fields."""


class GrantInput(Strict):
    """What is allowed beforehand together with an approval; ``pattern`` with match ``pattern`` only."""

    scope = serializers.ChoiceField(choices=list(SCOPES))
    match = serializers.ChoiceField(choices=list(MATCHES))
    pattern = JSONArguments(required=False)
    seconds = Whole(min_value=MIN_SECONDS, max_value=MAX_SECONDS)
    uses = Whole(required=False, allow_null=True, min_value=1, max_value=MAX_USES)


class DecideInput(Strict):
    """A decision on the version of a call that the person saw. Nothing else of it is the client's to say (H04)."""

    verb = serializers.ChoiceField(choices=list(VERB_FIELDS))
    version = Whole(min_value=1, max_value=MAX_WHOLE)
    arguments = JSONArguments(required=False)
    reason = Text(required=False, allow_blank=True, max_length=MAX_REASON)
    value = JSONValue(required=False, allow_null=True)
    grant = GrantInput(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Hold each verb to its own fields."""
        verb = attrs["verb"]
        allowed = {"verb", "version"} | VERB_FIELDS[verb]
        if wrong := sorted(set(attrs) - allowed):
            raise serializers.ValidationError({name: [f"is not a field of {verb}."] for name in wrong})
        if verb in NEEDED and NEEDED[verb] not in attrs:
            raise serializers.ValidationError({NEEDED[verb]: [f"is needed to {verb}."]})
        return attrs


class SessionsQuery(Strict):
    """Which sessions to list."""

    q = Text(required=False, allow_blank=True, max_length=200)
    before = Text(required=False, max_length=80)
    scope = serializers.ChoiceField(choices=["mine", "waiting", "all"], default="mine")


class MessagesQuery(Strict):
    """Which messages to list: the ``limit`` before a position."""

    before = serializers.IntegerField(required=False, min_value=0, max_value=MAX_WHOLE)
    limit = serializers.IntegerField(default=50, min_value=1, max_value=200)


class EventsQuery(Strict):
    """Which events to list: the ``limit`` after a number."""

    after = serializers.IntegerField(default=0, min_value=0, max_value=2**63 - 1)
    limit = serializers.IntegerField(default=200, min_value=1, max_value=500)


class CallsQuery(Strict):
    """Which open calls to list: those to decide, or those of one's own sessions."""

    state = serializers.ChoiceField(choices=["open", "pending", "unknown", "asking"], default="open")
    scope = serializers.ChoiceField(choices=["decide", "mine"], default="decide")


def checked(kind: type[Strict], data: Any) -> dict[str, Any]:
    """``data`` as ``kind`` allows it. Raises ValidationError naming each field that is wrong."""
    given = kind(data=data)
    given.is_valid(raise_exception=True)
    valid: dict[str, Any] = given.validated_data
    return valid


def idempotency_key(request: Request) -> str | None:
    """The header ``Idempotency-Key``: 1 to 200 visible ASCII characters. Raises InvalidInputError."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        raise InvalidInputError(
            f"Idempotency-Key: 1 to {MAX_KEY} plain characters are needed.", field="Idempotency-Key"
        )
    return key


def cursor_after(session: Session) -> str:
    """The cursor of the sessions that follow ``session`` in the list, the latest first."""
    return f"{(session.updated_at - EPOCH) // timedelta(microseconds=1)}.{session.pk.hex}"


def below_cursor(cursor: str) -> Q:
    """The sessions that follow ``cursor``. Raises InvalidInputError for a text that is none."""
    time, _, key = cursor.partition(".")
    try:
        moment, pk = EPOCH + timedelta(microseconds=int(time)), UUID(hex=key)
    except (ValueError, OverflowError):
        raise InvalidInputError("before: this is not a cursor from a list of sessions.", field="before") from None
    return Q(updated_at__lt=moment) | Q(updated_at=moment, pk__lt=pk)
