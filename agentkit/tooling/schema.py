"""Conversion of signatures to JSON schemas, without pydantic for plain types, and of arguments to Python values."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import json
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.tooling import arguments as argument_repair
from agentkit.tooling import signature as reflection
from agentkit.tooling.coercion import KEY, discriminator_error, first_sentence, reason, to_json
from agentkit.tooling.json_schema import close_schema, normalise_schema, reject_wrapper, validate_against
from agentkit.tooling.run_context import RunContext, context_kind, with_context
from agentkit.tooling.signature import (
    REQUIRED,
    UNRESOLVABLE,
    AnnotationContext,
    Documentation,
    Parameter,
    gather_extra_arguments,
    narrow_union,
    parse_docstring,
    pydantic_annotation,
    split_arguments,
    split_first_argument,
    text_of,
)
from agentkit.tooling.strict_schema import (
    FLAGS,
    PYTHON,
    Schema,
    check_schema,
    has_unions,
    strict,
    tidy,
    with_plain_references,
)
from agentkit.tooling.unions import NO_SCHEMAS, discriminate, json_members, with_tags

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError


_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_PLAIN_DEFAULTS = (str, int, float, bool, types.NoneType)


@dataclass(frozen=True, slots=True)
class PlainType:
    """A plain annotation: its JSON schema, which values need no coercion, and whether it is nullable."""

    schema: dict[str, Any]
    accepts: Callable[[Any], bool]
    nullable: bool = False


def plain(hint: Any) -> PlainType | None:
    """Return the plain form of an annotation, or None if it needs pydantic.

    Plain annotations are `str`, `int`, `float`, `bool`, `Any`, string literals and enums, `X | None`, lists, and
    dictionaries with string keys, all of plain annotations. The text of an enum member needs coercion.
    """
    if hint is Any:
        return PlainType({}, lambda _: True, nullable=True)
    if isinstance(hint, type) and issubclass(hint, Enum):
        # Describe an enum the way pydantic does
        choices = [member.value for member in hint]
        has_own_schema = hasattr(hint, "__get_pydantic_core_schema__") or hasattr(hint, "__get_pydantic_json_schema__")
        if (
            has_own_schema
            or not choices
            or len(hint.__members__) > len(choices)
            or any(type(choice) is not str for choice in choices)
        ):
            return None
        description = {"description": inspect.cleandoc(hint.__doc__)} if hint.__doc__ else {}
        return PlainType({**description, "enum": choices, "type": "string"}, lambda value: type(value) is hint)
    kind = hint if isinstance(hint, type) else get_origin(hint)
    if kind in _SCALARS:
        return PlainType({"type": _SCALARS[kind]}, lambda value: type(value) is kind)
    reader = _PLAIN_TYPE_BUILDERS.get(kind)
    return reader(get_args(hint)) if reader else None


def is_plain_default(value: object, hint: Any = None) -> bool:
    """Whether a default can be used in a JSON schema, directly or by value as a member of the enum `hint`."""
    return type(value) in _PLAIN_DEFAULTS or (isinstance(value, Enum) and type(value) is hint)


def _annotated(args: tuple[Any, ...]) -> PlainType | None:
    inner = plain(args[0]) if all(isinstance(extra, str) for extra in args[1:]) else None
    return replace(inner, schema={**inner.schema, "description": args[1]}) if inner and args[1] else inner


def _literal(choices: tuple[Any, ...]) -> PlainType | None:
    if not choices or any(type(choice) is not str for choice in choices):
        return None
    schema = {"const": choices[0]} if len(choices) == 1 else {"enum": list(choices)}
    return PlainType({**schema, "type": "string"}, lambda value: type(value) is str and value in choices)


def _optional(args: tuple[Any, ...]) -> PlainType | None:
    others = [arg for arg in args if arg is not types.NoneType]
    inner = plain(others[0]) if len(others) == 1 else None
    if inner is None or inner.nullable:
        return None
    accepts = inner.accepts
    schema = {"anyOf": [inner.schema, {"type": "null"}]}
    return PlainType(schema, lambda value: value is None or accepts(value), nullable=True)


def _list(args: tuple[Any, ...]) -> PlainType | None:
    item = plain(args[0] if args else Any)
    if item is None or len(args) > 1:
        return None
    accepts = item.accepts
    schema = {"items": item.schema, "type": "array"}
    return PlainType(schema, lambda value: type(value) is list and all(map(accepts, value)))


def _dict(args: tuple[Any, ...]) -> PlainType | None:
    key, content = args if len(args) == 2 else (str if not args else None, Any)
    item = plain(content)
    if item is None or key is not str:
        return None
    accepts = item.accepts
    schema = {"additionalProperties": item.schema or True, "type": "object"}
    return PlainType(
        schema,
        lambda value: (
            type(value) is dict and all(type(name) is str for name in value) and all(map(accepts, value.values()))
        ),
    )


_PLAIN_TYPE_BUILDERS: dict[Any, Callable[[tuple[Any, ...]], PlainType | None]] = {
    Annotated: _annotated,
    Literal: _literal,
    Union: _optional,
    types.UnionType: _optional,
    list: _list,
    dict: _dict,
}


def _schema_default(default: Any) -> Schema:
    """Return a default as written in a schema; JSON has no infinite numbers."""
    if isinstance(default, float) and not math.isfinite(default):
        return {}
    return {"default": default.value if isinstance(default, Enum) else default}


def exact(
    parameters: Sequence[Parameter], forms: Sequence[PlainType], arguments: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the keyword arguments if all values have their exact types, or None if they need coercion."""
    values = {}
    for parameter, form in zip(parameters, forms, strict=True):
        value = arguments.get(parameter.name, REQUIRED)
        if value is REQUIRED or (value is None and not form.nullable):
            if parameter.required:
                return None
            value = parameter.default
        elif not form.accepts(value):
            return None
        values[parameter.name] = value
    return values if arguments.keys() <= values.keys() else None


