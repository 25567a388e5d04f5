"""Which objects does a function share with others, so that a call of one may change what another finds?"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from agentkit.tooling.functions.signature import instance_of

_MOST_LOOKED_AT = 100
_CONCURRENT = ("_thread", "threading", "queue", "_queue", "concurrent", "asyncio", "multiprocessing")
"""The modules whose objects a function holds that reckons with calls at the same time."""

_ATTRIBUTES = ("__dict__", "__pydantic_private__")
"""Where an object keeps the functions that it calls."""

_UNCHANGING = (type, types.NoneType, types.EllipsisType, types.ModuleType, types.MethodWrapperType)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)


def shared_by(function: Callable[..., Any]) -> list[object]:
    """The objects that a function is called on, and that may change.

    Of a method it is its object; of others what partials give, an object that is called, and what functions in these or
    in the closure are called on. Other variables of a closure are not looked at, nor what a module holds: a client that
    many functions use at the same time stands there. A function that holds a lock or the like looks after itself, as do
    those of this package: they share nothing.
    """
    owner = instance_of(function)
    return _given_to(function) if owner is None else [owner]


def _given_to(function: Callable[..., Any]) -> list[object]:
    found: list[object] = []
    waiting: list[object] = [function]
    for looked_at in range(_MOST_LOOKED_AT):
        if looked_at == len(waiting):
            break
        value = waiting[looked_at]
        if _is_concurrent(value) or _is_our_own(value):
            return []
        waiting += [inner for inner in _held(value) if not any(inner is each for each in waiting)]
        found += [value] if _may_change(value) else []
    return found


def _is_concurrent(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in _CONCURRENT


def _is_our_own(value: object) -> bool:
    place = getattr(value, "__module__", None)
    return isinstance(place, str) and place.partition(".")[0] == __name__.partition(".")[0]


def _held(value: object) -> Iterator[object]:
    """What a function, a method, a partial or an object that is called works with."""
    match value:
        case functools.partial():
            yield from (value.func, *value.args, *value.keywords.values())
        case types.FunctionType():
            cells = _in_cells(value.__closure__ or ())
            yield from (inner for inner in cells if isinstance(inner, _FUNCTIONS) or _is_concurrent(inner))
        case types.MethodType():
            yield from (value.__func__, value.__self__)
        case types.BuiltinMethodType():
            yield value.__self__
        case tuple():
            yield from value
        case _ if callable(value) and not isinstance(value, type):
            kept = (getattr(value, place, None) or {} for place in _ATTRIBUTES)
            yield from (inner for group in kept for inner in group.values() if isinstance(inner, _FUNCTIONS))


def _in_cells(cells: tuple[types.CellType, ...]) -> Iterator[object]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # a variable that was given no value yet
            continue


def _may_change(value: object) -> bool:
    """Whether a value is an object that others may find changed: what is equal by its content cannot change."""
    if isinstance(value, _UNCHANGING + _FUNCTIONS) or type(value) is object:
        return False
    return type(value).__hash__ in (None, object.__hash__)
