"""What code says a tool must be at least: the admin may be stricter, never looser (T06, security rows 1, 2, 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from django.utils.translation import gettext as _

from allm_django.errors import InvalidInputError
from allm_django.models import Tool
from allm_django.store.cleaning import check_row
from allm_django.tools.registry import ToolDefinition, registry


class Condition(StrEnum):
    """How a tool's row stands to the code it names."""

    OK = "ok"
    BY_HAND = "by hand"  # no handler: a person gives every result
    MISSING = "missing"  # its handler is not registered
    LOOSER = "looser"  # it claims more than code allows
    DRIFTED = "drifted"  # code changed since the row was written or looked at


@dataclass(frozen=True, slots=True)
class Health:
    """A tool's condition, and in words what is wrong (empty if nothing is)."""

    condition: Condition
    text: str = ""

    @property
    def offerable(self) -> bool:
        """Whether the tool may be offered to a model at all, as far as its handler goes."""
        return self.condition not in (Condition.MISSING, Condition.LOOSER)


def definition_of(tool: Tool) -> ToolDefinition | None:
    """What code registered under the tool's handler key: looked up by equality, never imported."""
    return registry.get(tool.handler) if tool.handler else None


def health_of(tool: Tool) -> Health:
    """The tool's condition. Makes no query."""
    if not tool.handler:
        return _health_by_hand(tool)
    definition = definition_of(tool)
    if definition is None:
        return Health(Condition.MISSING, missing_text(tool))
    if (broken := next(_below(tool, definition), None)) is not None:
        return Health(Condition.LOOSER, broken.message)
    if has_drifted(tool, definition):
        return Health(
            Condition.DRIFTED, _("Code changed since this tool was set up. Compare the schema, then save the tool.")
        )
    return Health(Condition.OK)


def has_drifted(tool: Tool, definition: ToolDefinition) -> bool:
    """Whether code changed since the row last met it, and the row's schema is not what code has now."""
    return is_behind(tool) and tool.schema != definition.schema


def seen_in(definition: ToolDefinition) -> dict[str, str]:
    """What a row keeps of the code that it was last compared with."""
    return {"handler": definition.key, "fingerprint": definition.fingerprint}


def is_behind(tool: Tool) -> bool:
    """Whether newer code explains what is wrong with a row, so that ``sync_tools`` is simply due.

    False for what code never was: a handler or flag that was written by SQL or a fixture.
    """
    if tool.synced.get("handler") != tool.handler:
        return False
    definition = definition_of(tool)
    return definition is None or tool.synced.get("fingerprint") != definition.fingerprint


def missing_text(tool: Tool) -> str:
    """That a handler is not registered, with the way out."""
    return _(
        "“%(handler)s” is not a handler that code registered. Put @tool on a function of an app's tools.py, "
        "or choose another handler."
    ) % {"handler": tool.handler}


def check_tool(tool: Tool, stored: Tool | None = None) -> None:
    """Raise InvalidInputError, naming the field, unless ``tool`` may be saved; ``stored`` is its row until now.

    A handler that code did not register is refused, unless the row has it already and is disabled: so that what
    came in by SQL or lost its code can still be switched off.
    """
    check_row(tool)
    if not tool.verbs:
        raise InvalidInputError(_("Allow at least one, or nobody could decide a call."), field="verbs")
    check_floor(tool, stored)


def check_floor(tool: Tool, stored: Tool | None = None) -> None:
    """The part of :func:`check_tool` that compares with code."""
    if not tool.handler:
        health = _health_by_hand(tool)
        if not health.offerable:
            raise InvalidInputError(health.text, field="manual")
        return
    definition = definition_of(tool)
    if definition is not None:
        if (broken := next(_below(tool, definition), None)) is not None:
            raise broken
    elif tool.enabled or stored is None or stored.handler != tool.handler:
        raise InvalidInputError(missing_text(tool), field="handler")


def tighten(tool: Tool, definition: ToolDefinition) -> list[str]:
    """Bring ``tool`` (in memory) up to code's floor; returns the names of the fields that changed."""
    changed = [error.field for error in _below(tool, definition)]
    if "manual" in changed:
        tool.manual = True
    if "idempotent" in changed:
        tool.idempotent = False
    if "sensitive" in changed:
        tool.sensitive = [*tool.sensitive, *_left_out(tool, definition)]
    return changed


def _health_by_hand(tool: Tool) -> Health:
    if tool.enabled and not tool.manual:
        return Health(
            Condition.LOOSER, _("Without a handler a person has to give each result: make the tool manual, too.")
        )
    return Health(Condition.BY_HAND)


def _below(tool: Tool, definition: ToolDefinition) -> Iterator[InvalidInputError]:
    """Each way in which ``tool`` is looser than code allows."""
    if definition.manual_fixed and not tool.manual:
        yield InvalidInputError(
            _("Code says that this tool always waits for a person; that can't be switched off here."), field="manual"
        )
    if tool.idempotent and not definition.idempotent:
        yield InvalidInputError(
            _("Code does not say that running this handler twice is harmless, so it can't be claimed here."),
            field="idempotent",
        )
    if missing := _left_out(tool, definition):
        yield InvalidInputError(
            _("Code says that these are sensitive: %(names)s. Keep them in the list.") % {"names": ", ".join(missing)},
            field="sensitive",
        )


def _left_out(tool: Tool, definition: ToolDefinition) -> list[str]:
    present = {name.casefold() for name in tool.sensitive}
    return [name for name in definition.sensitive if name.casefold() not in present]