def generator(base: type) -> Any:
    """Derive agentkit's JSON schema generator from pydantic's.

    Named tuples become objects, because names tell a model more than positions in a list. Fields get the descriptions
    from their annotations or from the docstring of their class. Choices keep their names and Python values under the
    keyword PYTHON until the schema is tidied; flags, which can be combined, become numbers.
    """
    return type(
        "Schemas",
        (base,),
        {
            "ignored_warning_kinds": {"non-serializable-default", "skipped-choice"},
            **{method.__name__.removeprefix("_"): method for method in _METHODS},
            # Before version 2.13, pydantic treats named tuples as function arguments without other metadata.
            "arguments_schema": lambda self, schema: super(type(self), self).arguments_schema(
                {**schema, "metadata": {}}
            ),
        },
    )


def reject_generators(core_schema: Any) -> None:
    """Raise TypeError if pydantic would produce one-shot iterators, which a judge would use up unchecked."""
    if _has_generator(core_schema):
        raise TypeError("a generator can be read only once; use a list")


def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Create pydantic's adapter for a type, whose unions of objects are discriminated by a tag."""
    from pydantic import TypeAdapter
    from pydantic_core import SchemaSerializer, SchemaValidator

    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema: Any = discriminate(dict(adapter.core_schema))
    if schema is not None:
        adapter.core_schema = schema
        # The validators that model classes have built for themselves know nothing of tags.
        adapter.validator = SchemaValidator(schema, _use_prebuilt=False)
        adapter.serializer = SchemaSerializer(schema, _use_prebuilt=False)
    return adapter


def json_schema_of(adapter: TypeAdapter[Any]) -> Schema:
    """Generate the JSON schema of a type."""
    from pydantic.json_schema import GenerateJsonSchema

    return with_tags(adapter.json_schema(schema_generator=generator(GenerateJsonSchema)))


def _has_generator(schema: Any) -> bool:
    if isinstance(schema, dict):
        skipped = NO_SCHEMAS if isinstance(schema.get("type"), str) else ()
        inner = (value for key, value in schema.items() if key not in skipped)
        return schema.get("type") == "generator" or any(map(_has_generator, inner))
    return isinstance(schema, list | tuple) and any(map(_has_generator, schema))


