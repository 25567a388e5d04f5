"""Safe replacements for standard-library functions that follow attribute names.

The objects they create do not expose the guard through attributes.
"""

from __future__ import annotations

import builtins
import enum
import types
from abc import ABCMeta
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType, MemberDescriptorType, SimpleNamespace
from typing import Any

from agentkit.sandbox.guard.attributes import MAIN, Guard, check_fields, is_plain
from agentkit.sandbox.guard.builtins import Streams, exit_program
from agentkit.sandbox.guard.errors import Refused, RefusedCall, own_lines
from agentkit.sandbox.guard.module_facades import Facade
from agentkit.sandbox.guard.name_rules import words
from agentkit.sandbox.guard.proxies import ClassProxy, class_of_proxy

Part = Callable[[Any], Any]
# Objects of these modules are immutable, or shared by Python's own copy as well.
IMMUTABLE_OBJECT_MODULES = words("builtins datetime decimal enum fractions functools re types typing uuid zoneinfo")


def attributes_of(value: object, names: str) -> dict[str, Any]:
    """These attributes of an object, by name."""
    return {name: getattr(value, name) for name in names.split()}


class Copier:
    """`copy` and `deepcopy` of one run."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def copy(self, value: Any) -> Any:
        """Return a shallow copy."""
        if self._is_shared(value):
            return value
        if self._has_own(value, "__copy__"):
            return value.__copy__()
        return self._filled(value, lambda part: part, lambda _: None)

    def deepcopy(self, value: Any, memo: dict[int, Any] | None = None) -> Any:
        """Return a copy of the value and everything it contains."""
        seen: dict[int, Any] = {} if memo is None else memo
        if self._is_shared(value):
            return value
        if id(value) in seen:
            return seen[id(value)]
        if self._has_own(value, "__deepcopy__"):
            new = value.__deepcopy__(seen)
        else:
            # Refuse an object with private parts: the program has access to the memo, which would expose their
            # copies.
            inner = self._guard.privacy.names(type(value))
            parts = [(name.__name__, found) for name, found in _slots(value)] if inner else []
            parts += [*vars(value).items()] if inner and hasattr(value, "__dict__") else []
            if not all(self._is_shared(found) for name, found in parts if name in inner):
                raise RefusedCall(f"a {type(value).__name__!r} cannot be copied deeply here", "make a new one")
            new = self._filled(
                value, lambda part: self.deepcopy(part, seen), lambda empty: seen.__setitem__(id(value), empty)
            )
        return seen.setdefault(id(value), new)

    def _has_own(self, value: Any, method: str) -> bool:
        return self._guard.is_own_class(type(value)) and hasattr(type(value), method)

    def _is_shared(self, value: Any) -> bool:
        kind = type(value)
        if issubclass(kind, type | Enum):
            return True
        changing = (list, dict, set, frozenset, tuple, deque, bytearray, SimpleNamespace, BaseException)
        if self._guard.is_own_class(kind) or issubclass(kind, changing):
            return False
        if kind.__module__ in IMMUTABLE_OBJECT_MODULES or self._guard.is_own_function(value):
            return True
        raise RefusedCall(f"a {kind.__name__!r} cannot be copied here", "make a new one")

    def _filled(self, value: Any, part: Part, seen: Callable[[Any], object]) -> Any:
        """Create an object of the same class; `seen` is called before its parts, which can refer to it, are copied."""
        kind = type(value)
        base: Any = next((base for base in (tuple, frozenset) if issubclass(kind, base)), None)
        if base:
            new = base.__new__(kind, [part(item) for item in base.__iter__(value)])
        else:
            base = next(base for base in FILLS if issubclass(kind, base))
            maker = SimpleNamespace if issubclass(kind, SimpleNamespace) else base
            new = maker.__new__(kind)
            seen(new)
            FILLS[base](new, value, part)
        for name, found in _slots(value):
            name.__set__(new, part(found))
        if hasattr(value, "__dict__"):
            vars(new).update((name, part(found)) for name, found in vars(value).items())
        return new


def _fill_dict(new: Any, value: Any, part: Part) -> None:
    if issubclass(type(new), OrderedDict):
        for key in OrderedDict.__iter__(value):
            OrderedDict.__setitem__(new, part(key), part(dict.__getitem__(value, key)))
        return
    if issubclass(type(new), defaultdict):
        new.default_factory = value.default_factory
    dict.update(new, {part(key): part(item) for key, item in dict.items(value)})


def _fill_exception(new: Any, value: Any, part: Part) -> None:
    new.args = part(value.args)


# The built-in base classes of objects, each with a function that copies its contents.
FILLS: dict[Any, Callable[[Any, Any, Part], None]] = {
    **dict.fromkeys((OrderedDict, dict), _fill_dict),
    list: lambda new, value, part: list.extend(new, [part(item) for item in list.__iter__(value)]),
    set: lambda new, value, part: set.update(new, [part(item) for item in set.__iter__(value)]),
    deque: lambda new, value, part: deque.__init__(new, [part(item) for item in deque.__iter__(value)], value.maxlen),
    bytearray: lambda new, value, _: bytearray.extend(new, value),
    BaseException: _fill_exception,
    object: lambda *_: None,
}


def _slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """The filled slots of an object: descriptor and value."""
    for kind in type(value).__mro__:
        for found in vars(kind).values():
            if type(found) is MemberDescriptorType and kind.__module__ not in {"builtins", "types"}:
                try:
                    yield found, found.__get__(value, kind)
                except AttributeError:
                    continue


class Functools:
    """The functions of `functools` that copy metadata or attributes."""

    def __init__(self, guard: Guard) -> None:
        from functools import partial

        self._guard = guard
        guard.allow_setting(partial)

    def names(self) -> dict[str, Any]:
        """The replaced names of the module."""
        return {
            "cached_property": cached_property(self._guard),
            "singledispatch": lambda function: single_dispatch(self._guard, function),
            **attributes_of(self, "total_ordering update_wrapper wraps"),
        }

    def update_wrapper(self, wrapper: Any, wrapped: Any) -> Any:
        """Copy the name and the docstring of another function."""
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
        """Decorator form of `update_wrapper`."""
        return lambda wrapper: self.update_wrapper(wrapper, wrapped)

    def total_ordering(self, cls: type) -> type:
        """Add the missing comparison methods of a class."""
        from functools import total_ordering

        self._guard.write(cls)
        return total_ordering(cls)


def single_dispatch(guard: Guard, function: Any) -> Any:
    """Create a function that selects its implementation by the class of its first argument."""
    from functools import singledispatch

    chosen = singledispatch(function)
    registered: dict[Any, Any] = {object: function}  # proxies remain proxies here

    def dispatcher(*arguments: Any, **keywords: Any) -> Any:
        return chosen(*arguments, **keywords)

    def dispatch(cls: Any) -> Any:
        """Return the implementation for a class; a real one is required, or a forged class would be passed others."""
        kind = class_of_proxy(cls) if isinstance(cls, ClassProxy) else cls
        if not issubclass(type(kind), type):
            raise TypeError(f"dispatch() takes a class, not a {type(kind).__name__!r}")
        return chosen.dispatch(kind)

    def register(cls: Any, function: Any = None) -> Any:
        """Add an implementation for a class, which can be given by the annotation of the first parameter."""
        if guard.is_own_function(cls):
            classes = [value for name, value in cls.__annotations__.items() if name != "return"]
            if not classes or isinstance(classes[0], str):
                raise RefusedCall("the class to register for is not known", "write @function.register(int)")
            return register(classes[0], cls)
        if function is None:
            return lambda given: register(cls, given)
        chosen.register(class_of_proxy(cls) if isinstance(cls, ClassProxy) else cls, function)
        registered[cls] = function
        return function

    dispatcher.__name__ = dispatcher.__qualname__ = str(guard.read(function, "__name__"))
    dispatcher.__doc__ = guard.read(function, "__doc__")
    vars(dispatcher).update(registry=MappingProxyType(registered), dispatch=dispatch, register=register)
    return dispatcher


def cached_property(guard: Guard) -> type:
    """Create the class `cached_property`, which stores values only under names that the program can set."""

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
            name = self.attrname
            if name is None:
                raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
            guard.check_set(instance, name)
            if not hasattr(instance, "__dict__"):
                kind = type(instance).__name__
                raise TypeError(f"No '__dict__' attribute on {kind!r} instance to cache {name!r} property.")
            value = vars(instance)[name] = self.func(instance)
            return value

    CachedProperty.__name__ = CachedProperty.__qualname__ = "cached_property"
    CachedProperty.__module__ = "functools"
    return CachedProperty


ENUM_MIXINS = frozenset({None, int, str, float})


def enumerations(main: str, allow_replacement: Callable[[type, type], object]) -> dict[str, Any]:
    """Create `Enum` and related classes; enumerations made by a call get `main` as their module."""
    roots: dict[type, type] = {}

    class GuardedType(enum.EnumType):
        """The metaclass of the enumerations of one run."""

        def __call__(cls, value: Any, *arguments: Any, **keywords: Any) -> Any:
            if not keywords and (not arguments or cls.__members__):
                return super().__call__(value, *arguments)
            names = keywords.pop("names", arguments[0] if arguments else None)
            if len(arguments) > 1 or keywords.get("type") not in ENUM_MIXINS or "module" in keywords:
                raise Refused("an enumeration cannot be made like this", "write a class statement")
            return super().__call__(value, members(names), **keywords, module=main)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, roots[cls]) if cls in roots else super().__instancecheck__(value)

        def __subclasscheck__(cls, kind: Any) -> bool:
            return issubclass(kind, roots[cls]) if cls in roots else super().__subclasscheck__(kind)

    def guarded(original: Any) -> Any:
        body = GuardedType.__prepare__(original.__name__, (original,))
        body["__module__"], body["__doc__"] = "enum", original.__doc__
        made = GuardedType(original.__name__, (original,), body)
        roots[made] = original
        allow_replacement(original, made)
        return made

    return {name: guarded(getattr(enum, name)) for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")}


def members(names: Any) -> list[Any]:
    """Parse and check the members passed to a call of an enumeration class."""
    if type(names) is str:
        found: list[Any] = names.replace(",", " ").split()
    else:
        found = [*names.items()] if isinstance(names, Mapping) else [*names]
        found = [item if type(item) is str else tuple(item) for item in found]
    for item in found:
        name = item if type(item) is str else item[0]
        if type(name) is not str or not name.isidentifier() or name.startswith("_"):
            raise Refused(f"a member cannot be called {name!r} here")
    return found


def compression_functions(name: str) -> dict[str, Any]:
    """`compress` and `decompress` of `bz2`, `gzip` or `lzma`, applied to real bytes."""
    import bz2
    import gzip
    import lzma

    original: Any = {"bz2": bz2, "gzip": gzip, "lzma": lzma}[name]

    def compress(data: Any, *arguments: Any, **options: Any) -> Any:
        """Compress the bytes."""
        return original.compress(bytes(memoryview(data)), *arguments, **options)

    def decompress(data: Any, *arguments: Any, **options: Any) -> Any:
        """Decompress the bytes."""
        return original.decompress(bytes(memoryview(data)), *arguments, **options)

    return {"compress": compress, "decompress": decompress}


def gzip_names() -> dict[str, Any]:
    """The guarded names of the module `gzip`."""
    import gzip
    import io

    def packed_file(filename: Any = None, mode: Any = None, compresslevel: int = 9, fileobj: Any = None) -> Any:
        """Create a compressed file in memory."""
        named = filename is not None and not (type(filename) is str and filename == "")
        if named or type(fileobj) is not io.BytesIO:
            raise RefusedCall("GzipFile works in memory here", "give it fileobj=io.BytesIO(data) and no file name")
        return gzip.GzipFile(None, mode and str.__str__(mode), compresslevel, fileobj)

    return {**compression_functions("gzip"), "GzipFile": packed_file}


def codecs_names() -> dict[str, Any]:
    """The guarded names of the module `codecs`."""
    import codecs

    def plain(value: Any) -> Any:
        return str.__str__(value) if isinstance(value, str) else bytes(memoryview(value))

    def encode(obj: Any, encoding: str = "utf-8", errors: str = "strict") -> Any:
        """Encode text or bytes."""
        return codecs.encode(plain(obj), encoding, errors)

    def decode(obj: Any, encoding: str = "utf-8", errors: str = "strict") -> Any:
        """Decode text or bytes."""
        return codecs.decode(plain(obj), encoding, errors)

    return {"encode": encode, "decode": decode}


def tomllib_names() -> dict[str, Any]:
    """The guarded names of the module `tomllib`."""
    import tomllib

    def loads(text: str, /, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
        """Parse TOML text."""
        if not isinstance(text, str):
            raise TypeError(f"Expected str object, not {type(text).__qualname__!r}")
        return tomllib.loads(str.__str__(text), parse_float=parse_float)

    return {"loads": loads}


MAX_RECURSION = 20_000


def substitutes(guard: Guard, streams: Streams) -> dict[str, Callable[[], dict[str, Any]]]:
    """For each module with replacements: a function that creates its guarded names on first import."""
    return {
        "abc": lambda: {"ABCMeta": ClassProxy(ABCMeta)},
        "ast": _ast,
        "asyncio": _asyncio,
        "bz2": lambda: compression_functions("bz2"),
        "calendar": lambda: _calendar(streams),
        "codecs": codecs_names,
        "contextlib": lambda: _contextlib(streams),
        "copy": lambda: attributes_of(Copier(guard), "copy deepcopy"),
        "dataclasses": lambda: Dataclasses(guard).names(),
        "decimal": lambda: _settable(guard, "decimal"),
        "enum": lambda: enumerations(MAIN, guard.allow_replacement),
        "functools": lambda: Functools(guard).names(),
        "gzip": gzip_names,
        "lzma": lambda: compression_functions("lzma"),
        "operator": lambda: _operator(guard),
        "pprint": lambda: pprint_functions(lambda: streams.stdout),
        "sys": lambda: _sys(streams),
        "textwrap": lambda: _settable(guard, "textwrap"),
        "tomllib": tomllib_names,
        "traceback": lambda: _traceback(streams),
        "types": lambda: {
            name: guard.proxy_of(getattr(types, name))
            for name in ("BuiltinFunctionType", "GeneratorType", "MethodType")
        },
        "typing": lambda: _typing(guard),
        "warnings": lambda: Warnings(streams).names(),
    }


def _settable(guard: Guard, module: str) -> dict[str, Any]:
    """Let programs set the attributes of the module's objects; no name is replaced."""
    from decimal import Context
    from textwrap import TextWrapper

    guard.allow_setting({"decimal": Context, "textwrap": TextWrapper}[module])
    return {}


