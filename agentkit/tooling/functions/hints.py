"""How is an annotation read that pydantic reads otherwise, or not at all?"""

from __future__ import annotations

import functools
import numbers
import operator
import sys
import types
from collections.abc import Collection, Container, Iterable, Reversible, Sequence
from typing import Annotated, Any, AnyStr, Literal, LiteralString, get_args, get_origin, get_type_hints, is_typeddict

_LISTS = (Iterable, Sequence, Collection, Container, Reversible)
_EQUAL: tuple[tuple[Any, Any], ...] = (
    *((LiteralString, str), (AnyStr, str), (any, Any)),
    *((numbers.Number, int | float), (numbers.Real, int | float), (numbers.Integral, int)),
)
"""Annotations that mean another, which pydantic knows."""


def readable(hint: Any, twins: dict[Any, Any]) -> Any:
    """The annotation as pydantic wants it: any iterable as a list, which is checked at once and can be read twice.

    Before Python 3.12 also `typing.TypedDict` as its equal of typing_extensions.
    """
    if sys.version_info < (3, 12) and is_typeddict(hint) and type(hint).__module__ == "typing":
        return twins.get(hint) or _modern_twin(hint, twins)
    args = get_args(hint)
    new = tuple(readable(arg, twins) for arg in args)
    if any(hint is each or get_origin(hint) is each for each in _LISTS):
        return types.GenericAlias(list, new or (Any,))
    if new == args or get_origin(hint) is Literal:
        return next((read for spelled, read in _EQUAL if hint is spelled), hint)
    if isinstance(hint, types.UnionType):
        return functools.reduce(operator.or_, new)
    if get_origin(hint) is Annotated:
        return Annotated[new]
    return hint.copy_with(new) if hasattr(hint, "copy_with") else get_origin(hint)[new]


def _modern_twin(hint: Any, twins: dict[Any, Any]) -> Any:
    import typing_extensions

    make: Any = typing_extensions.TypedDict
    twin = make(hint.__name__, {})
    twins[hint] = twin
    twin.__doc__, twin.__module__ = hint.__doc__, hint.__module__
    twin.__required_keys__, twin.__optional_keys__ = hint.__required_keys__, hint.__optional_keys__
    twin.__annotations__ = {
        key: readable(inner, twins) for key, inner in get_type_hints(hint, include_extras=True).items()
    }
    return twin