def _named_tuple_schema(self: Any, schema: Any) -> Schema:
    fields = {field["name"]: field["schema"] for field in schema["fields"]}
    properties = {name: self.generate_inner(inner) for name, inner in fields.items()}
    required = [name for name, inner in fields.items() if inner["type"] != "default"]
    node = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return _with_field_descriptions(node, schema["cls"])


def _dataclass_schema(self: Any, schema: Any) -> Schema:
    return _with_field_descriptions(super(type(self), self).dataclass_schema(schema), schema["cls"])


def _dataclass_args_schema(self: Any, schema: Any) -> Schema:
    init_fields = [field for field in schema["fields"] if field.get("init", True)]
    return _as_schema(super(type(self), self).dataclass_args_schema({**schema, "fields": init_fields}))


def _model_schema(self: Any, schema: Any) -> Schema:
    return _with_field_descriptions(super(type(self), self).model_schema(schema), schema["cls"])


def _typed_dict_schema(self: Any, schema: Any) -> Schema:
    return _with_field_descriptions(super(type(self), self).typed_dict_schema(schema), schema.get("cls", dict))


def _enum_schema(self: Any, schema: Any) -> Schema:
    node = _as_schema(super(type(self), self).enum_schema(schema))
    named = [(member.name, member) for member in schema["members"]]
    return _flags_schema(node, schema["cls"]) if issubclass(schema["cls"], enum.Flag) else _with_choices(node, named)


def _literal_schema(self: Any, schema: Any) -> Schema:
    node = _as_schema(super(type(self), self).literal_schema(schema))
    return _with_choices(node, [(getattr(each, "name", ""), each) for each in schema["expected"]])


def _tagged_union_schema(self: Any, schema: Any) -> Schema:
    if "agentkit_union" not in schema.get("metadata", {}):
        return _as_schema(super(type(self), self).tagged_union_schema(schema))
    return json_members(self, schema)


_METHODS = (
    *(_named_tuple_schema, _dataclass_schema, _dataclass_args_schema, _model_schema, _typed_dict_schema),
    *(_enum_schema, _literal_schema, _tagged_union_schema),
)


def _as_schema(node: Any) -> Schema:
    return dict(node)


def _with_field_descriptions(node: Any, kind: type) -> Schema:
    """Add field descriptions from the annotations or the docstring of the class to an object node."""
    fields = {**getattr(kind, "__annotations__", {}), **getattr(kind, "model_fields", {})}
    names = {getattr(field, "alias", None) or name: name for name, field in fields.items()}
    docstring = kind.__doc__ or ""
    documentation = parse_docstring(docstring, list(fields)) if "\n" in docstring else Documentation(docstring)
    descriptions = {**documentation.parameters, **_annotated_descriptions(kind)}
    new: Schema = dict(node)
    if "properties" in new:
        new["properties"] = {
            name: {"description": descriptions[names[name]], **inner}
            if descriptions.get(names.get(name, ""))
            else inner
            for name, inner in new["properties"].items()
        }
    if documentation.parameters and new.get("description") == inspect.cleandoc(docstring):
        new["description"] = documentation.text
    return new


def _annotated_descriptions(kind: type) -> dict[str, str]:
    annotations_by_class = [getattr(each, "__annotations__", {}) for each in reversed(kind.__mro__)]
    annotations = {name: hint for each in annotations_by_class for name, hint in each.items()}
    if any(isinstance(hint, str | ForwardRef) for hint in annotations.values()):
        # names from elsewhere can be unknown here, although pydantic resolved them
        with contextlib.suppress(*UNRESOLVABLE):
            annotations = get_type_hints(kind, include_extras=True)
    texts = {name: text_of(hint) for name, hint in annotations.items()}
    return {name: text for name, text in texts.items() if text}


def _flags_schema(node: Schema, kind: type[enum.Flag]) -> Schema:
    """Describe flags, which can be combined: a number whose parts have names."""
    remaining = {key: node[key] for key in node if key != "enum"}
    return {**remaining, "type": "integer", "minimum": 0, PYTHON: list(kind.__members__.items()), FLAGS: True}


