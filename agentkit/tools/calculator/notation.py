"""How does an expression look: its tokens, and one spelling for each of them.

Typographic signs, other digits and small words become the operators of a keyboard, where they have one meaning.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from agentkit.errors import ToolError

MAX_TOKENS = 500

UNDERSTOOD = (
    "understood are numbers, + - * / // % **, parentheses, pi, e, tau and functions such as "
    "sqrt, round, log, sin, max, mean and factorial"
)

ROOTS = {"√": "sqrt", "∛": "cbrt", "square root of": "sqrt", "cube root of": "cbrt"}

_WORDS = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "multiplied by": "*",
    "divided by": "/",
    "to the power of": "**",
    "modulo": "mod",
    "squared": "²",
    "cubed": "³",
    "percent": "percent",
    "of": "of",
    "the square root of": "square root of",
    "square root of": "square root of",
    "the cube root of": "cube root of",
    "cube root of": "cube root of",
}

_SIGNS = str.maketrans(
    {
        "\N{MULTIPLICATION SIGN}": "*",
        "\N{MULTIPLICATION X}": "*",
        "\N{ASTERISK OPERATOR}": "*",
        "\N{DOT OPERATOR}": "*",
        "\N{MIDDLE DOT}": "*",
        "\N{DIVISION SIGN}": "/",
        "\N{DIVISION SLASH}": "/",
        "\N{FRACTION SLASH}": "/",
        "\N{MINUS SIGN}": "-",
        "\N{EN DASH}": "-",
    }
)

_SUPERSCRIPT_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPTS = str.maketrans(f"{_SUPERSCRIPT_DIGITS}⁻", "0123456789-")

_TOKEN = re.compile(
    rf"""[ \t]*(?:
    (?P<number>0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+|(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<operator>\*\*|//|<<|>>|!(?!=)|[-+*/%&|~(),\[\]√∛])
  | (?P<caret>\^)
  | (?P<superscript>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)
  | (?P<times>(?<=[\d)%]\ )[xX](?=\ [\d(]))
  | (?P<words>\b(?i:{"|".join(words.replace(" ", "[ ]+") for words in _WORDS)})\b)
  | (?P<name>(?:math\.(?=[a-z]))?[A-Za-z_][A-Za-z0-9_]*|[πτ])
  | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)

_STRANGERS = {
    **dict.fromkeys("'\"`", "text in quotes is not a number"),
    **dict.fromkeys("=:;", "give one expression, without assignments, equations or keyword arguments"),
    **dict.fromkeys("<>!≤≥≠≈", "comparisons do not give a number"),
    **dict.fromkeys("$€£¥₫", "leave out the currency sign"),
    **dict.fromkeys("½⅓⅔¼¾", "write a fraction as in 1/2"),
    **dict.fromkeys("\n\r", "give one expression on one line"),
    ".": "a point may only stand inside a number",
    "°": "write radians(30) for an angle of 30 degrees",
}


class Token(NamedTuple):
    """A piece of an expression: its kind, its one spelling, and where it stood."""

    kind: str
    text: str
    start: int
    end: int


_SPELLINGS: dict[str, Callable[[str], str]] = {
    "words": lambda text: _WORDS[" ".join(text.lower().split())],
    "name": lambda text: text.removeprefix("math."),
    "caret": lambda _: "**",
    "times": lambda _: "*",
}
"""The one spelling of what has several: a word, a caret, a cross."""


def exponent(token: Token) -> int | None:
    """The power that a superscript stands for, None for any other token."""
    text = token.text
    return None if text.isascii() or text[-1] not in _SUPERSCRIPT_DIGITS else int(text.translate(_SUPERSCRIPTS))


def _plain(text: str) -> str:
    """The same text, character by character, with typographic signs and digits as a keyboard writes them."""
    if text.isascii():
        return text
    return "".join(_plain_character(character) for character in text.translate(_SIGNS))


def _plain_character(character: str) -> str:
    if "\uff01" <= character <= "\uff5e":
        return chr(ord(character) - 0xFEE0)
    if unicodedata.category(character) == "Zs":
        return " "
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


def tokens_of(text: str) -> list[Token]:
    """The text as tokens, the last of kind `end`."""
    text = _plain(text)
    tokens: list[Token] = []
    position, kind = 0, ""
    while kind != "end":
        match = _TOKEN.match(text, position)
        if match is None:
            raise _stranger(text, position)
        if len(tokens) > MAX_TOKENS:
            raise ToolError(f"The expression has more than {MAX_TOKENS} numbers, names and operators.")
        kind = match.lastgroup or "end"
        start, position = match.span(kind)
        piece, spell = text[start:position], _SPELLINGS.get(kind)
        tokens.append(Token(kind, spell(piece) if spell else piece, start, position))
    return tokens


def _stranger(text: str, position: int) -> ToolError:
    """The error for what no token begins with: a foreign word, a sign of another language, a line break."""
    position += len(text[position:]) - len(text[position:].lstrip(" \t"))
    words = re.finditer(r"[^\W\d_]+", text)
    shown = next((word[0] for word in words if word.start() <= position < word.end()), text[position])
    reason = _STRANGERS.get(text[position], UNDERSTOOD)
    return ToolError(f"{shown[:40]!r} at character {position + 1} is not understood: {reason}.")
