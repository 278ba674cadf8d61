"""From a function's type hints to a JSON Schema and to converted arguments (T08, the friendly form)."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from allm_django.core.arguments import path_text
from allm_django.core.types import JSONObject
from allm_django.errors import InvalidArgumentsError, ToolDefinitionError
from allm_django.tools.context import ToolContext
from allm_django.tools.docstrings import Docs

MAX_PROBLEMS = 5
_REFUSED_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*{} takes any arguments; name each of them, or give schema=",
    inspect.Parameter.VAR_KEYWORD: "**{} takes any arguments; name each of them, or give schema=",
    inspect.Parameter.POSITIONAL_ONLY: "{} is positional-only, and a model gives arguments by name; drop the /",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function with type hints takes a call's arguments. ``context``: the parameter for ToolContext, or ""."""

    schema: JSONObject
    context: str
    _model: type[BaseModel]
    _names: dict[str, str]  # the model's field -> the parameter

    def keywords(self, arguments: JSONObject, context: ToolContext) -> dict[str, Any]:
        """The converted arguments by parameter; what was not given is left to the function's own default.

        Raises InvalidArgumentsError, in words for the model.
        """
        try:
            values = self._model.model_validate(arguments)
        except ValidationError as error:
            raise InvalidArgumentsError(_said(error)) from error
        given = {self._names[name]: getattr(values, name) for name in values.model_fields_set}
        return given | ({self.context: context} if self.context else {})


def read_signature(function: Callable[..., Any], docs: Callable[[list[str]], Docs]) -> tuple[Signature, Docs]:
    """Read hints, defaults and docstring. Raises ToolDefinitionError naming the parameter that can't serve."""
    parameters = inspect.signature(function).parameters
    hints = _hints(function)
    for name, parameter in parameters.items():
        _check(name, parameter, hints)
    contexts = [name for name, hint in hints.items() if _is_context(hint)]
    contexts += [name for name in parameters if name == "ctx" and name not in hints]
    if len(contexts) > 1:
        raise ToolDefinitionError(f"{contexts[1]}: a second ToolContext; one is enough.", field=contexts[1])
    arguments = {name: parameter for name, parameter in parameters.items() if name not in contexts}
    told = docs(list(arguments))
    fields = {f"p{number}": name for number, name in enumerate(arguments)}
    definitions = {f: _field(name, arguments[name], hints[name], told) for f, name in fields.items()}
    model, schema = _built(function, definitions, {name: hints[name] for name in arguments})
    return Signature(schema, contexts[0] if contexts else "", model, fields), told


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters' hints, evaluated; the return's is nobody's business here."""
    inner: Any = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    holder = FunctionType(inner.__code__, inner.__globals__, closure=inner.__closure__)
    holder.__annotations__ = {name: hint for name, hint in inner.__annotations__.items() if name != "return"}
    try:
        return typing.get_type_hints(holder, include_extras=True)
    except Exception as error:  # a hint is any expression
        raise ToolDefinitionError(
            f"The type hints can't be read ({error}); import their types at module level, or give schema=.",
            field="hints",
        ) from error


def _check(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    if parameter.kind in _REFUSED_KINDS:
        raise ToolDefinitionError(f"{name}: {_REFUSED_KINDS[parameter.kind].format(name)}.", field=name)
    if name == "ctx" and name in hints and not _is_context(hints[name]):
        raise ToolDefinitionError("ctx: this name is kept for the ToolContext; rename the argument.", field=name)
    if name != "ctx" and name not in hints:
        raise ToolDefinitionError(f"{name}: no type hint; add one, or give schema=.", field=name)
    if isinstance(parameter.default, FieldInfo):
        raise ToolDefinitionError(f"{name}: use Annotated[…, Field(…)] and a plain default.", field=name)


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or ToolContext in typing.get_args(hint)


def _field(name: str, parameter: inspect.Parameter, hint: Any, docs: Docs) -> tuple[Any, Any]:
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    described = any(isinstance(extra, FieldInfo) and extra.description for extra in getattr(hint, "__metadata__", ()))
    text = docs.arguments.get(name)
    if text and not described:
        hint = Annotated[hint, Field(description=text)]
    return hint, Field(default, alias=name)


def _built(
    function: Callable[..., Any], definitions: dict[str, Any], hints: dict[str, Any]
) -> tuple[type[BaseModel], JSONObject]:
    try:
        config = ConfigDict(extra="forbid", protected_namespaces=())
        model: type[BaseModel] = create_model("Arguments", __config__=config, **definitions)
        schema = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    except Exception as error:  # pydantic asks the types themselves, which may raise anything
        name = next((name for name, hint in hints.items() if not _serves(hint)), "")
        what = f"{name}: its type has no JSON Schema" if name else f"The hints give no JSON Schema ({error})"
        raise ToolDefinitionError(f"{what}; use a type that JSON can carry, or give schema=.", field=name) from error
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("title", None)  # names of Python classes
    schema.setdefault("properties", {})
    return model, schema


def _serves(hint: Any) -> bool:
    try:
        TypeAdapter(hint).json_schema(schema_generator=_Generator)
    except Exception:
        return False
    return True


class _Generator(GenerateJsonSchema):
    """pydantic's, without titles that repeat the names, and with a bounded pattern for decimals."""

    ignored_warning_kinds = {"non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No: it would cost tokens and say nothing new."""
        return False

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A number, or text with its digits."""
        number: JsonSchemaValue = {"type": "number"}
        limits = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
        number |= {word: float(schema[key]) for key, word in limits.items() if key in schema}  # type: ignore[literal-required]
        return {"anyOf": [number, {"type": "string", "pattern": r"^[+-]?\d+(\.\d+)?$"}]}


def _said(error: ValidationError) -> str:
    """What pydantic found, without the values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [f"{path_text(item['loc']) or 'The arguments'}: {item['msg'][:200]}." for item in found[:MAX_PROBLEMS]]
    return " ".join(problems)