def _with_choices(node: Schema, choices: list[tuple[str, Any]]) -> Schema:
    """Deduplicate the choices of an enum or literal node."""
    values = node["enum"] if "enum" in node else [node["const"]]
    places = {json.dumps(each): place for place, each in reversed(list(enumerate(values)))}
    kept_places = sorted(places.values())
    if not kept_places:
        raise TypeError("it has no values")
    node = {**node, PYTHON: [choices[place] for place in kept_places]}
    if "enum" in node:
        node["enum"] = [values[place] for place in kept_places]
    return node


Arguments = argument_repair.Arguments
T = TypeVar("T")

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
"""The kinds of parameters that are passed by name."""


class Bound(dict[str, Any]):
    """The arguments of a Python call by name, and separately those hidden from the model."""

    def __init__(self, asked: Mapping[str, Any], others: Mapping[str, Any]) -> None:
        super().__init__(asked)
        self.others = others

    @property
    def run(self) -> RunContext[Any] | None:
        """The run context, if it was passed explicitly."""
        return next((value for value in self.others.values() if isinstance(value, RunContext)), None)


class FunctionParameters:
    """The parameters of a function, read from its signature, annotations and docstring.

    Plain annotations are handled here, richer ones by pydantic. All are resolved when the tool is created, so that
    unsupported ones are rejected early; a parameter with a default is hidden from the model instead. `of_run` are the
    parameters that receive the run context. `without_first` skips the instance parameter of an unbound method.

    Raises ConfigError.
    """

    def __init__(self, function: Callable[..., Any], tool_name: str, *, without_first: bool = False) -> None:
        self._function = function
        self._tool_name = tool_name
        self._without_first = without_first
        self._signature = reflection.signature_of(function, tool_name, without_first=without_first)
        self._is_spread = any(each.kind not in _BY_NAME for each in self._signature.parameters.values())
        named = reflection.parameters_of(self._signature, function, tool_name)
        self.of_run = tuple(parameter for parameter in named if context_kind(parameter.hint) is not None)
        self._parameters = tuple(parameter for parameter in named if parameter not in self.of_run)
        forms = [
            form
            for each in self._parameters
            if (each.required or is_plain_default(each.default, each.hint)) and (form := plain(each.hint)) is not None
        ]
        self._plain = forms if len(forms) == len(self._parameters) else None
        self._built = self._rich_parameters() if self._plain is None else None
        if self._built is not None:
            self._parameters = self._built.parameters

    def __reduce__(self) -> tuple[Any, ...]:
        read = functools.partial(FunctionParameters, without_first=self._without_first)
        return read, (self._function, self._tool_name)

    @functools.cached_property
    def _model_parameters(self) -> _ModelParameters:
        return self._built or self._rich_parameters()

    def _rich_parameters(self) -> _ModelParameters:
        return _ModelParameters(self._parameters, self._tool_name, reflection.names_in_scope(self._function))

    @functools.cached_property
    def documentation(self) -> Documentation:
        """The descriptions of the function and its parameters, from the docstring."""
        names = [parameter.name for parameter in (*self.of_run, *self._parameters)]
        return parse_docstring(reflection.docstring_of(self._function), names)

    @functools.cached_property
    def json_schema(self) -> Schema:
        """The JSON schema of the arguments: a closed object."""
        texts = {each.name: each.text or self.documentation.parameters.get(each.name) for each in self._parameters}
        if self._plain is None:
            schema = self._model_parameters.json_schema()
            for text, name in zip(texts.values(), schema["properties"], strict=True):
                if text:
                    schema["properties"][name].setdefault("description", text)
            return tidy(schema)
        properties, required = {}, [each.name for each in self._parameters if each.required]
        for each, form in zip(self._parameters, self._plain, strict=True):
            default = {} if each.required else _schema_default(each.default)
            text = texts[each.name]  # only the docstring of an enum could provide another description
            properties[each.name] = {**default, **form.schema, **({"description": text} if text else {})}
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**schema, "required": required} if required else schema

    @functools.cached_property
    def strict_schema(self) -> Schema | None:
        """The schema in strict form, or None if it has no strict form."""
        return strict(self.json_schema)

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Validate arguments into keyword arguments, defaults included. Raises BadArguments."""
        given = argument_repair.read_arguments(arguments, has_parameters=bool(self._parameters))
        given = gather_extra_arguments(self._signature, given) if self._is_spread else given
        checked = exact(self._parameters, self._plain, given) if self._plain is not None else None
        return self._model_parameters.check(given) if checked is None else checked

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
        """Bind the arguments of a Python call by name, without validation. Raises TypeError."""
        named = self._named_defaults
        if named is not None and not args and kwargs.keys() <= named.keys():
            values = {**named, **kwargs}  # most calls; `inspect` takes as long as the rest of a call
            if not any(value is REQUIRED for value in values.values()):
                return Bound(values, {})
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._tool_name}() {error}") from None
        names = {parameter.name for parameter in self._parameters}
        others = {name: value for name, value in bound.arguments.items() if name not in names}
        bound.apply_defaults()
        return Bound({name: value for name, value in bound.arguments.items() if name in names}, others)

    @functools.cached_property
    def _named_defaults(self) -> Mapping[str, Any] | None:
        """All parameters with their defaults or REQUIRED; None if a call cannot be bound by these names alone."""
        declared = self._signature.parameters
        by_place = any(each.kind is inspect.Parameter.POSITIONAL_ONLY for each in declared.values())
        if self._plain is None or self._is_spread or by_place or len(self._parameters) < len(declared):
            return None
        return {each.name: each.default for each in self._parameters}

    def call(self, function: Callable[..., T], arguments: Mapping[str, Any], by_place: Any = ()) -> Callable[[], T]:
        """Bind validated arguments and the run context to the function, after the positional ones in `by_place`."""
        arguments = with_context(arguments, self.of_run, self._tool_name) if self.of_run else arguments
        rest, named = split_arguments(self._signature, arguments) if self._is_spread else ((), arguments)
        if not rest and reflection.dispatches_by_type(function):
            rest, named = split_first_argument(self._signature, named)
        return functools.partial(function, *by_place, *rest, **named)

    @functools.cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The defaults that `check` fills in, by parameter name; values of default factories are not included."""
        if self._plain is None:
            return self._model_parameters.defaults
        return {parameter.name: parameter.default for parameter in self._parameters if not parameter.required}


