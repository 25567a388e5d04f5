"""What do facades hand out instead of functions that follow attribute names, or build what they are told?"""

import builtins
from collections.abc import Callable
from typing import Any

from agentkit.sandbox.guard.attributes import MAIN, Guard
from agentkit.sandbox.guard.classes import check_fields, is_plain
from agentkit.sandbox.guard.ending import Refused, RefusedCall, own_lines
from agentkit.sandbox.guard.facades import packing
from agentkit.sandbox.guard.facades.decorating import Functools
from agentkit.sandbox.guard.facades.enumerations import enumerations
from agentkit.sandbox.guard.facades.modules import Facade
from agentkit.sandbox.guard.functions import Streams, leave
from agentkit.sandbox.guard.likeness import Kind

HIGHEST_RECURSION = 20_000


def substitutes(guard: Guard, streams: Streams) -> dict[str, Callable[[], dict[str, Any]]]:
    """For each module that needs some: what makes its guarded names, when it is first imported."""
    return {
        "abc": _abc,
        "ast": _ast,
        "asyncio": lambda: _asyncio(guard),
        "bz2": lambda: packing.packed("bz2"),
        "calendar": lambda: _calendar(streams),
        "codecs": packing.codecs_names,
        "contextlib": lambda: _contextlib(streams),
        "copy": lambda: _copy(guard),
        "dataclasses": lambda: Dataclasses(guard).names(),
        "decimal": lambda: _decimal(guard),
        "enum": lambda: enumerations(MAIN, guard.let_stand),
        "functools": lambda: Functools(guard).names(),
        "gzip": packing.gzip_names,
        "lzma": lambda: packing.packed("lzma"),
        "operator": lambda: _operator(guard),
        "pprint": lambda: _pprint(streams),
        "sys": lambda: _sys(streams),
        "textwrap": lambda: _textwrap(guard),
        "tomllib": packing.tomllib_names,
        "traceback": lambda: _traceback(streams),
        "types": lambda: _types(guard),
        "typing": lambda: _typing(guard),
        "warnings": lambda: _warnings(streams),
    }


def _decimal(guard: Guard) -> dict[str, Any]:
    from decimal import Context

    guard.let_set(Context)
    return {}


def _textwrap(guard: Guard) -> dict[str, Any]:
    from textwrap import TextWrapper

    guard.let_set(TextWrapper)
    return {}


def _abc() -> dict[str, Any]:
    from abc import ABCMeta

    return {"ABCMeta": Kind(ABCMeta)}


def _ast() -> dict[str, Any]:
    import ast

    def literal_eval(text: str, /) -> Any:
        """The value of a literal: a text only, as a tree may hold objects of the program."""
        if not isinstance(text, str):
            raise TypeError(f"literal_eval() takes a text here, not a {type(text).__name__!r}")
        return ast.literal_eval(str.__str__(text))

    return {"literal_eval": literal_eval}


def _asyncio(guard: Guard) -> dict[str, Any]:
    from agentkit.sandbox.guard.facades.tasks.coroutines import Coroutines

    return Coroutines(guard).names()


def _calendar(streams: Streams) -> dict[str, Any]:
    import calendar

    class TextCalendar(calendar.TextCalendar):
        """Python's own, which prints where the program prints."""

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
        """Sends what is printed elsewhere while it lasts."""

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


def _copy(guard: Guard) -> dict[str, Any]:
    from agentkit.sandbox.guard.facades.copying import Copier

    copier = Copier(guard)
    return {"copy": copier.copy, "deepcopy": copier.deepcopy}


