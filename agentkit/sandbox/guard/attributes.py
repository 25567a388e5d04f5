"""What may guarded code read of an object, and what may it set?

Anything public may be read, unless it leads to frames, code or modules; underscore names belong to the classes that
the code itself wrote, and only those may be changed. All decisions look at `type(x)`, which an object cannot forge.
"""

import builtins
from collections.abc import Callable, Iterable
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GenericAlias,
    MethodType,
    ModuleType,
    NoneType,
    SimpleNamespace,
    TracebackType,
    resolve_bases,
)
from typing import Any, Self

from agentkit.sandbox.guard.ending import Refused, RefusedAttribute, RefusedCall
from agentkit.sandbox.guard.formatting import format_text
from agentkit.sandbox.guard.names import (
    COPIES,
    DELICATE,
    METHODS,
    OF_EXCEPTIONS,
    OF_OWN_CLASSES,
    OF_TUPLES,
    OWN_METHODS,
    READABLE_BY_TEXT,
    SETTERS,
    TEXTS,
    as_python_reads,
    is_dunder,
    is_own,
    may_be_matched,
    may_read,
    may_set,
)

MAIN = "__main__"
CLOSED_TYPES = frozenset({CellType, CodeType, FrameType, ModuleType, TracebackType})
OWN_HINT = "underscore names can be used on objects of classes that the code itself defines"


class Kind:
    """The likeness of a class: it can be compared, printed and used in `isinstance`, but makes no objects."""

    def __init__(self, likened: type) -> None:
        self.__name__ = likened.__name__
        self.__qualname__ = likened.__qualname__
        self.__module__ = likened.__module__
        self._likened = likened

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse to make an object."""
        raise RefusedCall(f"objects of {self.__name__!r} cannot be made by calling their type here")

    def __repr__(self) -> str:
        return repr(self._likened)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._likened)

    def __subclasscheck__(self, value: Any) -> bool:
        return issubclass(value, self._likened)

    def __getitem__(self, _: Any) -> Self:
        return self

    def __or__(self, _: Any) -> Self:
        return self

    __ror__ = __or__


class TypeFunction(Kind):
    """What the name `type` means: `type(x)`, and no way to make classes but the `class` statement."""

    def __init__(self, type_of: Callable[[Any], Any]) -> None:
        super().__init__(type)
        self._type_of = type_of

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The class of one object."""
        if len(arguments) != 1 or keywords:
            raise RefusedCall("type() takes one argument here", "write a class statement")
        return self._type_of(arguments[0])


def likened(kind: Kind) -> type:
    """The class behind a likeness; for the guard only."""
    return kind._likened


class Attributes(dict[str, Any]):
    """A copy of an object's `__dict__`; what is changed in it is changed in the object too, if the name is allowed."""

    def __init__(self, live: dict[str, Any]) -> None:
        super().__init__(live)
        self._live = live

    def __setitem__(self, name: str, value: Any) -> None:
        if type(name) is not str or not may_set(as_python_reads(name)):
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
        self._live.pop(name, None)
        return value

    def clear(self) -> None:
        """Remove all attributes."""
        for name in list(self):
            del self[name]


