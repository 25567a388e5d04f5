"""Proxies for classes and objects that guarded code must not reach."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from agentkit.sandbox.guard.errors import RefusedAttribute, RefusedCall
from agentkit.sandbox.guard.name_rules import may_set, normalise_name


class ClassProxy:
    """A proxy of a class: it can be compared, printed and used in `isinstance`, but not instantiated."""

    __slots__ = ("__dict__", "__wrapped__")  # keeps the class itself out of `__dict__`

    def __init__(self, original: type) -> None:
        self.__name__ = original.__name__
        self.__qualname__ = original.__qualname__
        self.__module__ = original.__module__
        self.__wrapped__ = original  # guarded code can read this name only on its own functions

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse to create an object."""
        raise RefusedCall(f"objects of {self.__name__!r} cannot be made by calling their type here")

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self.__wrapped__)

    def __subclasscheck__(self, value: Any) -> bool:
        return issubclass(value, self.__wrapped__)

    def __getitem__(self, _: Any) -> Self:
        return self

    def __or__(self, _: Any) -> Self:
        return self

    __ror__ = __or__


class TypeFunction(ClassProxy):
    """The `type` of guarded code: `type(x)` works, creating classes requires a `class` statement."""

    __slots__ = ("_type_of",)

    def __init__(self, type_of: Callable[[Any], Any]) -> None:
        super().__init__(type)
        self._type_of = type_of

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the class of an object."""
        if len(arguments) != 1 or keywords:
            raise RefusedCall("type() takes one argument here", "write a class statement")
        return self._type_of(arguments[0])


def class_of_proxy(kind: ClassProxy) -> type:
    """Return the class behind a proxy; for the guard only."""
    return kind.__wrapped__


class Attributes(dict[str, Any]):
    """A copy of an object's `__dict__`; changes are applied to the object too, if the name is allowed."""

    __slots__ = ("_hidden", "_live")

    def __init__(self, live: dict[str, Any], hidden: frozenset[str]) -> None:
        """`hidden` are the names that are hidden and cannot be set."""
        super().__init__((name, value) for name, value in live.items() if name not in hidden)
        self._live = live
        self._hidden = hidden

    def __setitem__(self, name: str, value: Any) -> None:
        if type(name) is not str or not may_set(normalise_name(name)) or name in self._hidden:
            raise RefusedAttribute(f"the attribute {name!r} cannot be set here")
        self._live[name] = value
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._live.pop(name, None)

    def update(self, *others: Any, **values: Any) -> None:
        """Set several attributes."""
        for name, value in dict(*others, **values).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the attribute, setting it to the default if it is missing."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Remove the attribute and return its value."""
        value = super().pop(name, *default)
        if name not in self._hidden:
            self._live.pop(name, None)
        return value

    def clear(self) -> None:
        """Remove all attributes."""
        for name in list(self):
            del self[name]


class Boxed(NamedTuple):
    """Holds a value that a pattern reads as an attribute."""

    value: Any


class Traceback:
    """Opaque replacement for a traceback."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<traceback>"


def opaque(value: Any) -> Any:
    """Replace tracebacks in the value or in the tuple's items."""
    if type(value) is tuple:
        return tuple(opaque(part) for part in value)
    return Traceback() if type(value) is TracebackType else value
