"""Function signatures: parameters, resolution and binding of annotated arguments, and documentation."""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
import pkgutil
import re
import sys
import types
import typing
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Reversible, Sequence
from contextvars import ContextVar
from dataclasses import field
from typing import (
    Annotated,
    Any,
    AnyStr,
    ForwardRef,
    Literal,
    LiteralString,
    ParamSpecArgs,
    ParamSpecKwargs,
    Self,
    TypeVarTuple,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.tooling import docstrings
from agentkit.tooling.coercion import group_by_letters, normalise_letters, unwrap
from agentkit.tooling.docstrings import documented_types

REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""The kinds of parameters that collect the remaining arguments."""

REQUIRED = inspect.Parameter.empty
"""The default of a required parameter."""

_BUILTIN_TYPES = {kind.__name__: kind for kind in (str, int, float, bool, list, dict)}
UNRESOLVABLE = (NameError, AttributeError, SyntaxError, TypeError, ValueError, LookupError)
"""Exceptions raised for annotations that are not types or contain unknown names."""

_SECTIONS = {
    "numpydoc": r"(?m)^[ \t]*((Other )?Parameters|Attributes|Returns|Yields|Raises|Examples|Notes)[ \t]*\n"
    r"[ \t]*-{3,}[ \t]*$",
    "rest": r"(?m)^[ \t]*:(param(?:eter)?|arg(?:ument)?|key(?:word)?|attribute|type|returns?|rtype|raises?)\b[^:\n]*:",
    "epydoc": r"(?m)^[ \t]*@(param|type|returns?|rtype|raises?)\b[^:\n]*:",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: `text` is the description in `Annotated[..., "text"]`, or empty."""

    name: str
    hint: Any
    default: Any = REQUIRED
    text: str = ""

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Documentation:
    """The description of a function and of its parameters, from the docstring."""

    text: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


WITHOUT_MAIN: ContextVar[bool] = ContextVar("agentkit_without_main", default=False)
"""Whether pickled data goes to a process with another main module, whose names cannot be used."""


class PicklableByName:
    """Pickled by name if it is a module-level value, otherwise by its contents."""

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        place = _import_path(self)
        return super().__reduce_ex__(protocol) if place is None else (pkgutil.resolve_name, (place,))


def _import_path(target: object) -> str | None:
    """Return `module:name` of a module-level value; the main module is used only if no other contains it."""
    module_names = [name for name in sys.modules if name not in ("__main__", "__mp_main__")]
    own_module = getattr(getattr(target, "function", None), "__module__", "")
    for module in (own_module, *module_names, *(() if WITHOUT_MAIN.get() else ("__main__",))):
        if module == "__main__" and WITHOUT_MAIN.get():
            continue
        for name, value in list(getattr(sys.modules.get(module), "__dict__", {}).items()):
            if value is target:
                return f"{module}:{name}"
    return None


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside all partials."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def instance_of(function: Callable[..., Any]) -> object | None:
    """Return the instance that a method is bound to, also inside partials; None for other functions."""
    owner = getattr(innermost(function), "__self__", None)
    return None if isinstance(owner, type | types.ModuleType) else owner


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or the class name of a callable object."""
    function = innermost(function)
    return str(getattr(function, "__name__", type(function).__name__))


def is_asynchronous(function: Callable[..., Any]) -> bool:
    """Whether calling the function returns a coroutine or an asynchronous generator."""
    function = _function_with_code(function)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def dispatches_by_type(function: Callable[..., Any]) -> bool:
    """Whether the function is made by `functools.singledispatch` or `singledispatchmethod`.

    It chooses its implementation by the type of its first positional argument, and cannot be called by name.
    """
    function = innermost(function)
    return hasattr(function, "__wrapped__") and (hasattr(function, "dispatch") or _is_bound_dispatch(function))


def _is_bound_dispatch(function: Callable[..., Any]) -> bool:
    """Whether the function is a `singledispatchmethod` of an instance, which its signature does not show."""
    code = getattr(innermost(function), "__code__", None)
    return getattr(code, "co_qualname", "").startswith("singledispatchmethod.")


def is_defined_in_class(function: Callable[..., Any]) -> bool:
    """Whether the function was defined in a class body, so that its first parameter can be the instance."""
    if _is_bound_dispatch(function):
        return False
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    return isinstance(function, types.FunctionType) and bool(owner) and not owner.endswith("<locals>")


def takes_instance(function: Callable[..., Any]) -> bool:
    """Whether the function is an unbound method: its first parameter is an unannotated `self` or `cls`."""
    if not is_defined_in_class(function):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.name in {"self", "cls"} and first.annotation is REQUIRED


def signature_of(function: Callable[..., Any], tool_name: str, *, without_first: bool = False) -> inspect.Signature:
    """Return the signature without bound arguments. Raises ConfigError without a signature."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"Tool {tool_name!r} has no readable signature. Wrap it in a function, or use Tool.from_schema."
        ) from error
    except NameError as error:
        raise ConfigError(f"Tool {tool_name!r} has an annotation that cannot be resolved: {error}.") from error
    parameters = list(signature.parameters.values())[int(without_first or _is_bound_dispatch(function)) :]
    unwrapped: Any = function
    bound: set[str] = set()
    while isinstance(unwrapped, functools.partial):
        bound.update(unwrapped.keywords)
        unwrapped = unwrapped.func
    return signature.replace(parameters=[parameter for parameter in parameters if parameter.name not in bound])


