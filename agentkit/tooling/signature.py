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
from agentkit.tooling.coercion import by_letters, letters, unwrap
from agentkit.tooling.docstrings import stated_types

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


class Portable:
    """Pickled by name if it is a module-level value, otherwise by its contents."""

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        place = _place_of(self)
        return super().__reduce_ex__(protocol) if place is None else (pkgutil.resolve_name, (place,))


def _place_of(thing: object) -> str | None:
    """Return `module:name` of a module-level value; the main module is used only if no other contains it."""
    others = [name for name in sys.modules if name not in ("__main__", "__mp_main__")]
    own = getattr(getattr(thing, "function", None), "__module__", "")
    for module in (own, *others, *(() if WITHOUT_MAIN.get() else ("__main__",))):
        if module == "__main__" and WITHOUT_MAIN.get():
            continue
        for name, value in list(getattr(sys.modules.get(module), "__dict__", {}).items()):
            if value is thing:
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
    function = _code_bearer(function)
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
    inner: Any = function
    bound: set[str] = set()
    while isinstance(inner, functools.partial):
        bound.update(inner.keywords)
        inner = inner.func
    return signature.replace(parameters=[parameter for parameter in parameters if parameter.name not in bound])


def parameters_of(signature: inspect.Signature, function: Callable[..., Any], tool_name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a signature with their annotations resolved.

    Raises ConfigError, caused by a NameError if an annotation contains an unknown name.
    """
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    if any(hint is REQUIRED for hint in annotations.values()):
        annotations |= _stated_types(signature, _docstring(function))
    for name, hint in annotations.items():
        if isinstance(hint, str) and hint in _BUILTIN_TYPES and hint not in _module_names(function):
            annotations[name] = _BUILTIN_TYPES[hint]
        elif not isinstance(hint, type) and _has_forward_reference(hint):
            annotations[name] = _resolve(hint, name, function, tool_name)
    return tuple(
        Parameter(
            name,
            *offered_annotation(signature.parameters[name], Any if hint is REQUIRED else hint),
            text_of(hint),
        )
        for name, hint in annotations.items()
    )


def _stated_types(signature: inspect.Signature, docstring: str) -> dict[str, Any]:
    """Return the types stated in the docstring for parameters without annotations."""
    found = stated_types(docstring) if docstring else {}
    bare = {name for name, each in signature.parameters.items() if each.annotation is REQUIRED}
    return {name: found[name] for name in bare & found.keys() if not is_rest(signature.parameters[name])}


def documentation_of(function: Callable[..., Any], names: Collection[str] = ()) -> Documentation:
    """Return the documentation of the function and of the named parameters."""
    return parse_docstring(_docstring(function), names)


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


def names_around(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names that a function's annotations can use: those of its module and the local scope.

    Local names are those of the module's code that is running now: an enclosing function or class body.
    """
    names = _module_names(function)
    found = _own_names(function)
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals is names:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return {**names, **found}


def _own_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names of a method's class, and the type parameters of class and method."""
    function = innermost(function)
    owner = getattr(function, "__self__", None)
    kind = owner if isinstance(owner, type) else type(owner)
    lines = kind.__mro__[-2::-1] if owner is not None and not inspect.ismodule(owner) else ()
    inherited = {name: value for each in lines for name, value in vars(each).items()}
    generic = [*getattr(kind, "__type_params__", ()), *getattr(function, "__type_params__", ())]
    own = {SELF: kind} if lines else {}
    return {**inherited, **own, **{each.__name__: each for each in generic}}


def _module_names(function: Callable[..., Any]) -> dict[str, Any]:
    return getattr(inspect.unwrap(_code_bearer(inspect.unwrap(innermost(function)))), "__globals__", {})


def _resolve(hint: Any, name: str, function: Callable[..., Any], tool_name: str) -> Any:
    holder = types.SimpleNamespace(__annotations__={name: hint})
    try:
        try:
            return get_type_hints(holder, _module_names(function), include_extras=True)[name]
        except NameError:
            return get_type_hints(holder, names_around(function), include_extras=True)[name]
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


def _code_bearer(function: Callable[..., Any]) -> Callable[..., Any]:
    function = innermost(function)
    return function if inspect.isroutine(function) else type(function).__call__


def _docstring(function: Callable[..., Any]) -> str:
    function = innermost(function)
    if inspect.isroutine(function):
        return function.__doc__ or inspect.getdoc(function) or ""  # finds inherited docstrings
    own = getattr(function, "__dict__", {}).get("__doc__")
    return own or type(function).__call__.__doc__ or type(function).__doc__ or ""


_BY_PLACE = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}
_BY_ANY_NAME = inspect.Parameter.VAR_KEYWORD