class SchemaParameters:
    """Parameters described by a JSON schema of type object. Raises ConfigError for anything else."""

    documentation = Documentation()
    of_run: tuple[Parameter, ...] = ()
    """The parameters that receive the run context: none."""

    def __init__(self, schema: Mapping[str, Any], tool_name: str) -> None:
        self._tool_name = tool_name
        try:
            normalised = normalise_schema(json.loads(json.dumps(schema, allow_nan=False)))
            reject_wrapper(normalised)
            check_schema(normalised)
            normalised = with_plain_references(normalised)
            with_defaults: Schema = {"type": "object", "properties": {}, **normalised}
            is_object = with_defaults["type"] == "object" or "object" in list(with_defaults["type"])
            self.json_schema: Schema = {**with_defaults, "type": "object"}
            self._schema = {**normalised, "type": "object"}
            # A null inside a nested object would reach the function, so nested properties cannot be optional.
            self.strict_schema = strict(tidy(close_schema(self._schema)), nested_nulls=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"Tool {tool_name!r}: its schema is not a valid JSON schema ({error}).") from error
        if not is_object:
            raise ConfigError(f"Tool {tool_name!r}: its schema must be of type 'object'.")

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Validate arguments into keyword arguments. Raises BadArguments."""
        return validate_against(self._schema, arguments, self._tool_name)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
        """Return the keyword arguments of a Python call. Raises TypeError for positional ones."""
        if args:
            raise TypeError(f"{self._tool_name}() takes its arguments by name")
        return Bound(kwargs, {})

    def call(self, function: Callable[..., T], arguments: Mapping[str, Any], by_place: Any = ()) -> Callable[[], T]:
        """Bind validated arguments to the function, after the positional ones in `by_place`."""
        return functools.partial(function, *by_place, **arguments)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Always empty: the function receives the arguments as given and fills in its own defaults."""
        return {}


