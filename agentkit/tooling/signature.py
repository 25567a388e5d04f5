"""Function signatures: name, parameters, annotations and documentation."""

from __future__ import annotations

import functools
import inspect
import pkgutil
import re
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import Any, ForwardRef, Literal, get_args, get_origin, get_type_hints

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError
from agentkit.tooling import annotations as hints
from agentkit.tooling import argument_binding, docstrings
from agentkit.tooling.annotations import SELF
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
    for partial in _partials(function):
        function = partial.func
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
            f"Tool {tool_name!r} has no signature to read; wrap it in a function of your own, or use Tool.from_schema."
        ) from error
    except NameError as error:
        raise ConfigError(f"Tool {tool_name!r} has an annotation that cannot be resolved: {error}.") from error
    parameters = list(signature.parameters.values())[int(without_first or _is_bound_dispatch(function)) :]
    bound = _bound_names(function)
    return signature.replace(parameters=[parameter for parameter in parameters if parameter.name not in bound])


def parameters_of(signature: inspect.Signature, function: Callable[..., Any], tool_name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a signature with their annotations resolved.

    Raises ConfigError, caused by a NameError if an annotation contains an unknown name.
    """
    names = _module_names(function)
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    if any(hint is REQUIRED for hint in annotations.values()):
        annotations |= _stated(signature, _docstring(function))
    for name, hint in annotations.items():
        if isinstance(hint, str) and hint in _BUILTIN_TYPES and hint not in names:
            annotations[name] = _BUILTIN_TYPES[hint]
        elif _has_forward_reference(hint):
            annotations[name] = _resolved(hint, name, function, tool_name)
    return tuple(
        Parameter(
            name,
            *argument_binding.asked(signature.parameters[name], Any if hint is REQUIRED else hint),
            hints.text_of(hint),
        )
        for name, hint in annotations.items()
    )


def _stated(signature: inspect.Signature, docstring: str) -> dict[str, Any]:
    """Return the types stated in the docstring for parameters without annotations."""
    found = stated_types(docstring) if docstring else {}
    bare = {name for name, each in signature.parameters.items() if each.annotation is REQUIRED}
    return {
        name: found[name] for name in bare & found.keys() if not argument_binding.is_rest(signature.parameters[name])
    }


def documentation_of(function: Callable[..., Any], names: Collection[str] = ()) -> Documentation:
    """Return the documentation of the function and of the named parameters."""
    return documented(_docstring(function), names)


def documented(docstring: str, names: Collection[str] = ()) -> Documentation:
    """Parse a docstring in Google, NumPy, reST or Epytext style, detected by its sections."""
    docstring = docstrings.usual(inspect.cleandoc(docstring.replace("\r\n", "\n")).strip(), names)
    style = next((style for style, pattern in _SECTIONS.items() if re.search(pattern, docstring)), None)
    if style is None:
        return Documentation(*docstrings.described(docstring, names))
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
        text, parameters = docstrings.described(docstring, names)
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


def _resolved(hint: Any, name: str, function: Callable[..., Any], tool_name: str) -> Any:
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
            f"Tool {tool_name!r}: the annotation {hint!r} of parameter {name!r} is no type ({error})."
        ) from error


def _has_forward_reference(hint: Any) -> bool:
    if isinstance(hint, str | ForwardRef):
        return True
    arguments = () if isinstance(hint, type) or get_origin(hint) is Literal else get_args(hint)
    return any(map(_has_forward_reference, arguments))


def _partials(function: Any) -> Iterator[functools.partial[Any]]:
    while isinstance(function, functools.partial):
        yield function
        function = function.func


def _bound_names(function: Callable[..., Any]) -> set[str]:
    return {name for partial in _partials(function) for name in partial.keywords}


def _code_bearer(function: Callable[..., Any]) -> Callable[..., Any]:
    function = innermost(function)
    return function if inspect.isroutine(function) else type(function).__call__


def _docstring(function: Callable[..., Any]) -> str:
    function = innermost(function)
    if inspect.isroutine(function):
        return function.__doc__ or inspect.getdoc(function) or ""  # finds inherited docstrings
    own = getattr(function, "__dict__", {}).get("__doc__")
    return own or type(function).__call__.__doc__ or type(function).__doc__ or ""