def _ast() -> dict[str, Any]:
    import ast

    def literal_eval(text: str, /) -> Any:
        """Evaluate a literal from text only, since a syntax tree can contain objects of the program."""
        if not isinstance(text, str):
            raise TypeError(f"literal_eval() takes a text here, not a {type(text).__name__!r}")
        return ast.literal_eval(str.__str__(text))

    return {"literal_eval": literal_eval}


def _asyncio() -> dict[str, Any]:
    from agentkit.sandbox.guard.asyncio_facade import Coroutines

    return Coroutines().names()


def _calendar(streams: Streams) -> dict[str, Any]:
    import calendar

    class TextCalendar(calendar.TextCalendar):
        """Python's TextCalendar, which prints to the program's output."""

        def prweek(self, theweek: Any, width: int) -> None:
            """Print a week."""
            streams.stdout.write(self.formatweek(theweek, width))

        def prmonth(self, theyear: int, themonth: int, *layout: int, **named: int) -> None:
            """Print a month."""
            streams.stdout.write(self.formatmonth(theyear, themonth, *layout, **named))

        def pryear(self, theyear: int, *layout: int, **named: int) -> None:
            """Print a year."""
            streams.stdout.write(self.formatyear(theyear, *layout, **named))

    TextCalendar.__qualname__, TextCalendar.__module__ = "TextCalendar", "calendar"
    return {"TextCalendar": TextCalendar}


