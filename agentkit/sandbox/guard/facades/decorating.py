"""What do the decorators of `functools` do, where Python's own would set or show more than a program may?

What they make keeps nothing of the guard where an attribute could be read.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from agentkit.sandbox.guard.attributes import Guard
from agentkit.sandbox.guard.ending import RefusedCall
from agentkit.sandbox.guard.likeness import Kind, likened


class Functools:
    """The decorators that give one function the looks of another."""

    def __init__(self, guard: Guard) -> None:
        from functools import partial

        self._guard = guard
        guard.let_set(partial)

    def names(self) -> dict[str, Any]:
        """What the module hands out."""
        return {
            "cached_property": cached_property(self._guard),
            "singledispatch": lambda function: single_dispatch(self._guard, function),
            "total_ordering": self.total_ordering,
            "update_wrapper": self.update_wrapper,
            "wraps": self.wraps,
        }

    def update_wrapper(self, wrapper: Any, wrapped: Any) -> Any:
        """Give a function the name and the text of another."""
        if issubclass(type(wrapper), type):
            raise RefusedCall("a class cannot be made to look like a function here", "set its __name__ and __doc__")
        self._guard.write(wrapper)
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            try:
                setattr(wrapper, name, self._guard.read(wrapped, name))
            except AttributeError:
                continue
        if self._guard.is_own_function(wrapped):
            vars(wrapper).update(vars(wrapped))
            wrapper.__annotations__ = dict(wrapped.__annotations__)
        wrapper.__wrapped__ = wrapped
        return wrapper

    def wraps(self, wrapped: Any) -> Callable[[Any], Any]:
        """The decorator form of `update_wrapper`."""
        return lambda wrapper: self.update_wrapper(wrapper, wrapped)

    def total_ordering(self, cls: type) -> type:
        """Fill in the missing comparisons of a class."""
        from functools import total_ordering

        self._guard.write(cls)
        return total_ordering(cls)


def single_dispatch(guard: Guard, function: Any) -> Any:
    """A function that chooses its implementation by the class of its first argument."""
    from functools import singledispatch

    chosen = singledispatch(function)
    registered: dict[Any, Any] = {object: function}  # a likeness stays one here

    def dispatcher(*arguments: Any, **keywords: Any) -> Any:
        return chosen(*arguments, **keywords)

    def dispatch(cls: Any) -> Any:
        """The implementation for a class: a real one, as an object that poses as one would be shown others."""
        kind = likened(cls) if isinstance(cls, Kind) else cls
        if not issubclass(type(kind), type):
            raise TypeError(f"dispatch() takes a class, not a {type(kind).__name__!r}")
        return chosen.dispatch(kind)

    def register(cls: Any, function: Any = None) -> Any:
        """Add an implementation for a class, which may be told by the annotation of its first parameter."""
        if guard.is_own_function(cls):
            classes = [value for name, value in cls.__annotations__.items() if name != "return"]
            if not classes or isinstance(classes[0], str):
                raise RefusedCall("the class to register for is not known", "write @function.register(int)")
            return register(classes[0], cls)
        if function is None:
            return lambda given: register(cls, given)
        chosen.register(likened(cls) if isinstance(cls, Kind) else cls, function)
        registered[cls] = function
        return function

    dispatcher.__name__ = dispatcher.__qualname__ = str(guard.read(function, "__name__"))
    dispatcher.__doc__ = guard.read(function, "__doc__")
    vars(dispatcher).update(registry=MappingProxyType(registered), dispatch=dispatch, register=register)
    return dispatcher


def cached_property(guard: Guard) -> type:
    """The class of properties that are computed once: they are kept under names that the program may set."""

    class CachedProperty:
        """A property that is computed once for each object."""

        def __init__(self, func: Any) -> None:
            self.func = func
            self.attrname: Any = None
            self.__doc__ = guard.read(func, "__doc__")

        def __set_name__(self, owner: type, name: str) -> None:
            if self.attrname not in (None, name):
                raise TypeError(f"a cached_property cannot be called {self.attrname!r} and {name!r}")
            self.attrname = name

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            return kept(guard, instance, self.attrname, self.func)

    CachedProperty.__name__ = CachedProperty.__qualname__ = "cached_property"
    CachedProperty.__module__ = "functools"
    return CachedProperty


def kept(guard: Guard, instance: Any, name: Any, function: Callable[[Any], Any]) -> Any:
    """What the function makes of an object, which is kept there under a name that the program may set."""
    if name is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    guard.check_set(instance, name)
    if not hasattr(instance, "__dict__"):
        raise TypeError(f"No '__dict__' attribute on {type(instance).__name__!r} instance to cache {name!r} property.")
    value = vars(instance)[name] = function(instance)
    return value
