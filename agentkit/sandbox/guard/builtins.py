"""Built-in functions and string formatting for guarded code."""

import builtins
from collections.abc import Callable
from typing import Any, NoReturn

from agentkit.sandbox.guard.attributes import Guard, class_builder
from agentkit.sandbox.guard.errors import RefusedAttribute, RefusedCall
from agentkit.sandbox.guard.module_facades import import_for_python
from agentkit.sandbox.guard.name_rules import is_dunder, words

Write = Callable[[str, str], object]

# Their arguments are values and functions of the program: they access no attributes by name and create no code.
PLAIN = words(
    """
    abs aiter all anext any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate
    filter float format frozenset hash hex id int isinstance issubclass iter len list map max memoryview min next
    object oct ord pow property range repr reversed round set slice sorted staticmethod str sum super tuple zip
    None True False Ellipsis NotImplemented __debug__
    """
)
REFUSED = {
    "open": "files are read with the read_file tool and written with the write_file tool",
    "input": "nobody can be asked: write the value into the code",
    "eval": "write the expression into the code, or read values with json.loads, int or float",
    "exec": "write the statements into the code",
    "compile": "write the code itself, not a string of it",
    "globals": "use a dictionary",
    "locals": "use a dictionary",
    "breakpoint": "use print",
    "help": "use print",
}


class Stream:
    """Replacement for `sys.stdout` or `sys.stderr`."""

    __slots__ = ("_stream", "_write", "name")

    encoding = "utf-8"

    def __init__(self, name: str, write: Write) -> None:
        self.name = f"<{name}>"
        self._stream = name
        self._write = write

    def write(self, text: str) -> int:
        """Write the text and return its number of characters."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._write(self._stream, str.__str__(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Do nothing: output is not buffered."""

    def isatty(self) -> bool:
        """Return False."""
        return False


class Streams:
    """The targets of print; `redirect_stdout` can replace them temporarily."""

    def __init__(self, write: Write) -> None:
        self.stdout: Any = Stream("stdout", write)
        self.stderr: Any = Stream("stderr", write)


def make_builtins(guard: Guard, streams: Streams) -> dict[str, Any]:
    """Create the dictionary of built-in names for one run."""
    offered = {name: getattr(builtins, name) for name in PLAIN}
    offered.update(
        (name, value)
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    )
    for value in offered.values():
        guard.register(value)
    offered.update((name, refused_function(name, hint)) for name, hint in REFUSED.items())
    functions = AttributeFunctions(guard)
    offered.update((name, getattr(functions, name)) for name in words("getattr hasattr setattr delattr vars dir"))
    offered["print"] = make_print(guard, streams)
    offered["exit"] = offered["quit"] = exit_program
    offered["type"] = guard.type
    offered["__build_class__"] = class_builder(guard)
    offered["__import__"] = import_for_python
    return offered


def refused_function(name: str, hint: str) -> Callable[..., NoReturn]:
    """Create a function that explains why it is not available."""

    def function(*_: Any, **__: Any) -> NoReturn:
        raise RefusedCall(f"{name}() is not available here", hint)

    function.__name__ = function.__qualname__ = name
    return function


def exit_program(code: Any = None) -> NoReturn:
    """End the program."""
    raise SystemExit(code)


class AttributeFunctions:
    """The built-in functions that take attribute names or show attributes."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def getattr(self, value: Any, name: str, /, *default: Any) -> Any:
        """Return the attribute, or the default if it does not exist."""
        try:
            return self._guard.read_by_text(value, name)
        except AttributeError as error:
            if not default or (isinstance(error, RefusedAttribute) and is_dunder(name)):
                raise
            return default[0]

    def hasattr(self, value: Any, name: str, /) -> bool:
        """Whether the program can read the attribute."""
        try:
            self._guard.read(value, name)
        except AttributeError:
            return False
        return True

    def setattr(self, target: Any, name: str, value: Any, /) -> None:
        """Set an attribute."""
        self._guard.check_set(target, name)
        setattr(target, name, value)

    def delattr(self, target: Any, name: str, /) -> None:
        """Remove an attribute."""
        self._guard.check_set(target, name)
        delattr(target, name)

    def vars(self, *values: Any) -> Any:
        """Return the attributes of an object."""
        if not values:
            raise RefusedCall("vars() without an object is not available here", "use a dictionary")
        (value,) = values
        return self._guard.read(value, "__dict__")

    def dir(self, *values: Any) -> list[str]:
        """Return the public names of an object."""
        if not values:
            raise RefusedCall("dir() without an object is not available here", "use a dictionary")
        (value,) = values
        return sorted(name for name in dir(value) if not name.startswith("_"))


def make_print(guard: Guard, streams: Streams) -> Callable[..., None]:
    """Create the function `print`."""

    def print(
        *values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False
    ) -> None:
        for name, given in (("sep", sep), ("end", end)):
            if not isinstance(given, str | None):
                raise TypeError(f"{name} must be None or a string, not {type(given).__name__}")
        target = streams.stdout if file is None else file
        write = guard.read(target, "write")
        between, last = " " if sep is None else sep, "\n" if end is None else end
        if type(target) is Stream:
            write(str.join(between, map(str, values)) + str.__str__(last))
        else:  # a stream of the program receives each piece separately, as in Python
            for number, value in enumerate(values):
                if number:
                    write(between)
                write(str(value))
            write(last)
        if flush:
            guard.read(target, "flush")()

    return print
