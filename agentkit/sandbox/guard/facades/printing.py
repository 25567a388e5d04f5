"""What does a program's own `pprint` do? It prints where the program prints, and shows none of its workings."""

import pprint as python
from collections.abc import Callable
from typing import Any

Stdout = Callable[[], Any]  # where the program prints at that moment


class Printer(python.PrettyPrinter):
    """Python's own, which asks the one that the program holds how a single value is written."""

    def __init__(self, write: Callable[..., Any], *options: Any, **named: Any) -> None:
        super().__init__(*options, **named)
        self._write = write

    def format(self, *arguments: Any) -> Any:
        """The text of one value, whether it can be read back, and whether it holds itself."""
        return self._write(*arguments)


def printer_class(stdout: Stdout) -> type:
    """The class of printers."""

    class PrettyPrinter:
        """Has a printer and derives from none, as Python's own hand their inner objects to whoever does."""

        __slots__ = ("_printer", "_target")

        def __init__(
            self, indent: int = 1, width: int = 80, depth: int | None = None, stream: Any = None, **options: Any
        ) -> None:
            self._target = stdout() if stream is None else stream
            self._printer = Printer(self.format, indent, width, depth, self._target, **options)

        def pprint(self, value: Any) -> None:
            """Print one value."""
            self._target.write(self.pformat(value) + "\n")

        def pformat(self, value: Any) -> str:
            """The text that is printed."""
            return self._printer.pformat(value)

        def isreadable(self, value: Any) -> bool:
            """Whether the text can be read back."""
            return self._printer.isreadable(value)

        def isrecursive(self, value: Any) -> bool:
            """Whether the value holds itself."""
            return self._printer.isrecursive(value)

        def format(self, *arguments: Any) -> Any:
            """How a single value is written: a program may have its own way."""
            return python.PrettyPrinter.format(self._printer, *arguments)

    return PrettyPrinter


def printing(stdout: Stdout) -> dict[str, Any]:
    """The functions that print."""

    def pprint(value: Any, stream: Any = None, **options: Any) -> None:
        """Print one value, over several lines if it is long."""
        (stream or stdout()).write(python.pformat(value, **options) + "\n")

    def pp(value: Any, stream: Any = None, *, sort_dicts: bool = False, **options: Any) -> None:
        """The same, with dictionaries in the order they have."""
        pprint(value, stream, sort_dicts=sort_dicts, **options)

    return {"pprint": pprint, "pp": pp}
