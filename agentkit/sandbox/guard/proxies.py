"""Proxies for classes and objects that guarded code must not reach."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from agentkit.sandbox.guard.errors import RefusedAttribute, RefusedCall
from agentkit.sandbox.guard.name_rules import as_python_reads, may_set


class ClassProxy:
    """The likeness of a class: it can be compared, printed and used in `isinstance`, but makes no objects."""

    __slots__ = ("__dict__", "__wrapped__")  # the class itself is not among what `__dict__` holds

    def __init__(self, likened: type) -> None:
        self.__name__ = likened.__name__
        self.__qualname__ = likened.__qualname__
        self.__module__ = likened.__module__
        self.__wrapped__ = likened  # a name that guarded code can read of its own functions only

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse to make an object."""
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
    """What the name `type` means: `type(x)`, and no way to make classes but the `class` statement."""

    __slots__ = ("_type_of",)

    def __init__(self, type_of: Callable[[Any], Any]) -> None:
        super().__init__(type)
        self._type_of = type_of

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The class of one object."""
        if len(arguments) != 1 or keywords:
            raise RefusedCall("type() takes one argument here", "write a class statement")
        return self._type_of(arguments[0])


def likened(kind: ClassProxy) -> type:
    """The class behind a likeness; for the guard only."""
    return kind.__wrapped__


class Attributes(dict[str, Any]):
    """A copy of an object's `__dict__`; what is changed in it is changed in the object too, if the name is allowed."""

    __slots__ = ("_inner", "_live")

    def __init__(self, live: dict[str, Any], inner: frozenset[str]) -> None:
        """`inner` are the names that are not shown, and cannot be set."""
        super().__init__((name, value) for name, value in live.items() if name not in inner)
        self._live = live
        self._inner = inner

    def __setitem__(self, name: str, value: Any) -> None:
        if type(name) is not str or not may_set(as_python_reads(name)) or name in self._inner:
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
        """The attribute, which is set to the default if it is missing."""
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Remove the attribute and give its value."""
        value = super().pop(name, *default)
        if name not in self._inner:
            self._live.pop(name, None)
        return value

    def clear(self) -> None:
        """Remove all attributes."""
        for name in list(self):
            del self[name]


class Boxed(NamedTuple):
    """A value where a pattern can take it from."""

    value: Any


class Traceback:
    """What stands for a traceback: it is there, and leads nowhere."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<traceback>"


def opaque(value: Any) -> Any:
    """The value, or the several ones, without real tracebacks."""
    if type(value) is tuple:
        return tuple(opaque(part) for part in value)
    return Traceback() if type(value) is TracebackType else value
