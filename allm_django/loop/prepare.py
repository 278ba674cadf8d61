"""Everything that can be checked before the model is called, and what a stateless run is then made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypedDict

from allm_django.core.history import check_history, messages_from_json
from allm_django.core.output import check_response_schema, output_of
from allm_django.core.policy import Offer
from allm_django.core.rules import read_rules
from allm_django.core.schema import lint
from allm_django.core.streaks import Used
from allm_django.core.types import EngineSpec, JSONObject, Limits, Message, Mode, ToolSpec
from allm_django.errors import InvalidInputError
from allm_django.loop.about import About
from allm_django.loop.environment import environment, threads
from allm_django.loop.memory import MemoryJournal
from allm_django.loop.options import LoopOptions
from allm_django.loop.setup import Setup
from allm_django.providers.base import Model
from allm_django.providers.resolve import resolve_model
from allm_django.tools.registry import bind, spec_of
from allm_django.tools.resolvers import Resolver, specs_from


class _Unset:
    """Stands for "not given", since None and other falsy values mean something (T10)."""


UNSET: Final = _Unset()


class Options(TypedDict, total=False):
    """What one call may set over its engine. See :class:`EngineSpec` for the meanings.

    ``tools`` replace the engine's of the same name and are added to the others (L16); ``allowed_tools`` names those
    that are offered (None: all, an empty list: none; R09), recipes' steps may use the others; ``context`` is passed to
    handlers unchanged, falsy values included (T10); ``keys`` maps a provider's prefix to its key (L17); ``used`` is
    that of the result that this call resumes (L10).
    """

    mode: Mode
    tools: Sequence[Any] | Resolver | None
    allowed_tools: Sequence[str] | None
    context: Any
    halt_when: Callable[..., Any] | None
    max_turns: int | None
    on_tool_error: str | Callable[..., Any] | None
    tool_choice: str
    params: JSONObject
    limits: Limits | Mapping[str, Any] | None
    encoder: Callable[[Any], str] | None
    executor: Callable[..., Any] | None
    max_parallel: int
    keys: Mapping[str, str]
    request_id: str
    used: Used | None
    response_schema: JSONObject | None


def prepare(
    engine: EngineSpec, messages: Sequence[Message], options: Options
) -> tuple[MemoryJournal, Model, LoopOptions]:
    """Check everything that can be checked before the model is called."""
    if not isinstance(engine, EngineSpec):
        raise InvalidInputError(f"engine: {type(engine).__name__} given; an EngineSpec is needed.", field="engine")
    if wrong := sorted(set(options) - set(Options.__annotations__)):
        known = ", ".join(sorted(Options.__annotations__))
        raise InvalidInputError(f"{wrong[0]}: not an option; known are {known}.", field=wrong[0])
    history = messages_from_json(messages)
    check_history(history)
    tools = _tools(engine, options)
    offer = _offer(engine, options, tools)
    halt_when = options.get("halt_when") or engine.halt_when
    context = options.get("context", UNSET)
    setup = Setup(
        messages=history,
        offer=offer,
        tools=tools,
        limits=_limits(engine, options),
        system=engine.system,
        tool_choice=_tool_choice(options.get("tool_choice", engine.tool_choice), offer),
        params={**engine.params, **_params(options)},
        context=engine.context if context is UNSET else context,
        engine=engine.name,
        asks_halt_when=halt_when is not None,
        used=_used(options.get("used")),
        output=output_of(check_response_schema(options.get("response_schema", engine.response_schema)), None),
        **({"request_id": options["request_id"]} if options.get("request_id") else {}),
    )
    loop_options = LoopOptions(
        threads=threads(),
        on_tool_error=_policy(options.get("on_tool_error") or engine.on_tool_error),
        halt_when=_function(halt_when, "halt_when"),
        encoder=_function(options.get("encoder") or engine.encoder, "encoder"),
        executor=_function(options.get("executor") or engine.executor, "executor"),
        about=About(setup.request_id, engine=setup.engine),
        max_parallel=_positive(options.get("max_parallel", engine.max_parallel), "max_parallel"),
    )
    keys = {**environment.keys(), **(options.get("keys") or {})}
    model = resolve_model(engine.model, keys=keys, registry=environment.providers())
    return MemoryJournal(setup), model, loop_options


def _offer(engine: EngineSpec, options: Options, tools: dict[str, ToolSpec]) -> Offer:
    mode = options.get("mode", engine.mode)
    if mode not in ("auto", "manual"):
        raise InvalidInputError(f"mode: {mode!r} is not one of auto, manual.", field="mode")
    rules = read_rules(engine.rules, tools)
    return Offer(_allowed(tools, options.get("allowed_tools")), mode, engine.terminal_tool, rules)


def _tools(engine: EngineSpec, options: Options) -> dict[str, ToolSpec]:
    """All tools of the run by name, with handlers that can be called."""
    specs = [_with_handler(spec) for spec in _replace_tools(specs_from(engine.tools), specs_from(options.get("tools")))]
    for spec in specs:
        lint(spec.schema, field=f"tools.{spec.name}.schema")
    return {spec.name: spec for spec in specs}


def _replace_tools(tools: Sequence[ToolSpec], extra: Sequence[ToolSpec]) -> list[ToolSpec]:
    """``extra`` over ``tools``: the same name replaces in place, others are appended (L16)."""
    by_name = {spec.name: spec for spec in extra}
    kept = [by_name.pop(spec.name, spec) for spec in tools]
    return [*kept, *(replace(spec) for spec in extra if spec.name in by_name)]


def _allowed(tools: dict[str, ToolSpec], names: Sequence[str] | None) -> dict[str, ToolSpec]:
    """The tools that the allow-list leaves (R09)."""
    if names is None:
        return tools
    if isinstance(names, str):
        raise InvalidInputError("allowed_tools: text given; a list of names is needed.", field="allowed_tools")
    if unknown := [name for name in names if name not in tools]:
        raise InvalidInputError(f"allowed_tools: there is no tool {unknown[0]!r} here.", field="allowed_tools")
    return {name: spec for name, spec in tools.items() if name in names}


def _with_handler(spec: ToolSpec) -> ToolSpec:
    """``spec`` with a handler that can be called: registered keys looked up (T06), wrong signatures refused (T08)."""
    if isinstance(spec.handler, str):
        spec = replace(spec, handler=spec_of(spec.handler).handler)
    if spec.handler is not None:
        bind(spec.handler)
    return spec


def _limits(engine: EngineSpec, options: Options) -> Limits:
    """Call over engine over settings; a whole Limits leaves nothing to the settings (L06, L10)."""
    layers = [environment.limits(), _layer(engine.limits), _layer(options.get("limits"))]
    for turns in (engine.max_turns, options.get("max_turns")):
        if turns is not None:
            layers.append({"max_turns": turns})
    return Limits.of(*layers)


def _layer(limits: Any) -> Any:
    return limits.as_json() if isinstance(limits, Limits) else {} if limits is None else limits


def _used(used: Any) -> Used:
    if used is None or isinstance(used, Used):
        return used or Used()
    raise InvalidInputError(f"used: {type(used).__name__} given; the used of a result is needed.", field="used")


def _params(options: Options) -> JSONObject:
    params: Any = options.get("params") or {}
    if not isinstance(params, Mapping):
        raise InvalidInputError(f"params: {type(params).__name__} given; a mapping is needed.", field="params")
    return dict(params)


def _positive(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{field}: {value!r} given; a whole number of at least 1 is needed.", field=field)
    return value


def _tool_choice(choice: Any, offer: Offer) -> str:
    if not isinstance(choice, str) or (choice not in ("auto", "none", "required") and choice not in offer.tools):
        raise InvalidInputError(
            f"tool_choice: {choice!r} is neither auto, none, required nor a tool on offer.", field="tool_choice"
        )
    return choice


def _policy(policy: str | Callable[..., Any]) -> str | Callable[..., Any]:
    if callable(policy) or policy in ("continue", "halt"):
        return policy
    raise InvalidInputError(
        f"on_tool_error: {policy!r} is neither continue, halt nor a function.", field="on_tool_error"
    )


def _function(value: Any, field: str) -> Any:
    if value is None or callable(value):
        return value
    raise InvalidInputError(f"{field}: {type(value).__name__} given; a function is needed.", field=field)