def offered_annotation(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """Return the annotation and the default under which a parameter is offered to the model."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return _variadic_annotation(hint)
    if parameter.kind is not _BY_ANY_NAME:
        return hint, parameter.default
    if get_origin(hint) is Unpack:
        (fields,) = get_args(hint)
        return fields, parameter.empty if getattr(fields, "__required_keys__", ()) else {}
    return types.GenericAlias(dict, (str, Any if isinstance(hint, ParamSpecKwargs) else hint)), {}


def _variadic_annotation(hint: Any) -> tuple[Any, Any]:
    """Return the annotation and the default for `*values`, annotated per value or as a whole (`*tuple[int, str]`)."""
    if getattr(hint, "__unpacked__", False):
        whole: Any = types.GenericAlias(tuple, get_args(hint))
    elif get_origin(hint) is Unpack:
        (whole,) = get_args(hint)
    else:
        return _list_of(Any if isinstance(hint, ParamSpecArgs) else _without_text(hint)), ()
    places = get_args(whole)
    if isinstance(whole, TypeVarTuple) or not places:
        return _list_of(Any), ()
    return (_list_of(places[0]), ()) if places[-1] is Ellipsis else (whole, inspect.Parameter.empty)


def _list_of(hint: Any) -> Any:
    return types.GenericAlias(list, (hint,))


def _without_text(hint: Any) -> Any:
    """Strip the description from the annotation of each value; it describes the whole list."""
    states_date = get_origin(hint) is Annotated and all(isinstance(extra, str) for extra in get_args(hint)[1:])
    return get_args(hint)[0] if states_date else hint


def gather_unknown(signature: inspect.Signature, given: dict[str, Any]) -> dict[str, Any]:
    """Move arguments with unknown names into the object for `**options`; models often put them at the top level.

    An argument whose name matches a parameter that was not given, compared by letters, is assigned to that parameter,
    even if it was inside the object.
    """
    rest = next((name for name, each in signature.parameters.items() if each.kind is _BY_ANY_NAME), None)
    if rest is None:
        return given
    named = signature.parameters.keys() - {rest}
    around = None if given.keys() & named else unwrap(given)
    given = dict(around) if around and around.keys() & named else given
    known = given.get(rest, {})
    others = {name: value for name, value in given.items() if name not in signature.parameters}
    if not isinstance(known, dict) or not (known or others):
        return given
    found, left = _claim({**known, **others}, named - given.keys())
    kept = {name: value for name, value in given.items() if name in named}
    return {**kept, **found, rest: left}


def _claim(loose: Mapping[str, Any], missing: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split loose arguments into those that match a missing parameter, if the match is unique, and the rest."""
    known = {spelled: names[0] for spelled, names in by_letters(missing).items() if len(names) == 1}
    meant = {name: name if name in missing else known.get(letters(name)) for name in loose}
    claims = Counter(meant.values())
    found = {other: loose[name] for name, other in meant.items() if other is not None and claims[other] == 1}
    return found, {name: value for name, value in loose.items() if meant[name] not in found}


def is_rest(parameter: inspect.Parameter) -> bool:
    """Whether a parameter takes any number of values."""
    return parameter.kind in (inspect.Parameter.VAR_POSITIONAL, _BY_ANY_NAME)


def is_spread(signature: inspect.Signature) -> bool:
    """Whether the function takes some arguments by position or collects arbitrary keywords."""
    return any(each.kind in _BY_PLACE or each.kind is _BY_ANY_NAME for each in signature.parameters.values())


def by_first_place(
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


_LISTS = (Iterable, Sequence, Collection, Container, Reversible)
_EQUAL: tuple[tuple[Any, Any], ...] = (
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

    `twins` caches the replacements of types that can be recursive.
    """

    names: Mapping[str, Any]
    describe: Callable[[str], Any]
    twins: dict[Any, Any]


def text_of(hint: Any) -> str:
    """Return the description in `Annotated[..., "text"]`, or an empty string."""
    hint = hint if isinstance(hint, type) else _alias_value(hint) or hint
    if get_origin(hint) is not Annotated:
        return ""
    texts = (getattr(extra, "documentation", extra) for extra in get_args(hint)[1:])  # typing_extensions.Doc has it
    return next((text for text in texts if isinstance(text, str)), "")


def readable(hint: Any, reading: AnnotationContext) -> Any:
    """Convert an annotation to its pydantic form.

    Iterables become lists, which are validated at once and can be read twice. Texts in `Annotated` become descriptions.
    Before Python 3.12, `typing.TypedDict` is replaced by the typing_extensions version.
    """
    if sys.version_info < (3, 12) and is_typeddict(get_origin(hint) or hint):
        return _modern_twin(hint, reading)
    if _alias_value(hint) is not None:
        return _without_name(hint, reading)
    args = get_args(hint)
    new = tuple(readable(arg, reading) for arg in args)
    if get_origin(hint) in (Annotated, typing.Final):
        return _with_description(hint, new, reading) if get_origin(hint) is Annotated else new[0]
    if any(hint is each or get_origin(hint) is each for each in _LISTS):
        return types.GenericAlias(list, new or (Any,))
    if new == args or get_origin(hint) is Literal:
        own = (Self, reading.names.get(SELF, typing.Never))  # pydantic would resolve Self to an agentkit class
        return next((read for spelled, read in (own, *_EQUAL) if hint is spelled), hint)
    return _with_parts(hint, new)


def narrow_union(hint: Any, is_read: Callable[[Any], bool]) -> Any:
    """Drop the unsupported members of unions from an annotation that cannot be read.

    Returns the annotation unchanged if that does not help. A union of None alone is not a valid result.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Literal, Callable):
        return hint
    inner = args[:1] if origin is Annotated else args
    parts = [(arg, arg) if is_read(arg) else (arg, narrow_union(arg, is_read)) for arg in inner]
    if origin in (typing.Union, types.UnionType):
        kept = [new for arg, new in parts if new is not arg or is_read(arg)]
        return functools.reduce(operator.or_, kept) if any(new is not types.NoneType for new in kept) else hint
    new = (*(new for _, new in parts), *args[len(inner) :])
    if all(new is arg for arg, new in parts):
        return hint
    return Annotated[new] if origin is Annotated else _with_parts(hint, new)


def _with_parts(hint: Any, args: tuple[Any, ...]) -> Any:
    """Rebuild an annotation with other type arguments."""
    if isinstance(hint, types.UnionType):
        return functools.reduce(operator.or_, args)
    return hint.copy_with(args) if hasattr(hint, "copy_with") else get_origin(hint)[args]


def _with_description(hint: Any, args: tuple[Any, ...], reading: AnnotationContext) -> Any:
    """Turn the text in `Annotated` into a description, unless the annotation already has one."""
    text = text_of(hint)
    if text and not any(getattr(extra, "description", None) for extra in args[1:]):
        args = (args[0], reading.describe(text), *args[1:])
    return hint if args == get_args(hint) else Annotated[args]


def _alias_value(hint: Any) -> Any:
    """Return the value of a `type Name = ...` alias, or None for any other annotation."""
    if type(hint).__name__ != "TypeAliasType":
        return None
    try:
        return hint.__value__
    except NameError:
        return None


def _without_name(hint: Any, reading: AnnotationContext) -> Any:
    """Replace a type alias by its converted value.

    Aliases that pydantic reads as they are, generic aliases and recursive ones are returned unchanged.
    """
    if hint in reading.twins or hint.__type_params__:
        return reading.twins.get(hint, hint)
    reading.twins[hint] = hint
    value = hint.__value__
    new = value if isinstance(value, str) else readable(value, reading)
    reading.twins[hint] = hint if new == value else new
    return reading.twins[hint]


def _modern_twin(hint: Any, reading: AnnotationContext) -> Any:
    if hint in reading.twins or type(get_origin(hint) or hint).__module__ != "typing":
        return reading.twins.get(hint, hint)
    import typing_extensions

    make: Any = typing_extensions.TypedDict
    origin = get_origin(hint) or hint
    given = dict(zip(getattr(origin, "__parameters__", ()), get_args(hint), strict=False))
    twin = make(origin.__name__, {})
    reading.twins[hint] = twin
    twin.__doc__, twin.__module__ = origin.__doc__, origin.__module__
    twin.__required_keys__, twin.__optional_keys__ = origin.__required_keys__, origin.__optional_keys__
    inner = get_type_hints(origin, localns=dict(reading.names), include_extras=True)
    twin.__annotations__ = {key: readable(_substitute(each, given), reading) for key, each in inner.items()}
    return twin


def _substitute(hint: Any, given: Mapping[Any, Any]) -> Any:
    """Substitute the type variables of a generic annotation."""
    if hint in given:
        return given[hint]
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(each, Any) for each in variables)] if variables and given else hint
