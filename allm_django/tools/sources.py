"""Tools that come from elsewhere than functions and may change while the program runs (R01, R08)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from allm_django.errors import ToolDefinitionError
from allm_django.tools.definition import ToolDefinition


class Source(Protocol):
    """Tools by key, as they stand now, in their order. ``problem``: why they can't be had now, or ``""``."""

    path: str
    problem: str

    def definitions(self) -> Mapping[str, ToolDefinition]:
        """The tools; the last that were known if there is a problem."""


class Sources:
    """Sources in order: the first that has a name wins, and functions go before all of them (R08)."""

    def __init__(self) -> None:
        self._listed: tuple[Source, ...] = ()

    def add(self, source: Source) -> None:
        """Ask ``source`` after the others. Raises ToolDefinitionError for a path that is there already."""
        if any(known.path == source.path for known in self._listed):
            raise ToolDefinitionError(f"{source.path} is registered already.", field="key")
        self._listed = (*self._listed, source)

    @contextmanager
    def held(self, source: Source) -> Iterator[Source]:
        """For tests: ``source`` among them for a while."""
        self.add(source)
        try:
            yield source
        finally:
            self._listed = tuple(known for known in self._listed if known is not source)

    def tools(self, code: Iterable[ToolDefinition]) -> dict[str, ToolDefinition]:
        """Their tools by key, without those whose name ``code`` or an earlier one has."""
        found: dict[str, ToolDefinition] = {}
        if not self._listed:
            return found
        taken = {definition.name for definition in code}
        for source in self._listed:
            new = {key: tool for key, tool in source.definitions().items() if tool.name not in taken}
            found |= new
            taken |= {tool.name for tool in new.values()}
        return found

    def problems(self) -> dict[str, str]:
        """Path → why what is there can't be told, of those that were asked in vain."""
        for source in self._listed:
            source.definitions()
        return {source.path: source.problem for source in self._listed if source.problem}
