"""Resolution of type annotations."""

from __future__ import annotations

import functools
import numbers
import operator
import sys
import types
import typing
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Reversible, Sequence
from typing import (
    Annotated,
    Any,
    AnyStr,
    Literal,
    LiteralString,
    Self,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from agentkit._dataclass import dataclass

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
    hint = _named(hint) or hint
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
    if _named(hint) is not None:
        return _without_name(hint, reading)
    args = get_args(hint)
    new = tuple(readable(arg, reading) for arg in args)
    if get_origin(hint) in (Annotated, typing.Final):
        return _described(hint, new, reading) if get_origin(hint) is Annotated else new[0]
    if any(hint is each or get_origin(hint) is each for each in _LISTS):
        return types.GenericAlias(list, new or (Any,))
    if new == args or get_origin(hint) is Literal:
        own = (Self, reading.names.get(SELF, typing.Never))  # pydantic would resolve Self to an agentkit class
        return next((read for spelled, read in (own, *_EQUAL) if hint is spelled), hint)
    return _with_parts(hint, new)


def narrowed(hint: Any, is_read: Callable[[Any], bool]) -> Any:
    """Drop the unsupported members of unions from an annotation that cannot be read.

    Returns the annotation unchanged if that does not help. A union of None alone is not a valid result.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Literal, Callable):
        return hint
    inner = args[:1] if origin is Annotated else args
    parts = [(arg, arg) if is_read(arg) else (arg, narrowed(arg, is_read)) for arg in inner]
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


def _described(hint: Any, args: tuple[Any, ...], reading: AnnotationContext) -> Any:
    """Turn the text in `Annotated` into a description, unless the annotation already has one."""
    text = text_of(hint)
    if text and not any(getattr(extra, "description", None) for extra in args[1:]):
        args = (args[0], reading.describe(text), *args[1:])
    return hint if args == get_args(hint) else Annotated[args]


def _named(hint: Any) -> Any:
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
    twin.__annotations__ = {key: readable(_filled(each, given), reading) for key, each in inner.items()}
    return twin


def _filled(hint: Any, given: Mapping[Any, Any]) -> Any:
    """Substitute the type variables of a generic annotation."""
    if hint in given:
        return given[hint]
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(each, Any) for each in variables)] if variables and given else hint