Parameters = FunctionParameters | SchemaParameters
"""The parameters of a tool: as JSON schema, as strict JSON schema or None, and as a validator of arguments."""


class _ModelParameters:
    """Parameters validated by a pydantic model, whose fields are aliased so that parameter names cannot clash."""

    def __init__(self, parameters: Sequence[Parameter], tool_name: str, names: Mapping[str, Any]) -> None:
        self._tool_name = tool_name
        fields = {f"agentkit_parameter_{index}": parameter for index, parameter in enumerate(parameters)}
        self._fields, self._model, self._adapter, self._schema = _build_representable(fields, tool_name, names)
        self.parameters = tuple(self._fields.values())
        self._has_unions = has_unions(self._schema)
        self._properties = self._schema.get("properties", {})
        required = self._schema.get("required", ())
        accepted = [_accepted_names(self._model, field) for field in self._fields]
        if len(self._properties) < len(self._fields):
            raise ConfigError(f"Tool {tool_name!r}: two of its parameters have the same alias.")
        self._optional = [name for names in accepted if names[0] not in required for name in names]

    def json_schema(self) -> Schema:
        """Return a copy of the JSON schema that pydantic generates."""
        return copy_schema(self._schema)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The defaults by parameter name, including those in a `Field`, but without factories."""
        fields = self._model.model_fields
        fields_by_name = {parameter.name: fields[field] for field, parameter in self._fields.items()}
        return {
            name: field.default
            for name, field in fields_by_name.items()
            if not field.is_required() and field.default_factory is None
        }

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Validate arguments into keyword arguments, defaults included. Raises BadArguments."""
        checked = argument_repair.validate_or_repair(
            arguments, self._validate, self._optional, self._schema, self._tool_name
        )
        return {parameter.name: _value(checked, field, parameter) for field, parameter in self._fields.items()}

    def _validate(self, arguments: dict[str, Any]) -> BaseModel | argument_repair.ArgumentErrors:
        """Return the validated arguments, or their errors."""
        from pydantic import ValidationError

        try:
            return self._read(arguments)
        except ValidationError as error:
            return argument_repair.ArgumentErrors(_problems(error, arguments))
        except Exception as error:
            text = f"The arguments could not be checked ({type(error).__name__}: {error})."
            raise argument_repair.arguments_error([text]) from error

    def _read(self, arguments: dict[str, Any]) -> BaseModel:
        """Validate Python values, or JSON, in which texts identify the intended union member more reliably."""
        from pydantic import ValidationError

        validated = self._from_json(arguments) if self._has_unions else None
        if validated is not None:
            return validated
        try:
            return cast("BaseModel", self._adapter.validate_python(arguments))
        except ValidationError:
            validated = None if self._has_unions else self._from_json(arguments)
            if validated is None:
                raise
            return validated

    def _from_json(self, arguments: dict[str, Any]) -> BaseModel | None:
        from pydantic import ValidationError

        text = to_json(arguments)
        try:
            return None if text is None else cast("BaseModel", self._adapter.validate_json(text))
        except ValidationError:
            return None


def _build_model(
    fields: Mapping[str, Parameter], names: Mapping[str, Any]
) -> tuple[type[BaseModel], TypeAdapter[Any], Schema]:
    from pydantic import ConfigDict, Field, create_model

    annotations = AnnotationContext(names, lambda text: Field(description=text), {})
    definitions: dict[str, Any] = {
        field: (
            pydantic_annotation(parameter.hint, annotations),
            Field() if parameter.required else parameter.default,
        )
        for field, parameter in fields.items()
    }
    config = ConfigDict(
        extra="forbid",
        coerce_numbers_to_str=True,
        alias_generator=lambda field: fields[field].name if field in fields else field,
    )
    model = create_model("Arguments", __config__=config, **definitions)
    model.model_rebuild(_types_namespace=names)
    if model.model_fields.keys() != fields.keys():
        raise TypeError("it cannot be the type of a parameter")
    adapter = adapter_of(model)
    schema = json_schema_of(adapter)
    reject_generators(adapter.core_schema)
    return model, adapter, schema


