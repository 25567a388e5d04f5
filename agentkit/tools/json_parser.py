"""JSON parsing with precise error messages and flagged repairs."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

from agentkit.errors import ToolError

MAX_CHARS = 5_000_000
MAX_DEPTH = 200
MAX_DIGITS = 4_300

_MAX_EXAMPLES = 5

_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # +1 and -1 as signed bytes
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))

_FENCE = re.compile(r"\s*```\w*[ \t]*\r?\n")

_HALF_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_ESCAPE = re.compile(
    r"(?:\\\\)+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_MANY_DIGITS, _LARGE_EXPONENT = re.compile(r"[0-9.]{18}"), re.compile(r"[eE][+-]?[0-9]{3}")
"""If neither matches, every number fits and needs no hook, which halves the parsing time."""
_LONE_CHARACTER = re.compile("[\ud800-\udfff]")

_NOTES = {
    "duplicate": "Duplicate key {examples}: the last value was used",
    "tiny": "Too small for a float and read as 0: {examples}",
    "rounded": "More digits than a float holds, so rounded: {examples}",
    "surrogate": "Half of a surrogate pair, replaced by U+FFFD: {examples}",
    "mark": "The byte order mark at the start was ignored: {examples}",
    "fence": "Repaired: the Markdown code fence around the JSON was removed: {examples}",
}

_FAULTS = {
    "Expecting value": "a value is expected",
    "Expecting property name": "a key in double quotes is expected",
    "Expecting ',' delimiter": "a comma or the closing bracket is expected",
    "Expecting ':' delimiter": "a colon is expected after the key",
    "Extra data": "the JSON document has already ended",
    "Unterminated string": "this string has no closing double quote",
    "Invalid control character": r"a control character must be escaped: \n for a line break, \t for a tab, else \u00XX",
    "Invalid \\uXXXX": r"\u needs exactly four hexadecimal digits",
    "Invalid \\escape": r"after a backslash comes one of \" \\ / b f n r t u: write two for a literal backslash",
    "Illegal trailing comma": "remove the comma before the closing bracket",
}

_REMEDIES = (
    ("", r"\Z", "close what is open, or pass the whole text"),
    ("", "['\N{LEFT SINGLE QUOTATION MARK}-\N{DOUBLE LOW-9 QUOTATION MARK}]", 'write " around keys and strings'),
    ("", r"//|/\*|#", "remove the comment: JSON has no comments"),
    ("", r"`|~~~", "remove the Markdown code fence around the JSON"),
    ("", r"\.\.\.", "leave out the dots, and give every value"),
    ("", r'\\"', "leave out the backslashes before the quotes"),
    ("", "[\u00a0\u2000-\u200b\u202f\u3000]", "write a plain space"),
    ("", r"<", "pass JSON, not HTML or XML"),
    ("", r",", "remove the comma, or give what is missing before it"),
    ("", r"[}\]]", "remove it, or give what is missing before it"),
    ("Expecting property", r"\w", "put the key in double quotes"),
    ("Expecting ':'", r"", "put a colon between key and value"),
    ("Expecting ','", r"[\[{\"\w.-]", "put a comma before it, or a backslash before a quote that belongs to the text"),
    ("Extra", r"[\[{\"\d-]", "put several documents into one list"),
    ("Extra", r"\w", "leave out the text after the JSON"),
    ("Expecting value", r"(?i:true|false|none|null)\b", "write true, false and null in lower case"),
    ("Expecting value", r"(undefined|nan|inf)\b", "write null for a missing number"),
    ("Expecting value", r"[+.-]", "write a number as in 0.5 or -2"),
    ("Expecting value", r"\w", "put words in double quotes, and leave out the text around the JSON"),
)
_TRAILING_COMMA = re.compile(r",\s*[}\]]")
_MALFORMED_NUMBER = re.compile(r"(?<=\d)[\d.eExXoObB_+-]")


class ParsedJSON(NamedTuple):
    """The value, warnings about changes made while parsing, and whether the text had to be repaired."""

    data: Any
    warnings: list[str]
    repaired: bool


def read_json(text: str) -> ParsedJSON:
    """Parse a strict JSON text (RFC 8259).

    At most 5,000,000 characters and 200 levels. NaN, Infinity, numbers beyond 1.8e308 and integers of more than 4,300
    digits are refused. Raises ToolError with line and column (both from 1) and a remedy.
    """
    if not isinstance(text, str):
        raise ToolError(f"The JSON must be given as text, not as {type(text).__name__}.")
    if len(text) > MAX_CHARS:
        raise ToolError(f"The text has {len(text):,} characters; at most {MAX_CHARS:,} are read.")
    return _JSONParser(text).read()


class _JSONParser:
    """Parses one text and collects notes. Every repair keeps the length, so that positions remain valid."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._notes: dict[str, list[str]] = {}

    def read(self) -> ParsedJSON:
        if self._text.startswith("\ufeff"):
            self._text = " " + self._text[1:]
            self._note("mark", "U+FEFF")
        opening, end = _FENCE.match(self._text), len(self._text.rstrip())
        if opening and self._text.endswith("```", opening.end(), end):  # blank out the lines of a Markdown code fence
            blank = re.sub(r"\S", " ", opening[0])
            self._text = blank + self._text[opening.end() : end - 3] + "   "
            self._note("fence", opening[0].strip())
        outside = "".join(_split_at_quotes(self._text)[::2])
        brackets = outside.encode("ascii", "ignore").translate(None, _NO_BRACKETS)
        depth = max(accumulate(memoryview(brackets.translate(_STEPS)).cast("b")), default=0)
        if depth > MAX_DEPTH:
            raise ToolError(f"Lists and objects are nested {depth:,} levels deep; at most {MAX_DEPTH} are read.")
        self._replace_surrogates()
        is_long = _MANY_DIGITS.search(self._text) is not None
        try:
            data = json.loads(
                self._text,
                parse_float=self._float if is_long or _LARGE_EXPONENT.search(self._text) else None,
                parse_int=self._integer if is_long else None,
                parse_constant=self._constant,
                object_pairs_hook=self._object,
            )
        except json.JSONDecodeError as error:
            raise ToolError(_explain(error)) from None
        warnings = []
        for kind, examples in self._notes.items():
            more = " and others" if len(examples) > _MAX_EXAMPLES else ""
            warnings.append(f"{_NOTES[kind].format(examples=', '.join(examples[:_MAX_EXAMPLES]) + more)}.")
        return ParsedJSON(data, warnings, "fence" in self._notes)

    def _note(self, kind: str, example: str) -> None:
        examples = self._notes.setdefault(kind, [])
        if len(examples) <= _MAX_EXAMPLES and example[:60] not in examples:
            examples.append(example[:60])

    def _replace_surrogates(self) -> None:
        """Replace lone surrogates, which cannot be printed or stored."""

        def replace(match: re.Match[str]) -> str:
            if match["lone"] is None:
                return match[0]
            self._note("surrogate", match["lone"])
            return r"\ufffd"

        if _HALF_ESCAPE.search(self._text):
            self._text = _LONE_ESCAPE.sub(replace, self._text)
        found = _LONE_CHARACTER.search(self._text)
        if found:
            self._text = _LONE_CHARACTER.sub("\ufffd", self._text)
            self._note("surrogate", f"U+{ord(found[0]):X}")

    def _float(self, literal: str) -> float:
        number = float(literal)
        if number in (float("inf"), float("-inf")):
            self._refuse(literal, "is too large: write a number below 1.8e308, or put it in double quotes")
        digits = re.split("[eE]", literal)[0].replace(".", "").strip("-0") if len(literal) > 17 or not number else ""
        if digits and not number:
            self._note("tiny", literal)
        elif len(digits) > 17:
            self._note("rounded", literal)
        return number

    def _integer(self, literal: str) -> int:
        if len(literal) > MAX_DIGITS:
            self._refuse(literal, f"has more than {MAX_DIGITS:,} digits: put it in double quotes")
        return int(literal)

    def _constant(self, literal: str) -> NoReturn:
        self._refuse(literal, "is not a JSON value: write null, or put it in double quotes")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            for key in (key for key, count in counts.items() if count > 1):
                self._note("duplicate", repr(key))
        return value

    def _refuse(self, literal: str, reason: str) -> NoReturn:
        text = literal if len(literal) <= 40 else f"{literal[:20]}... ({len(literal):,} characters)"
        raise ToolError(f"{_position_text(self._text, _position(self._text, literal))}: {text} {reason}.")