def _contextlib(streams: Streams) -> dict[str, Any]:
    class Redirect:
        """Redirects printed output inside a `with` block."""

        __slots__ = ("before", "stream", "target")

        def __init__(self, stream: str, target: Any) -> None:
            self.stream = stream
            self.target = target
            self.before: list[Any] = []

        def __enter__(self) -> Any:
            self.before.append(getattr(streams, self.stream))
            setattr(streams, self.stream, self.target)
            return self.target

        def __exit__(self, *_: object) -> None:
            setattr(streams, self.stream, self.before.pop())

    return {
        "redirect_stdout": lambda target: Redirect("stdout", target),
        "redirect_stderr": lambda target: Redirect("stderr", target),
    }


class Dataclasses:
    """Dataclasses of the program's own classes."""

    def __init__(self, guard: Guard) -> None:

        self._guard = guard
        self._deepcopy = Copier(guard).deepcopy

    def names(self) -> dict[str, Any]:
        """The replaced names of the module."""
        return attributes_of(self, "dataclass asdict astuple")

    def dataclass(self, cls: Any = None, /, **options: Any) -> Any:
        """The decorator, with or without arguments."""
        if cls is None:
            return lambda given: self._made(given, options)
        return self._made(cls, options)

    def _made(self, cls: type, options: dict[str, Any]) -> type:
        from dataclasses import dataclass

        if not issubclass(type(cls), type) or not self._guard.is_own_class(cls):
            raise RefusedCall("only classes that the code itself defines can be dataclasses here")
        # Python inserts the names of fields into the source of the generated methods.
        fields = getattr(cls, "__dataclass_fields__", {})
        names = [*getattr(cls, "__annotations__", {}), *fields, *(field.name for field in fields.values())]
        if not all(type(name) is str and name.isidentifier() for name in names):
            raise Refused("the fields of a dataclass must have plain names")
        check_fields(names, plain=is_plain(cls))
        return self._guard.own_class(dataclass(cls, **options))

    def asdict(self, instance: Any, *, dict_factory: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
        """Convert an object to a dictionary, recursively."""
        return self._converted(dataclass_instance("asdict", instance), dict_factory)

    def astuple(self, instance: Any, *, tuple_factory: Callable[[list[Any]], Any] = tuple) -> Any:
        """Convert an object to a tuple, recursively."""
        return self._converted(
            dataclass_instance("astuple", instance), lambda pairs: tuple_factory([value for _, value in pairs])
        )

    def _converted(self, value: Any, of_object: Callable[[list[tuple[str, Any]]], Any]) -> Any:
        from dataclasses import fields, is_dataclass

        kind: Any = type(value)
        if is_dataclass(kind):
            pairs = [(field.name, getattr(value, field.name)) for field in fields(kind)]
            return of_object([(name, self._converted(found, of_object)) for name, found in pairs])
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return kind(*[self._converted(item, of_object) for item in value])
        if kind in {list, tuple, set, frozenset}:
            return kind(self._converted(item, of_object) for item in value)
        if kind is dict:
            return {self._converted(key, of_object): self._converted(item, of_object) for key, item in value.items()}
        return self._deepcopy(value)


def dataclass_instance(function: str, value: Any) -> Any:
    """Return the value if it is an instance of a dataclass."""
    from dataclasses import is_dataclass

    if not is_dataclass(type(value)):
        raise TypeError(f"{function}() should be called on dataclass instances")
    return value


def _operator(guard: Guard) -> dict[str, Any]:
    def attrgetter(*names: str) -> Callable[[Any], Any]:
        """Create a function that reads attributes, each a name or a dotted path."""
        if not all(type(name) is str for name in names):
            raise TypeError("attribute name must be a string")

        def read(value: Any, path: str) -> Any:
            for name in path.split("."):
                value = guard.read_by_text(value, name)
            return value

        if len(names) == 1:
            return lambda value: read(value, names[0])
        return lambda value: tuple(read(value, name) for name in names)

    def methodcaller(name: str, /, *arguments: Any, **keywords: Any) -> Callable[[Any], Any]:
        """Create a function that calls a method."""
        return lambda value: guard.read_by_text(value, name)(*arguments, **keywords)

    return {"attrgetter": attrgetter, "methodcaller": methodcaller}


def _sys(streams: Streams) -> dict[str, Any]:
    import sys

    def setrecursionlimit(limit: int) -> None:
        """Set the recursion limit, up to what the process can handle."""
        sys.setrecursionlimit(min(limit, MAX_RECURSION))

    return {"argv": [""], "exit": exit_program, "setrecursionlimit": setrecursionlimit, **vars(streams)}


def system_facade(guard: Guard, streams: Streams) -> type[Facade]:
    """Create the facade class of `sys`, whose `stdout` and `stderr` are the current output streams and can be set."""

    class SystemFacade(Facade):
        """A facade with two writable names."""

        def __init__(self, module: str, values: dict[str, Any]) -> None:
            super().__init__(module, {name: value for name, value in values.items() if name not in vars(streams)})

        def __getattr__(self, name: str) -> Any:
            return vars(streams)[name] if name in vars(streams) else super().__getattr__(name)

        def __setattr__(self, name: str, value: object) -> None:
            if name in vars(streams):
                setattr(streams, name, value)
            else:
                super().__setattr__(name, value)

        def __delattr__(self, name: str) -> None:
            super().__setattr__(name, None)

    guard.allow_setting(SystemFacade, frozenset(vars(streams)))
    return SystemFacade


def _traceback(streams: Streams) -> dict[str, Any]:
    import sys

    def format_exc() -> str:
        """Format the exception being handled, with the lines of the program that led to it."""
        error = sys.exception()
        if error is None:
            return "NoneType: None\n"
        lines = ["Traceback (most recent call last):", *("  " + line for line in own_lines(error))]
        return "\n".join([*lines, f"{type(error).__name__}: {error}"]) + "\n"

    def print_exc() -> None:
        """Print the exception being handled to standard error."""
        streams.stderr.write(format_exc())

    return {"format_exc": format_exc, "print_exc": print_exc}


def _typing(guard: Guard) -> dict[str, Any]:
    import typing

    def get_origin(alias: Any) -> Any:
        """Return the class behind an alias such as `list[int]`."""
        origin = typing.get_origin(alias)
        return guard.type if origin is builtins.type else origin

    def get_args(alias: Any) -> tuple[Any, ...]:
        """Return the type arguments of an alias."""
        return tuple(guard.type if part is builtins.type else part for part in typing.get_args(alias))

    return {"get_args": get_args, "get_origin": get_origin}


Stdout = Callable[[], Any]  # returns the program's current standard output


def printer_base() -> Any:
    """Create the class of the printers that PrettyPrinter wraps."""
    import pprint as python

    class Printer(python.PrettyPrinter):
        """Python's PrettyPrinter, which calls back the program's printer to format a single value."""

        def __init__(self, write: Callable[..., Any], *options: Any, **named: Any) -> None:
            super().__init__(*options, **named)
            self._write = write

        def format(self, *arguments: Any) -> Any:
            """Return the text of one value, whether it is readable, and whether it is recursive."""
            return self._write(*arguments)

    return Printer


def printer_class(stdout: Stdout) -> type:
    """Create the class PrettyPrinter."""
    import pprint as python

    base = printer_base()

    class PrettyPrinter:
        """Wraps a printer instead of subclassing one: Python's class passes internal objects to its subclasses."""

        __slots__ = ("_printer", "_target")

        def __init__(
            self, indent: int = 1, width: int = 80, depth: int | None = None, stream: Any = None, **options: Any
        ) -> None:
            self._target = stdout() if stream is None else stream
            self._printer = base(self.format, indent, width, depth, self._target, **options)

        def pprint(self, value: Any) -> None:
            """Print a value."""
            self._target.write(self.pformat(value) + "\n")

        def pformat(self, value: Any) -> str:
            """Format a value."""
            return str(self._printer.pformat(value))

        def isreadable(self, value: Any) -> bool:
            """Whether the formatted text can be evaluated."""
            return bool(self._printer.isreadable(value))

        def isrecursive(self, value: Any) -> bool:
            """Whether the value contains itself."""
            return bool(self._printer.isrecursive(value))

        def format(self, *arguments: Any) -> Any:
            """Format a single value; programs can override this."""
            return python.PrettyPrinter.format(self._printer, *arguments)

    return PrettyPrinter


def pprint_functions(stdout: Stdout) -> dict[str, Any]:
    """The class and the printing functions of `pprint`, which takes longer to import than the rest of the guard."""
    import pprint as python

    def pprint(value: Any, stream: Any = None, **options: Any) -> None:
        """Print a value, over several lines if it is long."""
        (stream or stdout()).write(python.pformat(value, **options) + "\n")

    def pp(value: Any, stream: Any = None, *, sort_dicts: bool = False, **options: Any) -> None:
        """Like `pprint`, with dictionaries in insertion order."""
        pprint(value, stream, sort_dicts=sort_dicts, **options)

    return {"PrettyPrinter": printer_class(stdout), "pprint": pprint, "pp": pp}


ACTIONS = words("always default error ignore module once")
HINT = "the code's own warnings are filtered by their class only"


class Warnings:
    """The warnings of one run. Python's own warnings are filtered by Python and do not appear here."""

    __slots__ = ("_filters", "_record", "_streams")

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._filters: list[tuple[str, Any]] = []
        self._record: list[Any] | None = None

    def names(self) -> dict[str, Any]:
        """The replaced names of the module."""
        return attributes_of(self, "catch_warnings filterwarnings resetwarnings simplefilter warn")

    def warn(self, message: Any, category: Any = None, *_: object, **__: object) -> None:
        """Issue a warning from a text and a category, or from a Warning object."""
        kind = type(message) if isinstance(message, Warning) else category or UserWarning
        if not issubclass(type(kind), type) or not issubclass(kind, Warning):
            raise TypeError(f"category must be a Warning subclass, not {category!r}")
        warning = message if isinstance(message, Warning) else kind(message)
        action = next((action for action, filtered in self._filters if issubclass(kind, filtered)), "default")
        if action == "error":
            raise warning
        if action != "ignore" and self._record is not None:
            self._record.append(SimpleNamespace(message=warning, category=kind))
        elif action != "ignore":
            self._streams.stderr.write(f"{kind.__name__}: {warning}\n")

    def simplefilter(self, action: str, category: Any = Warning, *_: object, append: bool = False) -> None:
        """Set the action for a category of warnings."""
        if action not in ACTIONS:
            raise AssertionError(f"invalid action: {action!r}")
        self._filters.insert(len(self._filters) if append else 0, (action, category))

    def filterwarnings(self, action: str, message: str = "", category: Any = Warning, module: str = "") -> None:
        """Like `simplefilter`; filtering by text or module is not supported."""
        if message or module:
            raise RefusedCall("warnings cannot be filtered by their text or module here", HINT)
        self.simplefilter(action, category)

    def resetwarnings(self) -> None:
        """Remove all filters."""
        self._filters.clear()

    def catch_warnings(self, *, record: bool = False) -> Any:
        """Limit filters to a `with` block; with `record`, it returns the list of the warnings issued inside."""
        return Catching(self, record=record)

    def exchange(self, state: tuple[list[tuple[str, Any]], list[Any] | None]) -> Any:
        """Set filters and record; returns the previous ones."""
        before = self._filters, self._record
        self._filters, self._record = state
        return before


class Catching:
    """The context manager of `catch_warnings`."""

    __slots__ = ("_before", "_wants_record", "_warnings")

    def __init__(self, warnings: Warnings, *, record: bool) -> None:
        self._warnings = warnings
        self._wants_record = record
        self._before: list[Any] = []

    def __enter__(self) -> list[Any] | None:
        filters, record = state = self._warnings.exchange(([], None))
        self._before.append(state)
        recorded: list[Any] | None = [] if self._wants_record else None
        self._warnings.exchange((list(filters), record if recorded is None else recorded))
        return recorded

    def __exit__(self, *_: object) -> None:
        self._warnings.exchange(self._before.pop())