def _build_representable(
    fields: Mapping[str, Parameter], tool_name: str, names: Mapping[str, Any]
) -> tuple[Mapping[str, Parameter], type[BaseModel], TypeAdapter[Any], Schema]:
    """Build the model and schema of the fields that JSON can represent; other fields with a default are dropped."""
    try:
        return fields, *_build_model(fields, names)
    except Exception as error:
        remaining = _drop_unrepresentable(fields, error, tool_name, names)
        if any(remaining.get(field) is not parameter for field, parameter in fields.items()):
            return _build_representable(remaining, tool_name, names)
        described = ", ".join(
            f"parameter {parameter.name!r} of type {parameter.hint!r}" for parameter in fields.values()
        )
        raise ConfigError(
            f"Tool {tool_name!r}: {described} cannot be read from JSON ({first_sentence(error)}); "
            "use plain types, enums, dataclasses, TypedDicts, NamedTuples or pydantic models, or give it a default."
        ) from error


def _drop_unrepresentable(
    fields: Mapping[str, Parameter], error: Exception, tool_name: str, names: Mapping[str, Any]
) -> Mapping[str, Parameter]:
    """Drop the fields, and the members of their unions, that JSON cannot represent."""
    if len(fields) != 1:
        separate = (_build_representable({field: fields[field]}, tool_name, names)[0] for field in fields)
        return {field: parameter for remaining in separate for field, parameter in remaining.items()}
    ((field, parameter),) = fields.items()
    if not _lacks_json_form(error):
        return fields
    hint = narrow_union(parameter.hint, lambda part: _is_representable(replace(parameter, hint=part), names))
    if hint is not parameter.hint:
        return {field: replace(parameter, hint=hint)}
    return fields if parameter.required else {}


def _is_representable(parameter: Parameter, names: Mapping[str, Any]) -> bool:
    """Whether JSON can represent the type; other errors are reported later."""
    try:
        return bool(_build_model({parameter.name: parameter}, names))
    except (*reflection.UNRESOLVABLE, RuntimeError) as error:
        return not _lacks_json_form(error)


def _lacks_json_form(error: Exception) -> bool:
    """Whether the type is valid, but has no JSON representation: a function, or an arbitrary class."""
    from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

    return isinstance(error, PydanticInvalidForJsonSchema | PydanticSchemaGenerationError)


def copy_schema(schema: Schema) -> Schema:
    """Copy the dictionaries and lists of a JSON schema."""
    return {key: _copy_value(value) for key, value in schema.items()}


def _copy_value(value: Any) -> Any:
    if isinstance(value, dict):
        return copy_schema(value)
    return list(map(_copy_value, value)) if isinstance(value, list) else value


def _accepted_names(model: type[BaseModel], field: str) -> list[str]:
    """Return the names under which an argument is accepted, the one in the schema first."""
    alias: Any = model.model_fields[field].validation_alias
    return [choice if isinstance(choice, str) else choice.path[0] for choice in getattr(alias, "choices", [alias])]


def _problems(error: ValidationError, arguments: Mapping[str, Any]) -> list[argument_repair.ValidationProblem]:
    problems: list[argument_repair.ValidationProblem] = []
    for detail in islice(error.errors(include_url=False), argument_repair.MAX_PROBLEMS):
        path = argument_repair.existing_steps(arguments, detail["loc"])
        discriminator = discriminator_error(detail.get("ctx", {}), detail["input"])
        if discriminator is not None:
            name, message, value = discriminator
            problems.append(((*path, name), message, value))
            continue
        if detail["type"] == "missing":
            path = (*path, detail["loc"][-1])
        message = reason(detail["type"], detail["msg"])
        is_about_key = detail["loc"][-1:] == ("[key]",) and path[-1:] != ("[key]",)
        problems.append((path, f"{KEY} {message}" if is_about_key else message, detail["input"]))
    return problems


def _value(checked: BaseModel, field: str, parameter: Parameter) -> Any:
    """Return a validated value; a default is the function's own object, as in any Python call."""
    is_own_default = field not in checked.model_fields_set and not parameter.required
    if is_own_default and not type(parameter.default).__module__.startswith("pydantic"):
        return parameter.default
    return getattr(checked, field)
