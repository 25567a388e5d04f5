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


def _dataclass(**options: bool) -> Callable[[Any], Any]:
    """Replace `dataclasses.dataclass`; delegates to it for classes without slots and for subclasses of a dataclass."""
    slots, frozen, has_repr, has_eq = map(options.get, ("slots", "frozen", "repr", "eq"), (False, False, True, True))

    def decorate(cls: Any) -> Any:
        if not slots or any(map(dataclasses.is_dataclass, cls.__mro__[1:])):
            return dataclasses.dataclass(**options)(cls)
        defined = {name for name, value in vars(cls).items() if value is not None}
        result = dataclasses.dataclass(**options | _NO_METHODS)(cls)
        result.__dataclass_params__.frozen = frozen
        methods = (
            {"__init__": _LazyInit(result)} | (_REPR_METHODS if has_repr else {}) | (_FROZEN_METHODS if frozen else {})
        )
        if has_eq:
            methods |= _EQ_METHODS if frozen else _EQ_METHODS | {"__hash__": None}
        for name in methods.keys() - defined:
            setattr(result, name, methods[name])
        return result

    return decorate


_NO_METHODS = {"init": False, "repr": False, "eq": False, "frozen": False}


class _ReprTemplate:
    """Template of `__repr__`."""

    @recursive_repr()
    def __repr__(self: Any) -> str:
        displayed = (field.name for field in dataclasses.fields(self) if field.repr)
        pairs = ", ".join(f"{name}={getattr(self, name)!r}" for name in displayed)
        return f"{self.__class__.__qualname__}({pairs})"


class _EqTemplate:
    """Template of `__eq__` and `__hash__`."""

    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _getter(other.__class__)
        return bool(values(self) == values(other))

    def __hash__(self: Any) -> int:
        return hash(_getter(self.__class__, hashed=True)(self))


class _FrozenTemplate:
    """Template of the methods of frozen dataclasses, including pickling."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        _raise_frozen("assign to", self, name)
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        _raise_frozen("delete", self, name)
        object.__delattr__(self, name)

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)


def _methods(template: type) -> dict[str, Any]:
    return {name: method for name, method in vars(template).items() if isinstance(method, FunctionType)}


_REPR_METHODS, _EQ_METHODS, _FROZEN_METHODS = map(_methods, (_ReprTemplate, _EqTemplate, _FrozenTemplate))


def _raise_frozen(what: str, instance: Any, name: str) -> None:
    """Raise FrozenInstanceError for a field. A subclass of a frozen dataclass can add mutable attributes."""
    kind = type(instance)
    if "__dataclass_fields__" in vars(kind) or name in kind.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot {what} field {name!r}")


@cache
def _getter(kind: Any, *, hashed: bool = False) -> Callable[[Any], Any]:
    """Return a getter for a tuple of the values that equality compares, or that the hash is computed from."""
    names = [
        field.name
        for field in dataclasses.fields(kind)
        if (field.compare if field.hash is None or not hashed else field.hash)
    ]
    if len(names) < 2:
        return lambda instance: tuple(getattr(instance, name) for name in names)
    return attrgetter(*names)


class _LazyInit:
    """Descriptor that generates `__init__` on first access and replaces itself with it."""

    __slots__ = ("_class",)

    def __init__(self, cls: type) -> None:
        self._class = cls

    def __get__(self, instance: object, owner: type) -> Any:
        """Generate the `__init__`, which stores each value directly in its slot."""
        cls: Any = self._class
        all_fields = dataclasses.fields(cls)
        scope: dict[str, Any] = {"FACTORY": _FACTORY}
        takes_unknown = hasattr(cls, "_refuse_unknown")
        lines = ["if unknown: self._refuse_unknown(unknown)"] if takes_unknown else []
        lines += [line for field in all_fields for line in _render_assignment(cls, field, scope)]
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        positional = [_render_parameter(field) for field in all_fields if field.init and not field.kw_only]
        by_keyword = [_render_parameter(field) for field in all_fields if field.init and field.kw_only]
        parameters = ["self", *positional, *(["*", *by_keyword] if by_keyword else [])] + ["**unknown"] * takes_unknown
        body = "\n  ".join(lines or ["pass"])
        source = f"def write({', '.join(scope)}):\n def __init__({', '.join(parameters)}):\n  {body}\n return __init__"
        namespace: dict[str, Any] = {}
        exec(source, vars(sys.modules[cls.__module__]), namespace)
        init = namespace["write"](**scope)
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        init.__annotations__ = {field.name: field.type for field in all_fields if field.init} | {"return": None}
        type.__setattr__(cls, "__init__", init)
        return init if instance is None else init.__get__(instance)


class _Factory:
    """Placeholder shown in signatures as the default of a field with a `default_factory`."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _render_parameter(field: Field[Any]) -> str:
    """Render a field as a parameter of `__init__`."""
    if field.default_factory is not MISSING:
        return f"{field.name}=FACTORY"
    return field.name if field.default is MISSING else f"{field.name}=default_{field.name}"


def _render_assignment(cls: Any, field: Field[Any], scope: dict[str, Any]) -> list[str]:
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
