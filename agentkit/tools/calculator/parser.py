"""Tokenizer and parser of the calculator.

Parses the tokens in one pass by operator precedence. Ambiguous notation is refused, naming both readings; it never
silently yields another value.

Typographic signs, other digits and words are converted to ASCII operators where they are unambiguous.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from agentkit.errors import ToolError
from agentkit.tools.calculator.evaluator import CONSTANTS, FUNCTIONS, Number, call, format_number, negate, operate

MAX_TOKENS = 500

SUPPORTED_SYNTAX = (
    "the calculator accepts numbers, + - * / // % **, parentheses, pi, e, tau and functions such as "
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
    "the square root of": "square root of",
    "the cube root of": "cube root of",
    **{word: word for word in ("percent", "of", "square root of", "cube root of")},
}

_SIGN_SPELLINGS = str.maketrans(
    {
        **dict.fromkeys("\u00d7\u2715\u2217\u22c5\u00b7", "*"),  # crosses, asterisks and dots
        **dict.fromkeys("\u00f7\u2215\u2044", "/"),
        **dict.fromkeys("\u2212\u2013", "-"),
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

_CHARACTER_HINTS = {
    **dict.fromkeys("'\"`", "text in quotes is not a number"),
    **dict.fromkeys("=:;", "give one expression, without assignments, equations or keyword arguments"),
    **dict.fromkeys("<>!≤≥≠≈", "comparisons do not give a number"),
    **dict.fromkeys("$€£¥₫", "leave out the currency sign"),
    **dict.fromkeys("½⅓⅔¼¾", "write a fraction as in 1/2"),
    **dict.fromkeys("\n\r", "give one expression on one line"),
    ".": "a decimal point is only allowed inside a number",
    "°": "write radians(30) for an angle of 30 degrees",
}


class Token(NamedTuple):
    """A token of an expression: its kind, normalised text, and position."""

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
"""Normalisation of tokens with several spellings: words, a caret, a cross."""


def exponent(token: Token) -> int | None:
    """Return the exponent that a superscript denotes, None for any other token."""
    text = token.text
    return None if text.isascii() or text[-1] not in _SUPERSCRIPT_DIGITS else int(text.translate(_SUPERSCRIPTS))


def _to_ascii(text: str) -> str:
    """Convert typographic signs and digits to ASCII, character by character."""
    if text.isascii():
        return text
    plain = []
    for character in text.translate(_SIGN_SPELLINGS):
        digit = unicodedata.decimal(character, None)
        if "\uff01" <= character <= "\uff5e":
            plain.append(chr(ord(character) - 0xFEE0))
        elif unicodedata.category(character) == "Zs":
            plain.append(" ")
        else:
            plain.append(character if digit is None else str(digit))
    return "".join(plain)


def tokenize(text: str) -> list[Token]:
    """Tokenise the text; the last token has the kind `end`."""
    text = _to_ascii(text)
    tokens: list[Token] = []
    position, kind = 0, ""
    while kind != "end":
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unexpected_character(text, position)
        if len(tokens) > MAX_TOKENS:
            raise ToolError(f"The expression has more than {MAX_TOKENS} numbers, names and operators.")
        kind = match.lastgroup or "end"
        start, position = match.span(kind)
        piece, spell = text[start:position], _SPELLINGS.get(kind)
        tokens.append(Token(kind, spell(piece) if spell else piece, start, position))
    return tokens


def _unexpected_character(text: str, position: int) -> ToolError:
    """Return the error for a character that starts no token: an unknown word or sign, a line break."""
    position += len(text[position:]) - len(text[position:].lstrip(" \t"))
    words = re.finditer(r"[^\W\d_]+", text)
    shown = next((word[0] for word in words if word.start() <= position < word.end()), text[position])
    reason = _CHARACTER_HINTS.get(text[position], SUPPORTED_SYNTAX)
    return ToolError(f"{shown[:40]!r} at character {position + 1} is not understood: {reason}.")


MAX_CHARS = 1_000
MAX_DEPTH = 50

_PRECEDENCE = {
    symbol: precedence
    for precedence, symbols in {1: "|", 2: "&", 3: "<< >>", 4: "+ -", 5: "* / // % mod", 6: "of", 8: "**"}.items()
    for symbol in symbols.split()
}
_SIGN_PRECEDENCE = 7
_RIGHT_PRECEDENCE = {"**": 7, "of": 5}  # lower than on the left: 2**3**2 is 2**9, 50% of 10% of 80 is 4

_SIGNS = ("+", "-", "~")
_POSTFIX = ("!", "percent", "%")
_ZERO_AHEAD = re.compile(r"0_?\d")
_WHOLE = re.compile(r"0[xob].*|[\d_]+", re.IGNORECASE)
_NOT_ZERO = re.compile(r"[0._]*[1-9]")
_UNCLEAR_BEFORE_PRODUCT = ("/", "//", "%", "mod", "of", "**", *ROOTS)
_COMMA = (
    "This comma is not allowed: write 1000 or 1,000 for thousands, 1.5 for decimals, "
    "commas only between the arguments of a function, and a list in square brackets."
)

_SINGLE_ARGUMENT_FUNCTIONS = frozenset({"log", "round", "sum", "fsum", "prod", "mean", "avg", "average", "median"})
"""Functions of several arguments in which a single number with commas is one argument."""

_NO_NAMES = {
    **dict.fromkeys(("inf", "infinity", "nan"), "only finite numbers are computed"),
    **dict.fromkeys(("i", "j"), "only real numbers are computed"),
    "x": "variables are not supported, and multiplication is written *",
}


class _Percent(NamedTuple):
    """A percentage, kept distinct from its value: after a plus, 10% does not simply mean 0.1."""

    rate: Number


_Value = Number | _Percent
_Item = TypeVar("_Item")


def calculate(expression: str, notes: list[str] | None = None) -> Number:
    """Evaluate an arithmetic expression to an exact int or a finite float.

    `notes` receives a sentence for each comma that could have been read in another way. Raises ToolError with one
    sentence that names the offending part. Time and memory are bounded by limits on the input (1,000 characters, 500
    tokens, 50 levels) and on results (10,000 bits).
    """
    if not isinstance(expression, str):
        raise ToolError(f"The expression must be text, not {type(expression).__name__}.")
    if len(expression) > MAX_CHARS:
        raise ToolError(f"The expression has {len(expression):,} characters; at most {MAX_CHARS:,} are read.")
    return _Parser(tokenize(expression.strip()), [] if notes is None else notes).read()


class _Parser:
    """Parses the tokens once, from left to right, evaluating on the way."""

    def __init__(self, tokens: list[Token], notes: list[str]) -> None:
        self._tokens, self._notes = tokens, notes
        self._index, self._next = 0, tokens[0]
        self._depth = 0
        self._calls: list[str] = []  # the functions whose arguments are being parsed
        self._operator = ""  # the one before the current operand

    def read(self) -> Number:
        value = self._expression(0)
        if self._next.kind != "end":
            raise self._misplaced_error(self._next)
        return _number(value)

    def _skip(self, count: int = 1) -> None:
        self._index += count
        self._next = self._tokens[self._index]

    def _advance(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._index += 1
            self._next = self._tokens[self._index]
        return token

    def _accept(self, text: str) -> bool:
        if self._next.text != text:
            return False
        self._skip()
        return True

    def _nested(self, min_precedence: int) -> _Value:
        """Parse an expression one level deeper."""
        self._deepen()
        value = self._expression(min_precedence)
        self._depth -= 1
        return value

    def _deepen(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ToolError(f"The expression is nested more than {MAX_DEPTH} levels deep.")

    def _parse_bracketed(self, closing: str, read: Callable[[], _Item]) -> _Item:
        """Parse a bracketed operand; the operator before the bracket is restored after it."""
        operator, self._operator = self._operator, ""
        self._deepen()
        value = read()
        self._depth -= 1
        self._operator = operator
        if self._next.kind == "end":
            raise ToolError(f"A {closing!r} is missing at the end of the expression.")
        if not self._accept(closing):
            raise self._misplaced_error(self._next)
        return value

    def _expression(self, min_precedence: int) -> _Value:
        """Parse a value and all following operators that bind tighter than `min_precedence`."""
        left = self._operand()
        while True:
            symbol = self._next.text
            implicit = symbol not in _PRECEDENCE and self._multiplies_implicitly()
            if implicit:
                symbol = "*"
            precedence = _PRECEDENCE.get(symbol, 0)
            if precedence <= min_precedence:
                return left
            if not implicit:
                self._operator = self._advance().text
            elif self._operator in _UNCLEAR_BEFORE_PRODUCT:
                before, after = self._tokens[self._index - 1].text, self._next.text
                raise ToolError(
                    f"Multiplying {before!r} by {after!r} without a sign is unclear after {self._operator!r}: "
                    "write the * and parentheses around what belongs together."
                )
            nests = symbol in _RIGHT_PRECEDENCE
            right = self._nested(_RIGHT_PRECEDENCE[symbol]) if nests else self._expression(precedence)
            left = _combine(symbol, left, right)

    def _multiplies_implicitly(self) -> bool:
        """Whether an operand follows directly, as in 2(3 + 4), 2pi and (1 + 2)(3 + 4), but not 2e or 2 3."""
        before, token = self._tokens[self._index - 1], self._next
        if before.kind != "number" and before.text != ")":
            return False
        if token.kind == "name":
            return _is_known(token.text) and token.text not in ("e", "mod")
        return token.text == "(" or token.text in ROOTS

    def _operand(self) -> _Value:
        token = self._advance()
        if token.text in _SIGNS:
            return self._parse_signed(token.text)
        return self._root(token) if token.text in ROOTS else self._apply_postfix(self._atom(token))

    def _atom(self, token: Token) -> _Value:
        if token.kind == "number":
            return _literal(self._thousands(token) if self._next.text == "," else token.text)
        if token.kind == "name":
            return self._constant_or_call(token.text)
        if token.text != "(":
            raise self._missing_operand(token)
        return self._parse_bracketed(")", partial(self._expression, 0))

    def _parse_signed(self, sign: str) -> _Value:
        value = self._nested(_SIGN_PRECEDENCE)
        if isinstance(value, _Percent) and sign != "~":
            return _Percent(negate(sign, value.rate))
        return negate(sign, _number(value))

    def _root(self, root: Token) -> Number:
        """Parse the root of one operand. Because the reach of a root in words is ambiguous, no operator can follow."""
        self._operator = root.text
        token = self._advance()
        value = self._parse_signed(token.text) if token.text in _SIGNS else self._atom(token)
        follower, function = self._next, ROOTS[root.text]
        tighter = follower.text in _POSTFIX or exponent(follower) is not None
        if tighter or (root.kind == "words" and follower.text in _PRECEDENCE):
            raise ToolError(
                f"How far {root.text!r} reaches before {follower.text!r} is unclear: write {function}(...)."
            )
        return call(function, [_number(value)])

    def _apply_postfix(self, value: _Value) -> _Value:
        """Apply postfix operators to an operand: 5!, 3², 3 squared, 15%."""
        while True:
            token = self._next
            if token.text not in _POSTFIX and token.text.isascii():
                return value
            if token.text == "!" and self._tokens[self._index - 1].text != "!":
                value = call("factorial", [_number(value)])
            elif (power := exponent(token)) is not None:
                value = operate("**", _number(value), power)
            elif token.text == "percent" or (token.text == "%" and self._is_percent()):
                self._skip()
                return _Percent(_number(value))
            else:
                return value
            self._skip()

    def _is_percent(self) -> bool:
        """Whether the current `%` is a percent sign; between two operands it is the modulo operator."""
        before, sign, after = self._tokens[self._index - 1 : self._index + 2]
        signed = after.text in _SIGNS
        named = after.kind == "name" and after.text not in _PRECEDENCE
        if not (signed or named or after.kind == "number" or after.text == "(" or after.text in ROOTS):
            return True
        spaces = (before.end < sign.start, sign.end < after.start)
        if spaces == (True, True) or (spaces == (False, False) and not signed):
            return False
        raise ToolError(
            f"'%' between {before.text!r} and {after.text!r} is unclear: for the remainder put a space "
            f"on both sides of it, for a percentage write {before.text}/100."
        )

    def _thousands(self, token: Token) -> str:
        """Remove thousands separators from a number; inside a call they usually separate arguments."""
        text = token.text
        if not re.fullmatch(r"[1-9]\d{0,2}", text) or (self._calls and not self._is_one_argument()):
            return text
        while "." not in text and self._groups_digits(self._index):
            text += self._tokens[self._index + 1].text
            self._skip(2)
        return text

    def _is_one_argument(self) -> bool:
        """Whether commas inside a call group the digits of one number, as in sqrt(2,500); ambiguous ones get a note.

        That is so for functions of one argument, and where the number is all that the call contains if one argument
        makes sense.
        """
        name, first = self._calls[-1], self._index - 1
        last = first
        while self._groups_digits(last + 1):
            last += 2
        if last == first or FUNCTIONS[name].max_arguments == 1:
            return last > first
        if self._tokens[first - 1].text != "(" or self._tokens[last + 1].text != ")":
            return False
        digits = [token.text for token in self._tokens[first : last + 1 : 2]]
        whole, shown = "".join(digits), ",".join(digits)
        if name in _SINGLE_ARGUMENT_FUNCTIONS:
            self._notes.append(f"{shown} was read as the number {whole}; separate arguments by a comma and a space.")
        else:
            self._notes.append(f"{shown} was read as {len(digits)} arguments; for one number write {whole}.")
        return name in _SINGLE_ARGUMENT_FUNCTIONS

    def _groups_digits(self, index: int) -> bool:
        """Whether the comma at `index` groups digits as in 1,000: without blanks, followed by three digits."""
        comma = self._tokens[index]
        if comma.text != ",":
            return False
        before, after = self._tokens[index - 1], self._tokens[index + 1]
        is_adjacent = before.end == comma.start and comma.end == after.start
        return is_adjacent and before.text.isdecimal() and re.fullmatch(r"\d{3}(\.\d*)?", after.text) is not None

    def _constant_or_call(self, name: str) -> Number:
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name not in FUNCTIONS:
            raise _unknown_name(name)
        if not self._accept("("):
            raise ToolError(f"{name!r} is a function and needs its arguments in parentheses: {name}(...).")
        self._calls.append(name)
        noted = len(self._notes)
        arguments = self._parse_bracketed(")", partial(self._parse_list, ")", self._argument))
        self._calls.pop()
        is_one = len(self._notes) > noted and len(arguments) == 1 and FUNCTIONS[name].max_arguments is None
        numbers = [each for each in arguments if not isinstance(each, list)]
        return call(name, [numbers] if is_one else arguments)

    def _argument(self) -> Number | list[Number]:
        if self._next.text != "[":
            return self._item()
        self._skip()
        return self._parse_bracketed("]", partial(self._parse_list, "]", self._item))

    def _item(self) -> Number:
        return _number(self._expression(0))

    def _parse_list(self, closing: str, read: Callable[[], _Item]) -> list[_Item]:
        """Parse comma-separated items with `read` up to the closing bracket."""
        first, items = self._index, []
        while self._next.text != closing:
            items.append(read())
            if not self._accept(","):
                break
        if len(items) > 1:
            # Refuse calls such as max(1,500, 900), which has three arguments by its commas and two by its
            # spaces
            tokens = self._tokens
            commas = [index for index in range(first, self._index) if tokens[index].text == ","]
            grouping = [index for index in commas if self._groups_digits(index)]
            if grouping and any(tokens[index].end < tokens[index + 1].start for index in commas):
                number = f"{tokens[grouping[0] - 1].text},{tokens[grouping[0] + 1].text}"
                raise ToolError(
                    f"{number!r} is ambiguous next to other commas: write numbers without thousands separators."
                )
        return items

    def _missing_operand(self, token: Token) -> ToolError:
        if token.text == "[":
            return ToolError("A list can only be passed to a function that takes one, as in sum([1, 2]).")
        if len(self._tokens) == 1:
            return ToolError(f"The expression is empty: {SUPPORTED_SYNTAX}.")
        if token.kind == "end":
            return ToolError(f"A number is missing at the end, after {self._tokens[-2].text!r}.")
        return ToolError(f"A number is missing before {token.text!r}.")

    def _misplaced_error(self, token: Token) -> ToolError:
        """Return the error for a token that cannot follow an operand: a stray bracket or comma, a second operand."""
        if token.text == ",":
            return ToolError(_COMMA)
        if token.text in (")", "]"):
            return ToolError(f"There is a {token.text!r} without the bracket that it should close.")
        if token.kind == "name" and not _is_known(token.text):
            return _unknown_name(token.text)
        before = self._tokens[self._index - 1].text
        return ToolError(f"An operator such as + or * is missing between {before!r} and {token.text!r}.")


def _is_known(name: str) -> bool:
    return name in CONSTANTS or name in FUNCTIONS


def _unknown_name(name: str) -> ToolError:
    """Return the error for an unknown name, with similar names."""
    import difflib

    low = name[:40].lower()
    reason = _NO_NAMES.get(low.rstrip("0123456789"))
    if reason:
        return ToolError(f"{name[:40]!r} is not available: {reason}.")
    known = [*FUNCTIONS, "pi", "tau"]
    close = []
    for one in known if low else ():  # names that `low` begins like, and whose letters it contains in order
        letters = iter(low)
        if len(one) > 2 and low.startswith(one[0]) and all(letter in letters for letter in one):
            close.append(one)
    close += [one for one in difflib.get_close_matches(low, known) if one not in close]
    hint = f"did you mean {' or '.join(close[:3])}?" if close else f"{SUPPORTED_SYNTAX}."
    return ToolError(f"Unknown name {name[:40]!r}: {hint}")


def _literal(text: str) -> Number:
    """Convert a number literal to int or float."""
    if text.isdecimal() and text[0] != "0":
        return int(text)
    if _ZERO_AHEAD.match(text):
        raise ToolError(f"{text!r} begins with a zero: write numbers without leading zeros and without separators.")
    if _WHOLE.fullmatch(text):
        return int(text, 0)
    number = float(text)
    if math.isinf(number):
        raise ToolError(f"{text[:40]!r} is too large: decimals stay below 1.8e308.")
    if number == 0 and _NOT_ZERO.match(text):
        raise ToolError(f"{text[:40]!r} is too small: decimals other than 0 begin at 5e-324.")
    return number


def _number(value: _Value) -> Number:
    return operate("/", value.rate, 100) if isinstance(value, _Percent) else value


def _combine(symbol: str, left: _Value, right: _Value) -> Number:
    """Compute `left symbol right`; percentages can only be multiplied and divided, other uses are ambiguous."""
    if symbol == "of" and not isinstance(left, _Percent):
        raise ToolError("'of' needs a percentage before it, as in 15% of 80.")
    if not isinstance(left, _Percent) and not isinstance(right, _Percent):
        return operate("%" if symbol == "mod" else symbol, left, right)
    if symbol not in ("*", "of", "/"):
        shown = format_number(_rate(right if isinstance(right, _Percent) else left))
        raise ToolError(f"{shown}% next to {symbol!r} is ambiguous: multiply by it, or write ({shown}/100).")
    if symbol == "/":
        return operate(
            "/", operate("*", _rate(left), _denominator(right)), operate("*", _denominator(left), _rate(right))
        )
    return operate("/", operate("*", _rate(left), _rate(right)), _denominator(left) * _denominator(right))


def _denominator(value: _Value) -> int:
    return 100 if isinstance(value, _Percent) else 1


def _rate(value: _Value) -> Number:
    return value.rate if isinstance(value, _Percent) else value