def parameters_of(signature: inspect.Signature, function: Callable[..., Any], tool_name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a signature with their annotations resolved.

    Raises ConfigError, caused by a NameError if an annotation contains an unknown name.
    """
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    if any(hint is REQUIRED for hint in annotations.values()):
        annotations |= _documented_types(signature, docstring_of(function))
    for name, hint in annotations.items():
        if isinstance(hint, str) and hint in _BUILTIN_TYPES and hint not in _module_names(function):
            annotations[name] = _BUILTIN_TYPES[hint]
        elif not isinstance(hint, type) and _has_forward_reference(hint):
            annotations[name] = _resolve(hint, name, function, tool_name)
    parameters = []
    for name, hint in annotations.items():
        given, offered = signature.parameters[name], Any if hint is REQUIRED else hint
        kind, default = _variadic_annotation(given, offered) if given.kind in REST else (offered, given.default)
        parameters.append(Parameter(name, kind, default, text_of(hint)))
    return tuple(parameters)


def _documented_types(signature: inspect.Signature, docstring: str) -> dict[str, Any]:
    """Return the types stated in the docstring for parameters without annotations."""
    documented = documented_types(docstring) if docstring else {}
    unannotated = {name for name, parameter in signature.parameters.items() if parameter.annotation is REQUIRED}
    return {
        name: documented[name]
        for name in unannotated & documented.keys()
        if signature.parameters[name].kind not in REST
    }


def parse_docstring(docstring: str, names: Collection[str] = ()) -> Documentation:
    """Parse a docstring in Google, NumPy, reST or Epytext style, detected by its sections."""
    docstring = docstrings.normalise(inspect.cleandoc(docstring.replace("\r\n", "\n")).strip(), names)
    style = next((style for style, pattern in _SECTIONS.items() if re.search(pattern, docstring)), None)
    if style is None:
        return Documentation(*docstrings.split_docstring(docstring, names))
    from docstring_parser import DocstringStyle, ParseError, parse

    try:
        parsed = parse(
            docstring if style == "numpydoc" else docstrings.with_fields_last(docstring), DocstringStyle[style.upper()]
        )
    except (ParseError, ValueError, LookupError):
        return Documentation(docstring)
    parameters = {
        name.strip(" *"): (param.description or "").strip()
        for param in parsed.params
        for name in param.arg_name.split(",")
    }
    if not parameters:  # parameters can be in another style than the returns or examples
        text, parameters = docstrings.split_docstring(docstring, names)
        if parameters:
            return Documentation(text, parameters)
    return Documentation((parsed.description or "").strip(), parameters)


def names_in_scope(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names that a function's annotations can use: those of its module and the local scope.

    Local names are those of the module's code that is running now: an enclosing function or class body.
    """
    names = _module_names(function)
    local_names = _class_names(function)
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals is names:
            local_names = {**frame.f_locals, **local_names}
        frame = frame.f_back
    return {**names, **local_names}


def _class_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names of a method's class, and the type parameters of class and method."""
    function = innermost(function)
    owner = getattr(function, "__self__", None)
    kind = owner if isinstance(owner, type) else type(owner)
    classes = kind.__mro__[-2::-1] if owner is not None and not inspect.ismodule(owner) else ()
    inherited = {name: value for each in classes for name, value in vars(each).items()}
    type_parameters = [*getattr(kind, "__type_params__", ()), *getattr(function, "__type_params__", ())]
    self_type = {SELF: kind} if classes else {}
    return {**inherited, **self_type, **{each.__name__: each for each in type_parameters}}


def _module_names(function: Callable[..., Any]) -> dict[str, Any]:
    return getattr(inspect.unwrap(_function_with_code(inspect.unwrap(innermost(function)))), "__globals__", {})


def _resolve(hint: Any, name: str, function: Callable[..., Any], tool_name: str) -> Any:
    namespace = types.SimpleNamespace(__annotations__={name: hint})
    try:
        try:
            return get_type_hints(namespace, _module_names(function), include_extras=True)[name]
        except NameError:
            return get_type_hints(namespace, names_in_scope(function), include_extras=True)[name]
    except NameError as error:
        raise ConfigError(
            f"Tool {tool_name!r}: the annotation {hint!r} of parameter {name!r} cannot be resolved ({error}); "
            "define or import that name before the tool, and not under TYPE_CHECKING."
        ) from error
    except UNRESOLVABLE as error:
        raise ConfigError(
            f"Tool {tool_name!r}: the annotation {hint!r} of parameter {name!r} is not a type ({error})."
        ) from error


def _has_forward_reference(hint: Any) -> bool:
    if isinstance(hint, str | ForwardRef):
        return True
    arguments = () if isinstance(hint, type) or get_origin(hint) is Literal else get_args(hint)
    return any(map(_has_forward_reference, arguments))


def _function_with_code(function: Callable[..., Any]) -> Callable[..., Any]:
    function = innermost(function)
    return function if inspect.isroutine(function) else type(function).__call__


def docstring_of(function: Callable[..., Any]) -> str:
    """Return the docstring of a function, also an inherited one, or of a callable object."""
    function = innermost(function)
    if inspect.isroutine(function):
        return function.__doc__ or inspect.getdoc(function) or ""  # finds inherited docstrings
    own_docstring = getattr(function, "__dict__", {}).get("__doc__")
    return own_docstring or type(function).__call__.__doc__ or type(function).__doc__ or ""


_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD


def _variadic_annotation(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """Return the annotation and the default under which `*values` or `**options` are offered to the model.

    Values are annotated per value or as a whole (`*tuple[int, str]`).
    """
    if parameter.kind is _VAR_KEYWORD:
        if get_origin(hint) is not Unpack:
            return types.GenericAlias(dict, (str, Any if isinstance(hint, ParamSpecKwargs) else hint)), {}
        (fields,) = get_args(hint)
        return fields, REQUIRED if getattr(fields, "__required_keys__", ()) else {}
    if getattr(hint, "__unpacked__", False):
        annotation: Any = types.GenericAlias(tuple, get_args(hint))
    elif get_origin(hint) is Unpack:
        (annotation,) = get_args(hint)
    else:
        return _list_of(Any if isinstance(hint, ParamSpecArgs) else _without_text(hint)), ()
    item_types = get_args(annotation)
    if isinstance(annotation, TypeVarTuple) or not item_types:
        return _list_of(Any), ()
    return (_list_of(item_types[0]), ()) if item_types[-1] is Ellipsis else (annotation, REQUIRED)


def _list_of(hint: Any) -> Any:
    return types.GenericAlias(list, (hint,))


def _without_text(hint: Any) -> Any:
    """Strip the description from the annotation of each value; it describes the whole list."""
    is_description = get_origin(hint) is Annotated and all(isinstance(extra, str) for extra in get_args(hint)[1:])
    return get_args(hint)[0] if is_description else hint


def gather_extra_arguments(signature: inspect.Signature, arguments: dict[str, Any]) -> dict[str, Any]:
    """Move arguments with unknown names into the object for `**options`; models often put them at the top level.

    An argument whose name matches a parameter that was not given, compared by letters, is assigned to that parameter,
    even if it was inside the object.
    """
    variadic = next((name for name, each in signature.parameters.items() if each.kind is _VAR_KEYWORD), None)
    if variadic is None:
        return arguments
    names = signature.parameters.keys() - {variadic}
    unwrapped = None if arguments.keys() & names else unwrap(arguments)
    arguments = dict(unwrapped) if unwrapped and unwrapped.keys() & names else arguments
    collected = arguments.get(variadic, {})
    unknown = {name: value for name, value in arguments.items() if name not in signature.parameters}
    if not isinstance(collected, dict) or not (collected or unknown):
        return arguments
    matched, unmatched = _match_by_letters({**collected, **unknown}, names - arguments.keys())
    own = {name: value for name, value in arguments.items() if name in names}
    return {**own, **matched, variadic: unmatched}


def _match_by_letters(arguments: Mapping[str, Any], missing: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split loose arguments into those that match a missing parameter, if the match is unique, and the rest."""
    names_by_letters = {key: names[0] for key, names in group_by_letters(missing).items() if len(names) == 1}
    targets = {name: name if name in missing else names_by_letters.get(normalise_letters(name)) for name in arguments}
    claims = Counter(targets.values())
    matched = {
        target: arguments[name] for name, target in targets.items() if target is not None and claims[target] == 1
    }
    return matched, {name: value for name, value in arguments.items() if targets[name] not in matched}


def split_first_argument(
    signature: inspect.Signature, arguments: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split off the first argument, which `functools.singledispatch` needs by position."""
    first = next(iter(signature.parameters), None)
    if first is None or first not in arguments:
        return (), dict(arguments)
    return (arguments[first],), {name: value for name, value in arguments.items() if name != first}


def split_arguments(
    signature: inspect.Signature, arguments: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split validated arguments into positional and keyword arguments."""
    bound = signature.bind_partial()
    bound.arguments.update(arguments)
    bound.apply_defaults()  # fills in parameters hidden from the model; positional ones can follow them
    return bound.args, bound.kwargs


_ITERABLES = (Iterable, Sequence, Collection, Container, Reversible)
_EQUIVALENTS: tuple[tuple[Any, Any], ...] = (
    *((LiteralString, str), (AnyStr, str), (any, Any)),
    *((numbers.Number, int | float), (numbers.Real, int | float), (numbers.Integral, int)),
    *((typing.SupportsFloat, float), (typing.SupportsInt, int), (typing.SupportsIndex, int)),
)
"""Annotations replaced by an equivalent that pydantic supports."""

SELF = "typing.Self"
"""The key for the enclosing class in `AnnotationContext.names`."""


@dataclass(frozen=True, slots=True)
class AnnotationContext:
    """Context for resolving annotations: the names in scope and a factory for pydantic descriptions.

    `replacements` caches the replacements of types that can be recursive.
    """

    names: Mapping[str, Any]
    describe: Callable[[str], Any]
    replacements: dict[Any, Any]


def text_of(hint: Any) -> str:
    """Return the description in `Annotated[..., "text"]`, or an empty string."""
    hint = hint if isinstance(hint, type) else _alias_value(hint) or hint
    if get_origin(hint) is not Annotated:
        return ""
    texts = (getattr(extra, "documentation", extra) for extra in get_args(hint)[1:])  # typing_extensions.Doc has it
    return next((text for text in texts if isinstance(text, str)), "")


def pydantic_annotation(hint: Any, context: AnnotationContext) -> Any:
    """Convert an annotation to its pydantic form.

    Iterables become lists, which are validated at once and can be read twice. Texts in `Annotated` become descriptions.
    Before Python 3.12, `typing.TypedDict` is replaced by the typing_extensions version.
    """
    if sys.version_info < (3, 12) and is_typeddict(get_origin(hint) or hint):
        return _modern_typed_dict(hint, context)
    if _alias_value(hint) is not None:
        return _expand_alias(hint, context)
    args = get_args(hint)
    converted = tuple(pydantic_annotation(arg, context) for arg in args)
    if get_origin(hint) in (Annotated, typing.Final):
        return _with_description(hint, converted, context) if get_origin(hint) is Annotated else converted[0]
    if any(hint is each or get_origin(hint) is each for each in _ITERABLES):
        return types.GenericAlias(list, converted or (Any,))
    if converted == args or get_origin(hint) is Literal:
        own_self = (Self, context.names.get(SELF, typing.Never))  # pydantic would resolve Self to an agentkit class
        return next((equivalent for original, equivalent in (own_self, *_EQUIVALENTS) if hint is original), hint)
    return _with_arguments(hint, converted)


def narrow_union(hint: Any, is_supported: Callable[[Any], bool]) -> Any:
    """Drop the unsupported members of unions from an annotation that cannot be read.

    Returns the annotation unchanged if that does not help. A union of None alone is not a valid result.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Literal, Callable):
        return hint
    members = args[:1] if origin is Annotated else args
    parts = [(arg, arg) if is_supported(arg) else (arg, narrow_union(arg, is_supported)) for arg in members]
    if origin in (typing.Union, types.UnionType):
        supported = [new for arg, new in parts if new is not arg or is_supported(arg)]
        return (
            functools.reduce(operator.or_, supported) if any(new is not types.NoneType for new in supported) else hint
        )
    new = (*(new for _, new in parts), *args[len(members) :])
    if all(new is arg for arg, new in parts):
        return hint
    return Annotated[new] if origin is Annotated else _with_arguments(hint, new)


def _with_arguments(hint: Any, args: tuple[Any, ...]) -> Any:
    """Rebuild an annotation with other type arguments."""
    if isinstance(hint, types.UnionType):
        return functools.reduce(operator.or_, args)
    return hint.copy_with(args) if hasattr(hint, "copy_with") else get_origin(hint)[args]


def _with_description(hint: Any, args: tuple[Any, ...], context: AnnotationContext) -> Any:
    """Turn the text in `Annotated` into a description, unless the annotation already has one."""
    text = text_of(hint)
    if text and not any(getattr(extra, "description", None) for extra in args[1:]):
        args = (args[0], context.describe(text), *args[1:])
    return hint if args == get_args(hint) else Annotated[args]


def _alias_value(hint: Any) -> Any:
    """Return the value of a `type Name = ...` alias, or None for any other annotation."""
    if type(hint).__name__ != "TypeAliasType":
        return None
    try:
        return hint.__value__
    except NameError:
        return None


def _expand_alias(hint: Any, context: AnnotationContext) -> Any:
    """Replace a type alias by its converted value.

    Aliases that pydantic reads as they are, generic aliases and recursive ones are returned unchanged.
    """
    if hint in context.replacements or hint.__type_params__:
        return context.replacements.get(hint, hint)
    context.replacements[hint] = hint
    value = hint.__value__
    converted = value if isinstance(value, str) else pydantic_annotation(value, context)
    context.replacements[hint] = hint if converted == value else converted
    return context.replacements[hint]


def _modern_typed_dict(hint: Any, context: AnnotationContext) -> Any:
    if hint in context.replacements or type(get_origin(hint) or hint).__module__ != "typing":
        return context.replacements.get(hint, hint)
    import typing_extensions

    typed_dict: Any = typing_extensions.TypedDict
    origin = get_origin(hint) or hint
    type_arguments = dict(zip(getattr(origin, "__parameters__", ()), get_args(hint), strict=False))
    replacement = typed_dict(origin.__name__, {})
    context.replacements[hint] = replacement
    replacement.__doc__, replacement.__module__ = origin.__doc__, origin.__module__
    replacement.__required_keys__, replacement.__optional_keys__ = origin.__required_keys__, origin.__optional_keys__
    annotations = get_type_hints(origin, localns=dict(context.names), include_extras=True)
    replacement.__annotations__ = {
        key: pydantic_annotation(_substitute(each, type_arguments), context) for key, each in annotations.items()
    }
    return replacement


def _substitute(hint: Any, type_arguments: Mapping[Any, Any]) -> Any:
    """Substitute the type variables of a generic annotation."""
    if hint in type_arguments:
        return type_arguments[hint]
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(type_arguments.get(each, Any) for each in variables)] if variables and type_arguments else hint
