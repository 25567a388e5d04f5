"""How is `str.format` done without letting a template walk through attributes?"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

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
