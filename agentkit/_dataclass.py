"""Dataclasses with slots whose `__init__` is generated on first use.

The standard library compiles three to six functions for each class, which takes longer than anything else agentkit's
modules do on import. See `docs/decisions/0017-slotted-dataclasses.md`. If a class defines `_refuse_unknown`, it is
called with the keyword arguments that match no field.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


def _dataclass(**how: bool) -> Callable[[Any], Any]:
    """Replace `dataclasses.dataclass`; delegates to it for classes without slots and for subclasses of a dataclass."""
    slots, frozen, is_shown, is_compared = map(how.get, ("slots", "frozen", "repr", "eq"), (False, False, True, True))

    def decorated(cls: Any) -> Any:
        if not slots or any(map(dataclasses.is_dataclass, cls.__mro__[1:])):
            return dataclasses.dataclass(**how)(cls)
        own = {name for name, value in vars(cls).items() if value is not None}
        made = dataclasses.dataclass(**how | _NOTHING)(cls)
        made.__dataclass_params__.frozen = frozen
        methods = {"__init__": _LazyInit(made)} | (_SHOWN if is_shown else {}) | (_FROZEN if frozen else {})
        if is_compared:
            methods |= _COMPARED if frozen else _COMPARED | {"__hash__": None}
        for name in methods.keys() - own:
            setattr(made, name, methods[name])
        return made

    return decorated


_NOTHING = {"init": False, "repr": False, "eq": False, "frozen": False}


class _Shown:
    """Template of `__repr__`."""

    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = (field.name for field in dataclasses.fields(self) if field.repr)
        pairs = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({pairs})"


class _Compared:
    """Template of `__eq__` and `__hash__`."""

    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _compared(other.__class__)
        return bool(values(self) == values(other))

    def __hash__(self: Any) -> int:
        return hash(_hashed(self.__class__)(self))


class _Frozen:
    """Template of the methods of frozen dataclasses, including pickling."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        _refuse("assign to", self, name)
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        _refuse("delete", self, name)
        object.__delattr__(self, name)

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)


def _methods(template: type) -> dict[str, Any]:
    return {name: method for name, method in vars(template).items() if isinstance(method, FunctionType)}


_SHOWN, _COMPARED, _FROZEN = map(_methods, (_Shown, _Compared, _Frozen))


def _refuse(what: str, thing: Any, name: str) -> None:
    """Raise FrozenInstanceError for a field. A subclass of a frozen dataclass can add mutable attributes."""
    kind = type(thing)
    if "__dataclass_fields__" in vars(kind) or name in kind.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot {what} field {name!r}")


@cache
def _compared(kind: Any) -> Callable[[Any], Any]:
    """Return a getter for the values that equality compares."""
    return _values([field.name for field in dataclasses.fields(kind) if field.compare])


@cache
def _hashed(kind: Any) -> Callable[[Any], Any]:
    """Return a getter for the values that the hash is computed from."""
    fields = dataclasses.fields(kind)
    return _values([field.name for field in fields if (field.compare if field.hash is None else field.hash)])


def _values(names: list[str]) -> Callable[[Any], Any]:
    """Return a getter for a tuple of these attributes."""
    if len(names) < 2:
        return lambda thing: tuple(getattr(thing, name) for name in names)
    return attrgetter(*names)


class _LazyInit:
    """Descriptor that generates `__init__` on first access and replaces itself with it."""

    __slots__ = ("_class",)

    def __init__(self, cls: type) -> None:
        self._class = cls

    def __get__(self, instance: object, owner: type) -> Any:
        written = _written(self._class)
        type.__setattr__(self._class, "__init__", written)
        return written if instance is None else written.__get__(instance)


class _Factory:
    """Placeholder shown in signatures as the default of a field with a `default_factory`."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _written(cls: Any) -> Any:
    """Generate the `__init__` of a class, which stores each value directly in its slot."""
    known = dataclasses.fields(cls)
    scope: dict[str, Any] = {"FACTORY": _FACTORY}
    is_asked = hasattr(cls, "_refuse_unknown")
    lines = ["if unknown: self._refuse_unknown(unknown)"] if is_asked else []
    lines += [line for field in known for line in _line(cls, field, scope)]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    positional = [_parameter(field) for field in known if field.init and not field.kw_only]
    by_keyword = [_parameter(field) for field in known if field.init and field.kw_only]
    parameters = ["self", *positional, *(["*", *by_keyword] if by_keyword else [])] + ["**unknown"] * is_asked
    body = "\n  ".join(lines or ["pass"])
    source = f"def write({', '.join(scope)}):\n def __init__({', '.join(parameters)}):\n  {body}\n return __init__"
    writing: dict[str, Any] = {}
    exec(source, vars(sys.modules[cls.__module__]), writing)
    written = writing["write"](**scope)
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    written.__annotations__ = {field.name: field.type for field in known if field.init} | {"return": None}
    return written


def _parameter(field: Field[Any]) -> str:
    """Render a field as a parameter of `__init__`."""
    if field.default_factory is not MISSING:
        return f"{field.name}=FACTORY"
    return field.name if field.default is MISSING else f"{field.name}=default_{field.name}"


def _line(cls: Any, field: Field[Any], scope: dict[str, Any]) -> list[str]:
    """Render the statement of `__init__` that sets a field; adds the names it uses to `scope`."""
    name = value = field.name
    if field.default is not MISSING:
        scope[f"default_{name}"] = field.default
        value = name if field.init else f"default_{name}"
    elif field.default_factory is not MISSING:
        scope[f"make_{name}"] = field.default_factory
        value = f"make_{name}() if {name} is FACTORY else {name}" if field.init else f"make_{name}()"
    elif not field.init:
        return []
    if not cls.__dataclass_params__.frozen:
        return [f"self.{name} = {value}"]
    scope[f"set_{name}"] = vars(cls)[name].__set__
    return [f"set_{name}(self, {value})"]


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
