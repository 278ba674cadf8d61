"""What a stored session is offered: the enabled rows of the tool table, as they stand at that moment (R09, R10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db.models import F

from allm_django.core.policy import Offer
from allm_django.core.types import JSONObject, Mode, ToolSpec
from allm_django.errors import AllmError
from allm_django.models import Engine, Session, Tool, ToolVersion
from allm_django.store.tool_floor import health_of
from allm_django.store.tools import current_version
from allm_django.store.writing import alias
from allm_django.tools.registry import BoundHandler, bind, registry


@dataclass(frozen=True, slots=True)
class StoredOffer:
    """An offer, and by tool name the version that its calls are judged by."""

    offer: Offer
    versions: dict[str, ToolVersion]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools in the order in which models see them, always the same (T22)."""
        return tuple(self.offer.tools.values())


def offer_for(session: Session, settings: JSONObject, seen: dict[int | None, ToolVersion] | None = None) -> StoredOffer:
    """The tools that this session's next model call may use. Three queries, however many tools.

    ``seen`` keeps versions by their tool's key for the next time: they never change, so only those of tools that did
    are read again.
    """
    versions: dict[str, ToolVersion] = {}
    specs: dict[str, ToolSpec] = {}
    tools = _tools_of(session)
    known = {} if seen is None else seen
    if new := [tool for tool in tools if tool.pk not in known or known[tool.pk].version != tool.version]:
        known.update((row.tool_id, row) for row in _current(new))
    for tool in tools:
        version = known.get(tool.pk)
        if version is None or version.data != tool.versioned():
            version = current_version(tool)
        version.tool = tool
        spec = spec_of(version)
        if spec is not None:
            versions[tool.name], specs[tool.name] = version, spec
    mode: Mode = "manual" if settings.get("mode") == "manual" else "auto"
    return StoredOffer(Offer(specs, mode, settings.get("terminal_tool") or None), versions)


def usable_version(name: str) -> ToolVersion | None:
    """The version by which a recipe's step is judged: any enabled tool, offered to the model or not (R07)."""
    tool = Tool.objects.using(alias()).filter(name=name, enabled=True).first()
    if tool is None or (tool.handler and not health_of(tool).offerable):
        return None
    version = current_version(tool)
    version.tool = tool
    return version if spec_of(version) else None


def handler_of(version: ToolVersion) -> BoundHandler | None:
    """The registered handler of a version; None if it names none, or one that code did not register."""
    definition = registry.get(version.data["handler"]) if version.data["handler"] else None
    return bind(definition) if definition is not None else None


def _tools_of(session: Session) -> list[Tool]:
    links = Engine.tools.through.objects.using(alias()).filter(engine=session.engine_id)
    chosen = set(links.values_list("tool_id", flat=True))
    tools = Tool.objects.using(alias()).filter(enabled=True).order_by("name")
    return [
        tool
        for tool in tools
        if (not chosen or tool.pk in chosen)
        and (session.allowed_tools is None or tool.name in session.allowed_tools)
        and (not tool.handler or health_of(tool).offerable)  # a row below code's floor came in past the checks
    ]


def _current(tools: list[Tool]) -> Iterable[ToolVersion]:
    return ToolVersion.objects.using(alias()).filter(tool__in=[tool.pk for tool in tools], version=F("tool__version"))


def spec_of(version: ToolVersion) -> ToolSpec | None:
    """The version as a value, or None for one that was written past the checks, by SQL or a fixture.

    Its manual flag is code's own word where code says so, and where there is no code that could run (H12).
    """
    definition = registry.get(version.data["handler"]) if version.data["handler"] else None
    try:
        return replace(version.spec, manual_fixed=definition is None or definition.manual_fixed)
    except AllmError:
        return None  # a check error names it