def _split_at_quotes(text: str) -> list[str]:
    """Split the text at each quote that opens or closes a string: outside, inside, outside, ..."""
    return text.replace("\\\\", "__").replace('\\"', "__").split('"')


def _position(text: str, literal: str) -> int:
    """Return the index of the first occurrence of a literal outside strings."""
    parts = _split_at_quotes(text)
    ends = accumulate(len(part) + 1 for part in parts)
    return next(
        end - len(part) - 1 + part.index(literal)
        for index, (part, end) in enumerate(zip(parts, ends, strict=True))
        if index % 2 == 0 and literal in part
    )


def _position_text(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"Line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _explain(error: json.JSONDecodeError) -> str:
    """Describe a parse error: the fault, its position, and a remedy."""
    text, position = error.doc, error.pos
    if not text.strip():
        return "Line 1, column 1: the text is empty; pass a JSON document such as {}."
    last = max(len(text[:position].rstrip()) - 1, 0)
    if _TRAILING_COMMA.match(text, last):
        return f"{_position_text(text, last)}: {_FAULTS['Illegal trailing comma']}."
    place = _position_text(text, position)
    fault = next((words for start, words in _FAULTS.items() if error.msg.startswith(start)), error.msg)
    if not error.msg.startswith(("Expecting", "Extra")):
        return f"{place}: {fault}."
    if _MALFORMED_NUMBER.match(text, position):
        return f"{place}: the number is invalid here; write it as in 12, -0.5 or 1e6, without leading zeros."
    found = repr(text[position : position + 12]) if position < len(text) else "nothing more"
    rows = (
        words
        for start, pattern, words in _REMEDIES
        if error.msg.startswith(start) and re.compile(pattern).match(text, position)
    )
    return f"{place}: {fault}, but there is {found}; {next(rows, 'remove or replace it')}."
