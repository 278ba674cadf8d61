"""A recipe's plan as plain values: its steps, its shape, what comes next, and what it all amounts to (R02–R06)."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from allm_django.core.encode import to_json, to_text
from allm_django.core.types import JSON, JSONObject, check_tool_name
from allm_django.errors import EncodingError, ToolDefinitionError

MAX_STEPS = 100
MAX_LABEL = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a plan. ``tool`` is a tool's name or its decorated function; ``arguments`` an object, or a function
    of the earlier results ``{label: value}`` that gives one. ``label`` defaults to the tool's name.
    """

    tool: Any
    arguments: JSONObject | Callable[[JSONObject], JSONObject] = field(default_factory=dict)
    label: str = ""

    def __post_init__(self) -> None:
        definition = getattr(self.tool, "__allm_tool__", None)
        if definition is not None and definition.bound.plans:
            raise ToolDefinitionError(f"Step: {definition.name!r} is a recipe; a step can't be one.", field="tool")
        check_tool_name(definition.name if definition is not None else self.tool, "Step.tool")
        if inspect.iscoroutinefunction(self.arguments) or not (
            isinstance(self.arguments, dict) or callable(self.arguments)
        ):
            raise ToolDefinitionError("Step: arguments are an object, or a plain function that gives one.")
        if not isinstance(self.label, str) or len(self.label) > MAX_LABEL:
            raise ToolDefinitionError(f"Step: the label is text of at most {MAX_LABEL} characters.", field="label")

    @property
    def name(self) -> str:
        """The tool's name."""
        definition = getattr(self.tool, "__allm_tool__", None)
        name: str = self.tool if definition is None else definition.name
        return name


@dataclass(frozen=True, slots=True)
class Plan:
    """What a recipe wants done: ``serial`` steps in order, then ``parallel`` ones at once, which see the serial
    results; then ``compose(serial, parallel, errors)``, each a ``{label: …}``, gives the call's result. Without it:
    a Markdown summary. Raises ToolDefinitionError for two steps of one label and for anything that is no step.
    """

    serial: Sequence[Step] = ()
    parallel: Sequence[Step] = ()
    compose: Callable[[JSONObject, JSONObject, dict[str, str]], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("serial", "parallel"):
            steps = getattr(self, name)
            if not isinstance(steps, (list, tuple)) or not all(isinstance(step, Step) for step in steps):
                raise ToolDefinitionError(f"Plan: {name} is a list of Steps.", field=name)
        if len(self.serial) + len(self.parallel) > MAX_STEPS:
            raise ToolDefinitionError(f"Plan: more than {MAX_STEPS} steps.", field="serial")
        if self.compose is not None and (not callable(self.compose) or inspect.iscoroutinefunction(self.compose)):
            raise ToolDefinitionError("Plan: compose is a plain function (serial, parallel, errors).", field="compose")
        labelled = _labelled([*self.serial, *self.parallel])
        object.__setattr__(self, "serial", labelled[: len(self.serial)])
        object.__setattr__(self, "parallel", labelled[len(self.serial) :])

    @property
    def shape(self) -> str:
        """A hash of all that must be the same when the recipe is asked again. Raises EncodingError."""
        steps = [
            [[step.name, step.label, None if callable(step.arguments) else to_json(step.arguments)] for step in steps]
            for steps in (self.serial, self.parallel)
        ]
        return hashlib.sha256(json.dumps([*steps, self.compose is not None], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PastStep:
    """A step that has its result; ``error`` in words, or ``""``. ``effect`` as a call's."""

    position: int
    value: JSON = None
    error: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step to be called now; ``problem``: why it can't be, in words. ``tool`` as its Step has it."""

    position: int
    label: str
    name: str
    tool: Any
    arguments: JSONObject | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Delegation:
    """What a recipe does next: these calls, of a plan of this shape."""

    shape: str
    steps: tuple[NewStep, ...]


def next_steps(plan: Plan, past: Sequence[PastStep]) -> tuple[NewStep, ...]:
    """The steps to call now: the next serial one, else all the parallel ones, else none (R03, R04)."""
    done = {step.position for step in past}
    results, _ = _results(plan.serial, past, 0)
    for position, step in enumerate(plan.serial):
        if position not in done:
            return (_new_step(position, step, results),)
    first = len(plan.serial)
    return tuple(
        _new_step(position, step, results) for position, step in enumerate(plan.parallel, first) if position not in done
    )


def compose(plan: Plan, past: Sequence[PastStep]) -> Any:
    """The recipe's result, once all its steps have theirs (R05). Lets through what ``compose`` raises."""
    serial, failed = _results(plan.serial, past, 0)
    parallel, also_failed = _results(plan.parallel, past, len(plan.serial))
    errors = {**failed, **also_failed}
    if plan.compose is not None:
        return plan.compose(serial, parallel, errors)
    return summary({**serial, **parallel}, errors)


def summary(results: Mapping[str, JSON], errors: Mapping[str, str]) -> str:
    """Results and errors as Markdown."""
    parts = [f"### {label}\n\n{_shown(value)}" for label, value in results.items()]
    if errors:
        parts.append("### Errors\n\n" + "\n".join(f"- {label}: {words}" for label, words in errors.items()))
    return "\n\n".join(parts) or "There was nothing to do."


def _labelled(steps: Sequence[Step]) -> tuple[Step, ...]:
    """``steps`` with a label each; a second one of the same tool is numbered."""
    given = [step.label for step in steps if step.label]
    if twice := sorted({label for label in given if given.count(label) > 1}):
        raise ToolDefinitionError(f"Plan: two steps are labelled {twice[0]!r}.", field="label")
    taken = set(given)
    labelled = []
    for step in steps:
        label = step.label or next(name for name in _names(step.name) if name not in taken)
        taken.add(label)
        labelled.append(replace(step, label=label))
    return tuple(labelled)


def _names(name: str) -> list[str]:
    return [name, *(f"{name} {number}" for number in range(2, 2 * MAX_STEPS))]


def _new_step(position: int, step: Step, results: JSONObject) -> NewStep:
    """The step with its arguments. A function that fails, or gives no object, is the step's error (R03)."""
    arguments: Any = step.arguments
    if callable(arguments):
        try:
            arguments = arguments(dict(results))
        except Exception as error:
            words = f"Its arguments could not be made ({type(error).__name__})."
            return NewStep(position, step.label, step.name, step.tool, None, words)
    if not isinstance(arguments, dict):
        words = f"Its arguments are {type(arguments).__name__}; an object is needed."
        return NewStep(position, step.label, step.name, step.tool, None, words)
    try:
        plain: Any = to_json(arguments)
        return NewStep(position, step.label, step.name, step.tool, plain)
    except EncodingError as error:
        return NewStep(position, step.label, step.name, step.tool, None, f"Its arguments are no JSON: {error.message}")


def _results(steps: Sequence[Step], past: Sequence[PastStep], first: int) -> tuple[JSONObject, dict[str, str]]:
    """``{label: value}`` and ``{label: error}`` of the steps that have a result."""
    done = {step.position: step for step in past}
    found = [(step.label, done[place]) for place, step in enumerate(steps, first) if place in done]
    values = {label: step.value for label, step in found if not step.error}
    return values, {label: step.error for label, step in found if step.error}


def _shown(value: JSON) -> str:
    return value if isinstance(value, str) else f"```json\n{to_text(value)}\n```"
