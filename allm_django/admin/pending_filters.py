"""The filters of what waits: by tool, owner, engine, age, state, and whether one may decide it (M06)."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from allm_django import access
from allm_django.admin.display import shown
from allm_django.admin.overview_figures import AGE_WORDS, AGES
from allm_django.models.call import OPEN_CALLS
from allm_django.store import clock

MOST_READ = 2_000  # the calls that wait longest, from which the filters take their choices
COLUMNS = ("name", "session__owner", "session__engine")


class Choice(admin.SimpleListFilter):
    """A filter with choices of its own."""

    words: ClassVar[tuple[tuple[str, Any], ...]] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """The choices."""
        return list(self.words)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """What fits the choice; everything without one, and for one that is not offered."""
        known = self.value() in {str(value) for value, _words in self.lookup_choices}
        return self.narrow(request, queryset, str(self.value())) if known else queryset

    def narrow(self, request: HttpRequest, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """What fits ``value``, one of those offered."""
        raise NotImplementedError


class OpenStateFilter(Choice):
    """What a call waits for."""

    title = _("what it waits for")
    parameter_name = "state"
    words = (
        ("pending", _("a decision")),
        ("unknown", _("someone to look what happened")),
        ("asking", _("the owner’s answer")),
    )

    def narrow(self, request: HttpRequest, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Those in the state chosen."""
        return queryset.filter(state=value)


class MayDecideFilter(Choice):
    """Whether the person who looks may decide it."""

    title = _("who may decide")
    parameter_name = "mine"
    words = (("yes", _("I may")), ("no", _("someone else")))

    def narrow(self, request: HttpRequest, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Asked row by row, so that a page reads no more than it shows."""
        mine = Exists(access.decidable_calls(request.user).filter(pk=OuterRef("pk")))
        return queryset.filter(mine if value == "yes" else ~mine)


class AgeFilter(Choice):
    """How long it has waited, in the overview's groups."""

    title = _("age")
    parameter_name = "age"
    words = tuple((str(place), words) for place, words in enumerate(AGE_WORDS))

    def narrow(self, request: HttpRequest, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Between two ages."""
        place, now = int(value), clock.now()
        if place > 0:
            queryset = queryset.filter(created_at__lte=now - AGES[place - 1])
        return queryset.filter(created_at__gt=now - AGES[place]) if place < len(AGES) else queryset


class PresentFilter(Choice):
    """By a value that some call which waits now has; all of these filters read their choices in one query."""

    place = 0

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """The values there are, in the order of their words."""
        found = {row[self.place]: self.word(row) for row in _present(request) if row[self.place] is not None}
        return sorted(((str(value), shown(words)) for value, words in found.items()), key=lambda one: one[1])

    def word(self, row: tuple[Any, ...]) -> Any:
        """How the value is called."""
        return row[self.place]

    def narrow(self, request: HttpRequest, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Those with the value chosen."""
        return queryset.filter(**{COLUMNS[self.place]: value})


class ToolFilter(PresentFilter):
    """By tool."""

    title = _("tool")
    parameter_name = "tool"


class OwnerFilter(PresentFilter):
    """By the session's owner."""

    title = _("owner")
    parameter_name = "owner"
    place = 1

    def word(self, row: tuple[Any, ...]) -> Any:
        """The login name."""
        return row[3]


class EngineFilter(PresentFilter):
    """By the session's engine."""

    title = _("engine")
    parameter_name = "engine"
    place = 2

    def word(self, row: tuple[Any, ...]) -> Any:
        """Its name."""
        return row[4]


def _present(request: HttpRequest) -> list[tuple[Any, ...]]:
    """Tool, owner, engine (with the names of the last two) of what waits and may be seen; asked once a request."""
    kept: Any = request
    if not hasattr(kept, "allm_present"):
        seen = access.visible_calls(request.user)
        login = f"session__owner__{get_user_model().USERNAME_FIELD}"
        rows = seen.filter(OPEN_CALLS).order_by("created_at")
        columns = rows.values_list(*COLUMNS, login, "session__engine__name")
        kept.allm_present = list(set(columns[:MOST_READ]))
    return list(kept.allm_present)
