"""Attribute access and class creation in guarded code.

Anything public may be read, unless it leads to frames, code or modules; underscore names belong to the classes that
the code itself wrote, and only those may be changed. All decisions look at `type(x)`, which an object cannot forge.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GenericAlias,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    SimpleNamespace,
    TracebackType,
    resolve_bases,
)
from typing import Any

from agentkit.sandbox.guard.errors import Refused, RefusedAttribute, RefusedCall
from agentkit.sandbox.guard.name_rules import (
    COPIES,
    DELICATE,
    HINT,
    METHODS,
    OF_EXCEPTIONS,
    OF_OWN_CLASSES,
    OF_TUPLES,
    OWN_METHODS,
    READABLE_BY_TEXT,
    SETTERS,
    TEXTS,
    Privacy,
    as_python_reads,
    is_dunder,
    is_own,
    may_be_matched,
    may_read,
    may_set,
    names_given,
    texts_in,
)
from agentkit.sandbox.guard.proxies import Attributes, ClassProxy, TypeFunction, likened

# What the module `string` stands on, which costs more to load.
PARSER = import_module("_string")
Read = Callable[[Any, str], Any]


def format_text(read: Read, template: str, positional: Sequence[Any] | None, named: Mapping[str, Any]) -> str:
    """What `template.format(*positional, **named)` gives, with each attribute read by `read`.

    Without `positional` it is what `template.format_map(named)` gives.
    """
    if "." in template or "[" in template:
        return _Formatting(read, positional or (), named).expand(template, depth=2)
    # The fields are names and numbers: Python's own formatting follows no attribute.
    return template.format_map(named) if positional is None else template.format(*positional, **named)


class _Formatting:
    def __init__(self, read: Read, positional: Sequence[Any], named: Mapping[str, Any]) -> None:
        self.read = read
        self.positional = positional
        self.named = named
        self.counted: int | None = None  # fields numbered so far by `{}`, or None while neither way was used
        self.numbered = False

    def expand(self, template: str, depth: int) -> str:
        """The template with its fields filled in; a format spec may hold fields of its own."""
        if not depth:
            raise ValueError("Max string recursion exceeded")
        pieces = []
        for literal, field, spec, conversion in PARSER.formatter_parser(template):
            pieces.append(literal)
            if field is not None:
                value = convert(self.find(field), conversion)
                pieces.append(format(value, self.expand(spec, depth - 1) if spec else ""))
        return "".join(pieces)

    def find(self, field: str) -> Any:
        """The value that a field such as `0.name[key]` names."""
        first, rest = PARSER.formatter_field_name_split(field)
        value = self.argument(first)
        for is_attribute, key in rest:
            value = self.read(value, key) if is_attribute else value[key]
        return value

    def argument(self, first: int | str) -> Any:
        """The positional or named argument that a field begins with."""
        if first == "":
            if self.numbered:
                raise ValueError("cannot switch from manual field specification to automatic field numbering")
            first = self.counted = 0 if self.counted is None else self.counted + 1
        elif isinstance(first, int):
            if self.counted is not None:
                raise ValueError("cannot switch from automatic field numbering to manual field specification")
            self.numbered = True
        if isinstance(first, str):
            return self.named[first]
        if first >= len(self.positional):
            raise IndexError(f"Replacement index {first} out of range for positional args tuple")
        return self.positional[first]


def convert(value: Any, conversion: str | None) -> Any:
    """The value as `!r`, `!s` or `!a` say."""
    match conversion:
        case None:
            return value
        case "r":
            return repr(value)
        case "s":
            return str(value)
        case "a":
            return ascii(value)
    raise ValueError(f"Unknown conversion specifier {conversion}")


MAIN = "__main__"
CLOSED_TYPES = frozenset({CellType, CodeType, FrameType, ModuleType, TracebackType})
LOOKED_AT = CLOSED_TYPES | {FunctionType}
HOLDERS = frozenset({property, cached_property})  # what they hold was written for the objects of one class
OWN_HINT = "underscore names can be used on objects of classes that the code itself defines"


class Guard:
    """Who owns what in one run, and what follows from it."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        """`namespace` is the globals of the program: a function that has them is the program's own."""
        self._namespace = namespace
        self._own_classes: set[type] = set()
        self._known_classes: set[type] = {NoneType, type(NotImplemented), type(Ellipsis)}
        self._standing: dict[type, type] = {}
        self.privacy = Privacy(self.is_own_class)
        self._inner = self.privacy.inner
        self._settable: dict[type, frozenset[str] | None] = {SimpleNamespace: None}
        self.type = TypeFunction(self.type_of)
        self._kinds: dict[type, Any] = {Attributes: dict, ClassProxy: self.type, TypeFunction: self.type}
        self._readers = {
            **dict.fromkeys(TEXTS, self._read_text),
            **dict.fromkeys(COPIES, self._read_copy),
            **dict.fromkeys(OF_OWN_CLASSES | {"mro"}, self._read_of_own_class),
            **dict.fromkeys(OF_EXCEPTIONS, read_of_exception),
            **dict.fromkeys(OWN_METHODS | {"__wrapped__"}, self._read_own_function),
            **dict.fromkeys(SETTERS, self._read_setter),
            **dict.fromkeys(METHODS, self.read_plain),
            "__set_name__": self._read_own_function,
            "__members__": getattr,
            "__init__": self._read_init,
            **dict.fromkeys(DELICATE - {"mro", "obj"}, self._read_own_delicate),
            "format": self._read_format,
            "format_map": self._read_format,
            "obj": lambda value, name: self.read_plain(without_obj(value), name),
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

    def let_stand(self, original: type, replacement: type) -> None:
        """Say the replacement wherever a class would be named among the bases of another."""
        self._standing[original] = replacement

    def let_set(self, kind: type, names: frozenset[str] | None = None) -> None:
        """Let the program set attributes of objects of exactly this class, or those names only."""
        self._settable[kind] = names

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
        if type(found) in LOOKED_AT or found is type:
            return self._looked_at(value, found, name)
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
        if name.startswith("_"):
            if not self._has_private(value, name):
                raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
            self.privacy.check(value, name)
        return self.read_plain(value, name)

    def read_own(self, value: Any, name: str) -> Any:
        """An attribute with one of the underscore names that a program gives to its own."""
        inner = self._inner.get(type(value))
        return (self.read if inner is None or name in inner else self.read_plain)(value, name)

    def read_by_text(self, value: Any, name: str) -> Any:
        """An attribute whose name was made while the program runs: fewer special ones than may be written in code."""
        readable = type(name) is not str or not is_dunder(as_python_reads(name)) or name in READABLE_BY_TEXT
        if not readable and not (name == "__dict__" and self.is_own(value)):
            raise RefusedAttribute(f"the attribute {name!r} cannot be read by its name as text", OWN_HINT)
        return self.read(value, name)

    def _has_private(self, value: Any, name: str) -> bool:
        kind = value if issubclass(type(value), type) else type(value)
        return kind is super or (name in OF_TUPLES and issubclass(kind, tuple)) or self.is_own(value)

    def _looked_at(self, value: Any, found: Any, name: str) -> Any:
        if found is type:
            return self.type
        if type(found) is FunctionType and type(value) not in HOLDERS:
            return found if self.is_own_function(found) else self._method(value, found, name)
        if self.is_own_function(found):
            return found
        raise RefusedAttribute(
            f"the attribute {name!r} is not available here", "it is a part of Python's own machinery"
        )

    def _method(self, value: Any, found: Any, name: str) -> Any:
        """A method read off a class, bound to objects of that class only: it may write to whatever it is called on."""
        kind = class_behind(value)
        holder = next((base for base in kind.__mro__ if name in vars(base)), None) if kind else None
        if not holder or type(vars(holder)[name]) is staticmethod:
            return found
        if self.is_own_class(holder) and not name.startswith("_"):
            return found

        def method(*arguments: Any, **keywords: Any) -> Any:
            if not arguments or kind not in type(arguments[0]).__mro__:
                raise RefusedCall(f"{name}() of {kind.__name__!r} is called on objects of that class only")
            return found(*arguments, **keywords)

        method.__name__, method.__qualname__, method.__doc__ = found.__name__, found.__qualname__, found.__doc__
        return method

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
            return Attributes(found, self.privacy.names(type(value)))
        return type(found)(found)

    def _read_init(self, value: Any, name: str) -> Any:
        if issubclass(type(value), type) or type(value) is super or self.is_own(value):
            return self.read_plain(value, name)
        raise RefusedAttribute(f"{name!r} of this {type(value).__name__!r} is not available here", OWN_HINT)

    def _read_of_own_class(self, value: Any, name: str) -> Any:
        kind = class_behind(value)
        if kind and not self.is_own_class(kind):
            raise RefusedAttribute(f"{name!r} of {kind.__name__!r} is not available here", OWN_HINT)
        found = getattr(value, name)
        if name == "mro":
            return found
        return tuple(dict.fromkeys(self._standing.get(base, base) for base in found))

    def _read_own_function(self, value: Any, name: str) -> Any:
        found = getattr(value, name)
        if not self.is_own_function(found):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        return found

    def _read_own_delicate(self, value: Any, name: str) -> Any:
        if not self.is_own(value):
            raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
        return self.read_plain(value, name)

    def _read_format(self, value: Any, name: str) -> Any:
        """`format` of a string follows attributes in C, so it is replaced by one that reads them here."""
        found = getattr(value, name)
        if type(found) is MethodDescriptorType and issubclass(found.__objclass__, str):
            text: Any = None
        elif type(found) is BuiltinFunctionType and issubclass(type(found.__self__), str):
            text = found.__self__
        else:
            return self.read_plain(value, name)
        return _formatting(self.read_by_text, text, name)

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

    def write(self, value: Any, name: str = "") -> Any:
        """The object itself, if its attributes may be set; `name` is the one that is to be set, if it is private."""
        kind = type(value)
        if name and name not in self._inner.get(kind, (name,)):
            return value
        if name:
            self.privacy.check_given(value, name)
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
        self.write(value, name)
        names = self._settable.get(type(value))
        if names is not None and name not in names:
            raise RefusedAttribute(f"the attribute {name!r} of this {type(value).__name__!r} cannot be set here")

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
        return self.likeness(kind)

    def likeness(self, kind: type) -> Any:
        """The stand-in for a class that is not handed out: one for each class, so that identity comparisons work."""
        return self._kinds.get(kind) or self._kinds.setdefault(kind, ClassProxy(kind))


def class_behind(value: Any) -> Any:
    """The class that an object is, stands for or starts from; None if it is none of these."""
    while type(value) is GenericAlias or (
        type(value).__module__ == "typing" and not issubclass(type(value), type | super)
    ):
        value = getattr(value, "__origin__", None)
    if type(value) is super:
        started: Any = value
        value = started.__thisclass__ if issubclass(type(started.__self__), type) else None
    return value if issubclass(type(value), type) else None


def without_obj(value: Any) -> Any:
    """The value, unless it is an error, whose `obj` may be anything."""
    if issubclass(type(value), BaseException):
        raise RefusedAttribute("`obj` of an exception is not available here", "use str(error) and error.args")
    return value


def read_of_exception(value: Any, name: str) -> Any:
    """An attribute that errors only have."""
    if not issubclass(type(value), BaseException):
        raise RefusedAttribute(f"the attribute {name!r} is not available here", OWN_HINT)
    return getattr(value, name)


def _formatting(read: Callable[[Any, str], Any], text: Any, name: str) -> Callable[..., str]:
    """The method `format` or `format_map` of a text, or of whatever text it is given first."""

    def format_bound(*positional: Any, **named: Any) -> str:
        template, *arguments = positional if text is None else (text, *positional)
        template = str.__str__(template)
        if name == "format":
            return format_text(read, template, arguments, named)
        (mapping,) = arguments
        return format_text(read, template, None, mapping)

    return format_bound


def class_builder(guard: Guard) -> Callable[..., type]:
    """What the `class` statement calls."""

    def build_class(body: Any, name: str, /, *bases: Any, metaclass: Any = None, **keywords: Any) -> type:
        for base in bases:
            is_class = issubclass(type(base), type | TypeFunction)  # one of typing's among them, as a protocol is
            of_typing = type(base).__module__ == "typing" or type(base) in {GenericAlias, FunctionType}
            if not is_class and (not of_typing or guard.is_own(base)):
                raise Refused(f"class {name!r} cannot derive from this {type(base).__name__!r}")
        resolved = () if guard.type in bases else resolve_bases(bases)
        offered = metaclass is None or (
            type(metaclass) in {ClassProxy, TypeFunction} and issubclass(likened(metaclass), type)
        )
        if not offered or guard.type in bases or any(issubclass(base, type) for base in resolved):
            raise Refused("metaclasses are not available here", "use a class decorator or __init_subclass__")
        check_mixture(resolved)
        check_privacy(guard, body.__code__, resolved)
        if metaclass is not None and metaclass is not guard.type:
            keywords["metaclass"] = likened(metaclass)
        return guard.own_class(builtins.__build_class__(body, name, *bases, **keywords))

    return build_class


def check_privacy(guard: Guard, body: CodeType, bases: Iterable[type]) -> None:
    """Refuse a class that uses or overrides private names of Python's classes, before any hook can use it."""
    kinds = {kind for base in bases for kind in base.__mro__}
    if any(issubclass(kind, super) for kind in kinds):
        raise Refused("a class cannot derive from super here")
    own = {kind for kind in kinds if guard.is_own_class(kind)}
    inner = {name for kind in kinds - own for name in guard.privacy.of_python(kind)}
    taken = inner.intersection(texts_in(body)).union(*(names_given(kind) & inner for kind in own))
    if taken:
        raise RefusedAttribute(f"the name {min(taken)!r} cannot be used in this class", HINT)


def check_mixture(bases: Iterable[type]) -> None:
    """Refuse a class of texts or errors that has an annotated field with a delicate name.

    Annotations are looked at, as they stand before any subclass does, and a class may become a dataclass later.
    """
    kinds = {kind for base in bases for kind in base.__mro__}
    if any(issubclass(kind, str | BaseException) for kind in kinds):
        for kind in kinds:
            check_fields(DELICATE.intersection(getattr(kind, "__annotations__", ())), plain=not is_plain(kind))


def matchable(kind: Any, count: int) -> Any:
    """The class of a pattern with so many positional parts, whose attributes Python then reads without a guard."""
    if count and issubclass(type(kind), type):
        names = getattr(kind, "__match_args__", ())
        if type(names) is tuple:
            check_fields(names[:count], plain=is_plain(kind), private=False)
    return kind


def is_plain(kind: type) -> bool:
    """Whether only real objects of a class pass for such, and delicate names mean nothing special on them."""
    return type(kind) is type and not issubclass(kind, str | BaseException)


def check_fields(names: Iterable[Any], *, plain: bool, private: bool = True) -> None:
    """Refuse fields that a pattern such as `Point(x, y)`, or a generated method, must not read off an object."""
    for name in names:
        if type(name) is not str or not (
            may_be_matched(name) or (private and is_own(name)) or (plain and name in DELICATE)
        ):
            raise RefusedAttribute(f"a field cannot be called {name!r} here")