class Guard:
    """Who owns what in one run, and what follows from it."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        """`namespace` is the globals of the program: a function that has them is the program's own."""
        self._namespace = namespace
        self._own_classes: set[type] = set()
        self._known_classes: set[type] = {NoneType, type(NotImplemented), type(Ellipsis)}
        self._settable: set[type] = {SimpleNamespace}
        self.type = TypeFunction(self.type_of)
        self._kinds: dict[type, Any] = {Attributes: dict, Kind: self.type, TypeFunction: self.type}
        self._readers = {
            **dict.fromkeys(TEXTS, self._read_text),
            **dict.fromkeys(COPIES, self._read_copy),
            **dict.fromkeys(OF_OWN_CLASSES | {"mro"}, self._read_of_own_class),
            **dict.fromkeys(OF_EXCEPTIONS, self._read_of_exception),
            **dict.fromkeys(OWN_METHODS | {"__wrapped__"}, self._read_own_function),
            **dict.fromkeys(SETTERS, self._read_setter),
            **dict.fromkeys(METHODS | {"__members__"}, getattr),
            "__init__": self._read_init,
            **dict.fromkeys(DELICATE - {"mro", "obj"}, self._read_own_delicate),
            "format": self._read_format,
            "format_map": self._read_format,
            "obj": self._read_obj,
            "__class__": lambda value, _: self.type_of(value),
        }

    # Whose is it?

    def own_class(self, new: type) -> type:
        """Remember a class as the program's own."""
        self._own_classes.add(new)
        return new

    def know(self, value: Any) -> None:
        """Remember a class that was handed out, so that `type(x)` may say it."""
        if isinstance(value, type):
            self._known_classes.add(value)

    def let_set(self, kind: type) -> None:
        """Let the program set attributes of objects of exactly this class."""
        self._settable.add(kind)

    def is_own_class(self, kind: type) -> bool:
        """Whether the program wrote the class or one that it derives from."""
        if kind in self._own_classes:
            return True
        # A class is used while it is being made, by the hooks of its bases; Python itself says where it was written.
        if any(base in self._own_classes or vars(base).get("__module__") == MAIN for base in kind.__mro__):
            self._own_classes.add(kind)
            return True
        return False

    def is_own_function(self, value: Any) -> bool:
        """Whether it is a function, or a method, that the program wrote."""
        while type(value) is MethodType:
            value = value.__func__
        return type(value) is FunctionType and value.__globals__ is self._namespace

    def is_own(self, value: Any) -> bool:
        """Whether it is a class or function that the program wrote, or an object of such a class."""
        if issubclass(type(value), type):
            return self.is_own_class(value)
        return self.is_own_class(type(value)) or self.is_own_function(value)

    # Reading

    def read_plain(self, value: Any, name: str) -> Any:
        """An attribute whose name is harmless on every object."""
        found = getattr(value, name)
        if type(found) in CLOSED_TYPES or found is type:
            return self._closed(found, name)
        return found

    def read(self, value: Any, name: str) -> Any:
        """An attribute of any name."""
        if type(name) is not str:
            raise TypeError("attribute name must be string, not " + repr(type(name).__name__))
        if not may_read(as_python_reads(name)):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        reader = self._readers.get(name)
        if reader:
            return reader(value, name)
        if name.startswith("_") and not self._has_private(value, name):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        return self.read_plain(value, name)

    def read_own(self, value: Any, name: str) -> Any:
        """An attribute with one of the underscore names that a program gives to its own."""
        return (self.read_plain if type(value) in self._own_classes else self.read)(value, name)

    def read_by_text(self, value: Any, name: str) -> Any:
        """An attribute whose name was made while the program runs: fewer special ones than may be written in code."""
        if type(name) is str and is_dunder(as_python_reads(name)) and name not in READABLE_BY_TEXT:
            raise RefusedAttribute(f"the attribute {name!r} cannot be read by its name as text", OWN_HINT)
        return self.read(value, name)

    def _has_private(self, value: Any, name: str) -> bool:
        kind = value if issubclass(type(value), type) else type(value)
        return kind is super or (name in OF_TUPLES and issubclass(kind, tuple)) or self.is_own(value)

    def _closed(self, found: Any, name: str) -> Any:
        if found is type:
            return self.type
        raise RefusedAttribute(
            f"the attribute {name!r} is not available here", "it is a part of Python's own machinery"
        )

    def _read_text(self, value: Any, name: str) -> Any:
        found = getattr(value, name)
        if type(found) not in {str, NoneType} and not self.is_own(value):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        return found

    def _read_copy(self, value: Any, name: str) -> Any:
        if not self.is_own(value) and type(value) is not SimpleNamespace:
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        if name == "__dict__" and issubclass(type(value), type):
            raise RefusedAttribute("`__dict__` of a class is not available here", "use dir(cls) and getattr")
        found = getattr(value, name)
        if name == "__dict__":
            return Attributes(found)
        return type(found)(found)

    def _read_init(self, value: Any, name: str) -> Any:
        if issubclass(type(value), type) or type(value) is super or self.is_own(value):
            return getattr(value, name)
        raise RefusedAttribute(f"{name!r} of this {type(value).__name__!r} is not available here", OWN_HINT)

    def _read_of_own_class(self, value: Any, name: str) -> Any:
        if issubclass(type(value), type) and not self.is_own_class(value):
            raise RefusedAttribute(f"{name!r} of {value.__name__!r} is not available here", OWN_HINT)
        return getattr(value, name)

    def _read_of_exception(self, value: Any, name: str) -> Any:
        if not issubclass(type(value), BaseException):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        return getattr(value, name)

    def _read_own_function(self, value: Any, name: str) -> Any:
        found = getattr(value, name)
        if not self.is_own_function(found):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        return found

    def _read_own_delicate(self, value: Any, name: str) -> Any:
        if not self.is_own(value):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        return self.read_plain(value, name)

    def _read_obj(self, value: Any, name: str) -> Any:
        if issubclass(type(value), BaseException):
            raise RefusedAttribute("`obj` of an exception is not available here", "use str(error) and error.args")
        return self.read_plain(value, name)

    def _read_format(self, value: Any, name: str) -> Any:
        """`format` of a string follows attributes in C, so it is replaced by one that reads them here."""
        found = getattr(value, name)
        is_class = issubclass(type(value), type)
        if issubclass(value if is_class else type(value), str):
            text: Any = None if is_class else value
        elif type(value) is super:
            text = getattr(found, "__self__", None)
        else:
            return found
        if self.is_own_function(found):
            return found

        def format_bound(*positional: Any, **named: Any) -> str:
            template, *arguments = positional if text is None else (text, *positional)
            template = str.__str__(template)
            if name == "format":
                return format_text(self.read_by_text, template, arguments, named)
            (mapping,) = arguments
            return format_text(self.read_by_text, template, None, mapping)

        return format_bound

    def _read_setter(self, value: Any, name: str) -> Any:
        """`__setattr__` and `__delattr__` of a built-in class, checked as an assignment is."""
        found = getattr(value, name)
        if self.is_own_function(found):
            return found
        bound_to = [found.__self__] if hasattr(found, "__self__") else []

        def set_checked(*arguments: Any) -> None:
            target, attribute, *_ = [*bound_to, *arguments]
            self.check_set(target, attribute)
            found(*arguments)

        return set_checked

    # Setting

    def write(self, value: Any) -> Any:
        """The object itself, if its attributes may be set."""
        kind = type(value)
        if kind in self._own_classes or kind in self._settable:
            return value
        if self.is_own(value) or issubclass(kind, BaseException):
            return value
        raise RefusedAttribute(f"attributes of this {kind.__name__!r} cannot be set here", OWN_HINT)

    def check_set(self, value: Any, name: str) -> None:
        """Refuse an attribute that must not be set, or deleted."""
        if type(name) is not str:
            raise TypeError("attribute name must be string, not " + repr(type(name).__name__))
        if not may_set(as_python_reads(name)):
            raise RefusedAttribute(f"the attribute {name!r} cannot be set here", OWN_HINT)
        self.write(value)

    # Classes

    def type_of(self, value: Any) -> Any:
        """What `type(value)` and `value.__class__` say: a class that may be handed out, or the likeness of one."""
        kind = type(value)
        if issubclass(kind, type):
            return self.type
        if kind in self._known_classes or self.is_own_class(kind):
            return kind
        if kind in {FunctionType, MethodType} and value.__module__.startswith(__package__):
            kind = BuiltinFunctionType
        if kind not in self._kinds:
            self._kinds[kind] = Kind(kind)
        return self._kinds[kind]

    def build_class(self, body: Any, name: str, /, *bases: Any, metaclass: Any = None, **keywords: Any) -> type:
        """What the `class` statement calls."""
        for base in bases:
            of_typing = type(base).__module__ == "typing" or type(base) in {GenericAlias, FunctionType}
            if self.is_own(base) if of_typing else not isinstance(base, type | TypeFunction):
                raise Refused(f"class {name!r} cannot derive from this {type(base).__name__!r}")
        resolved = () if self.type in bases else resolve_bases(bases)
        offered = metaclass is None or (
            type(metaclass) in {Kind, TypeFunction} and issubclass(likened(metaclass), type)
        )
        if not offered or self.type in bases or any(issubclass(base, type) for base in resolved):
            raise Refused("metaclasses are not available here", "use a class decorator or __init_subclass__")
        plain = metaclass is None and all(is_plain(base) for base in resolved)
        for base in resolved:
            check_fields(getattr(base, "__match_args__", ()), plain=plain)
        if metaclass is not None and metaclass is not self.type:
            keywords["metaclass"] = likened(metaclass)
        return self.own_class(builtins.__build_class__(body, name, *bases, **keywords))


def is_plain(kind: type) -> bool:
    """Whether only real objects of a class pass for such, and delicate names mean nothing special on them."""
    return type(kind) is type and not issubclass(kind, str | BaseException)


def check_fields(names: Iterable[str], *, plain: bool) -> None:
    """Refuse fields that a pattern such as `Point(x, y)`, or a generated method, must not read off an object."""
    for name in names:
        if not (is_own(name) or may_be_matched(name) or (plain and name in DELICATE)):
            raise RefusedAttribute(f"a field cannot be called {name!r} here")