class Dataclasses:
    """Dataclasses of the program's own classes."""

    def __init__(self, guard: Guard) -> None:
        from agentkit.sandbox.guard.facades.copying import Copier

        self._guard = guard
        self._deepcopy = Copier(guard).deepcopy

    def names(self) -> dict[str, Any]:
        """What the module hands out."""
        return {"dataclass": self.dataclass, "asdict": self.asdict, "astuple": self.astuple}

    def dataclass(self, cls: Any = None, /, **options: Any) -> Any:
        """The decorator, with or without arguments."""
        if cls is None:
            return lambda given: self._made(given, options)
        return self._made(cls, options)

    def _made(self, cls: type, options: dict[str, Any]) -> type:
        from dataclasses import dataclass

        if not issubclass(type(cls), type) or not self._guard.is_own_class(cls):
            raise RefusedCall("only classes that the code itself defines can be dataclasses here")
        # Python pastes the names of fields into the source of the methods that it makes.
        names = [*getattr(cls, "__annotations__", {}), *getattr(cls, "__dataclass_fields__", {})]
        names += [field.name for field in fields_of(cls)]
        if not all(type(name) is str and name.isidentifier() for name in names):
            raise Refused("the fields of a dataclass must have plain names")
        check_fields(names, plain=is_plain(cls))
        return self._guard.own_class(dataclass(cls, **options))

    def asdict(self, instance: Any, *, dict_factory: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
        """The fields and their values, all the way down."""
        return self._converted(dataclass_instance("asdict", instance), dict_factory)

    def astuple(self, instance: Any, *, tuple_factory: Callable[[list[Any]], Any] = tuple) -> Any:
        """The values of the fields, all the way down."""
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


def fields_of(cls: type) -> list[Any]:
    """The fields that a class has or inherits."""
    return [*getattr(cls, "__dataclass_fields__", {}).values()]


def dataclass_instance(function: str, value: Any) -> Any:
    """The value, if it is an object of a dataclass."""
    from dataclasses import is_dataclass

    if not is_dataclass(type(value)):
        raise TypeError(f"{function}() should be called on dataclass instances")
    return value


def _operator(guard: Guard) -> dict[str, Any]:
    def attrgetter(*names: str) -> Callable[[Any], Any]:
        """A function that reads attributes, each a name or a dotted path."""
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
        """A function that calls a method."""
        return lambda value: guard.read_by_text(value, name)(*arguments, **keywords)

    return {"attrgetter": attrgetter, "methodcaller": methodcaller}


def _pprint(streams: Streams) -> dict[str, Any]:
    from agentkit.sandbox.guard.facades.printing import printer_class, printing

    def stdout() -> Any:
        return streams.stdout

    return {"PrettyPrinter": printer_class(stdout), **printing(stdout)}


def _sys(streams: Streams) -> dict[str, Any]:
    import sys

    def setrecursionlimit(limit: int) -> None:
        """Allow deeper recursion, as far as the process can bear it."""
        sys.setrecursionlimit(min(limit, HIGHEST_RECURSION))

    return {
        "argv": [""],
        "exit": leave,
        "setrecursionlimit": setrecursionlimit,
        **vars(streams),
    }


def system_facade(guard: Guard, streams: Streams) -> type[Facade]:
    """The class of `sys`, whose `stdout` and `stderr` are where the program prints at that moment, and can be set."""

    class SystemFacade(Facade):
        """A facade with two names that live."""

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

    guard.let_set(SystemFacade, frozenset(vars(streams)))
    return SystemFacade


def _traceback(streams: Streams) -> dict[str, Any]:
    import sys

    def format_exc() -> str:
        """The error that is being handled, with the lines of the program that led to it."""
        error = sys.exception()
        if error is None:
            return "NoneType: None\n"
        lines = ["Traceback (most recent call last):", *("  " + line for line in own_lines(error))]
        return "\n".join([*lines, f"{type(error).__name__}: {error}"]) + "\n"

    def print_exc() -> None:
        """Print it to standard error."""
        streams.stderr.write(format_exc())

    return {"format_exc": format_exc, "print_exc": print_exc}


def _warnings(streams: Streams) -> dict[str, Any]:
    from agentkit.sandbox.guard.facades.warned import Warnings

    def show(text: str) -> None:
        streams.stderr.write(text)

    return Warnings(show).names()


def _types(guard: Guard) -> dict[str, Any]:
    import types

    return {
        name: guard.likeness(getattr(types, name)) for name in ("BuiltinFunctionType", "GeneratorType", "MethodType")
    }


def _typing(guard: Guard) -> dict[str, Any]:
    import typing

    def get_origin(alias: Any) -> Any:
        """The class behind `list[int]`."""
        origin = typing.get_origin(alias)
        return guard.type if origin is builtins.type else origin

    def get_args(alias: Any) -> tuple[Any, ...]:
        """The classes between the brackets."""
        return tuple(guard.type if part is builtins.type else part for part in typing.get_args(alias))

    return {"get_args": get_args, "get_origin": get_origin}
