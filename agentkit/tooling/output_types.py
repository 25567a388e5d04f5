"""Typed output: the schema sent to the model, and parsing of the answer into a Python value."""

from __future__ import annotations

import functools
import json
import re
from collections import deque
from collections.abc import Iterator
from operator import or_
from typing import Any, Generic, TypeVar, cast, get_args, get_origin, overload

from agentkit._dataclass import dataclass
from agentkit.errors import BadResponse, ConfigError
from agentkit.messages import OutputSchema
from agentkit.tooling.arguments import complaint, shown
from agentkit.tooling.output_errors import OutputMismatch, sentences
from agentkit.tooling.output_validation import Validator
from agentkit.tooling.partial_json import GrowingJSON
from agentkit.tooling.schema_references import Schema
from agentkit.tooling.strict_schema import strict

_DECODER = json.JSONDecoder(strict=False)
_MOST = 10
_FENCE = "```"
_FENCE_BEGIN = r"```[\w-]*[ \t]*"
# An object can begin within a line, a list only at its start: [1] within a line is a footnote.
_BRACKET = re.compile(r"\{|^[ \t]*\[", re.MULTILINE)
_MEANT = re.compile(r"""\{\s*(?:["'}]|\w+\s*:|$)|\[\s*(?:["'\[\]{]|-?\d|true|false|null|NaN|-?Infinity|$)""")
# An unterminated string extends to the end of the text, so that its contents are scanned only once.
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class JSONCandidates:
    """The JSON in a text: the `values` in order, or `fault`, one sentence about invalid JSON.

    `text` is the text without byte order mark, surrounding whitespace and code fence.
    """

    text: str
    values: tuple[Any, ...] = ()
    fault: str | None = None


def read(text: str) -> JSONCandidates:
    """Find the JSON values in a text: the whole text, or the last few values embedded in prose."""
    bare = _unfenced(text.lstrip("\ufeff").strip())
    try:
        return JSONCandidates(bare, (_DECODER.decode(bare),))
    except (ValueError, RecursionError):
        return _scanned(bare)


def _unfenced(text: str) -> str:
    """Strip a code fence around the whole text."""
    begin = re.match(_FENCE_BEGIN, text)
    if begin is None or not text.endswith(_FENCE) or len(text) < len(begin.group()) + len(_FENCE):
        return text
    return text[begin.end() : -len(_FENCE)].strip()


def _scanned(text: str) -> JSONCandidates:
    """Find JSON values anywhere in the text, skipping the contents of invalid ones."""
    values: deque[Any] = deque(maxlen=_MOST)
    broken: tuple[str, ValueError | RecursionError, int] | None = None
    place = 0
    while match := _BRACKET.search(text, place):
        start, place = match.end() - 1, match.end()
        if not _MEANT.match(text, start):
            continue
        place = closing(text, start) or len(text)
        # Decoded separately, because the line count of an error includes all preceding text.
        piece = text[start:place]
        try:
            values.append(_DECODER.decode(piece))
        except (ValueError, RecursionError) as error:
            broken = piece, error, start
        else:
            broken = None  # an unfinished draft before the answer
    return JSONCandidates(text, fault=_fault(*broken)) if broken else JSONCandidates(text, tuple(values))


def _fault(text: str, error: ValueError | RecursionError, start: int) -> str:
    """Describe the error in JSON that begins at character `start` of the answer."""
    if isinstance(error, json.JSONDecodeError):
        if error.pos >= len(text):
            return "The JSON is cut off before its end."
        near = shown(text[max(error.pos - 20, 0) : error.pos + 20])
        return f"The answer is not valid JSON: {error.msg} at character {start + error.pos}, near {near}."
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply."
    return "A number in the JSON has too many digits."


def closing(text: str, start: int) -> int | None:
    """Return the index after the bracket that closes the one at `start`; None if it is not closed."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        depth += (match.group() in "[{") - (match.group() in "]}")
        if depth == 0:
            return match.end()
    return None


WRAPPER = "result"
"""The field that wraps an answer which is not an object: providers accept only objects."""

_SHORT_CHARS = 8_000
"""Answers up to this length are emitted in full at every streamed piece."""

_T = TypeVar("_T")


class OutputType(Generic[_T]):
    """A Python type that answers are validated against.

    Supports pydantic models, dataclasses, TypedDicts, NamedTuples, enums, Literal, plain types and dates, and lists,
    dictionaries, tuples and unions of them. Plain `str` is any text, without a schema. For the model, a type that is
    not an object is wrapped in an object with the field `result`; `parse`, `growing` and `encode` work with the value
    itself.

    Args:
        kind: The type. `OutputType.of(kind)` returns the instance shared by all users of a type.

    Raises:
        ConfigError: The value is not a type, or the type has no JSON form.
    """

    def __init__(self, kind: type[_T] | Any) -> None:
        self.kind = kind
        self.name = _name_of(kind)
        self._validator = None if kind is str else Validator(kind)
        self._is_object = self._validator is not None and self._validator.schema.get("type") == "object"
        self._whole = self._whole_schema()
        self._strict = strict(self._whole)

    @overload
    @classmethod
    def of(cls, kind: type[_T]) -> OutputType[_T]: ...

    @overload
    @classmethod
    def of(cls, kind: Any) -> OutputType[Any]: ...

    @classmethod
    def of(cls, kind: Any) -> OutputType[Any]:
        """Return the cached output type for a Python type, or for a list of types, one of which an answer has.

        Raises ConfigError.
        """
        if isinstance(kind, list):
            kind = _union_of(kind)
        try:
            return _shared(kind)
        except TypeError:  # an annotation is unhashable, so the type cannot be cached
            return OutputType(kind)

    @property
    def schema(self) -> OutputSchema | None:
        """The schema that the provider enforces, in strict form if there is one; None for plain text."""
        if self._validator is None:
            return None
        return OutputSchema(self.name, self._strict or self._whole, strict=self._strict is not None)

    @property
    def instruction(self) -> str:
        """The instruction for models whose provider does not enforce schemas; empty for plain text."""
        if self._validator is None:
            return ""
        schema = json.dumps(self._strict or self._whole, ensure_ascii=False, separators=(",", ":"))
        return f"Answer with JSON only, without words or a fence around it. It must fit this JSON schema:\n{schema}"

    def parse(self, text: str) -> _T:
        """Parse the JSON answer of a model, also in a code fence or embedded in prose.

        Raises BadResponse, whose message contains exactly what the model has to fix.
        """
        if self._validator is None:
            return cast("_T", text)
        found = read(text)
        faults: list[str] = []
        for candidate, place in self._candidates(found):
            try:
                return cast("_T", self._validator.check(candidate))
            except OutputMismatch as misfit:
                faults = faults or sentences(misfit.faults, self._validator.schema, candidate, place)
        raise BadResponse(str(complaint([found.fault] if found.fault else faults or [self._nothing(found.text)])))

    def growing(self) -> GrowingAnswer:
        """Create a parser for one streamed answer."""
        return GrowingAnswer(is_text=self._validator is None, is_object=self._is_object)

    def encode(self, value: _T) -> str:
        """Serialise a value to text that `parse` reads back."""
        if self._validator is None:
            return str(value)
        data = self._validator.encode(value)
        return json.dumps(data if self._is_object else {WRAPPER: data}, ensure_ascii=False)

    def plain(self, value: _T) -> Any:
        """Convert a value to JSON data: dictionaries, lists, texts and numbers."""
        return value if self._validator is None else self._validator.encode(value, is_tagged=False)

    def _whole_schema(self) -> Schema:
        """Return the schema of the whole answer, which is an object."""
        if self._validator is None:
            return {}
        schema = self._validator.schema
        if self._is_object:
            return schema
        shared = {"$defs": schema["$defs"]} if "$defs" in schema else {}
        inner = {key: value for key, value in schema.items() if key != "$defs"}
        shape = {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER]}
        return {**shape, "additionalProperties": False, **shared}

    def _candidates(self, found: JSONCandidates) -> Iterator[tuple[Any, str]]:
        """Yield the candidate values, the likeliest first, each with its wrapper field or an empty string."""
        objects = [value for value in found.values if isinstance(value, dict)]
        for value in reversed((objects or found.values) if self._is_object else found.values):
            if not self._is_object and isinstance(value, dict) and value.keys() == {WRAPPER}:
                yield value[WRAPPER], WRAPPER
            yield value, ""
        if not self._is_object and not found.fault and not any(isinstance(each, dict | list) for each in found.values):
            yield from ((text, "") for text in dict.fromkeys((found.text, found.text.strip("\"'`*. "))) if text)

    def _nothing(self, text: str) -> str:
        return f"The answer should be JSON; {'it is empty' if not text else 'it contains none'}."

    def __repr__(self) -> str:
        return f"OutputType({self.name})"


class GrowingAnswer:
    """A streamed answer. Each character is parsed once and emitted a bounded number of times."""

    def __init__(self, *, is_text: bool = False, is_object: bool = True) -> None:
        self._json = None if is_text else GrowingJSON("{" if is_object else "{[")
        self._texts: list[str] = []
        self._is_object = is_object
        self._chars, self._told_chars, self._told_changes = 0, 0, 0

    def feed(self, piece: str) -> Any:
        """Parse another piece; return the partial answer if there is more to emit, else None.

        Partial answers are plain values, not yet of the type: dictionaries and lists with the entries so far, texts
        that can be cut; numbers and words such as true only when complete. They are not validated: a truncated text can
        be valid, and wrong. Plain text is returned as it is. Each partial answer is a new value, which costs time
        proportional to its length, so long answers are not emitted at every piece: they must have grown by a
        sixty-fourth, or be complete.
        """
        self._chars += len(piece)
        value = self._text_so_far(piece) if self._json is None else self._value_so_far(self._json, piece)
        if value is not None:
            self._told_chars = self._chars
        return value

    def _text_so_far(self, piece: str) -> str | None:
        self._texts.append(piece)
        if not piece or not self._is_due:
            return None
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    def _value_so_far(self, json: GrowingJSON, piece: str) -> Any:
        json.feed(piece)
        if json.changes == self._told_changes or not (self._is_due or json.is_whole):
            return None
        self._told_changes = json.changes
        value = json.value
        is_wrapper = not self._is_object and isinstance(value, dict) and value.keys() <= {WRAPPER}
        return value.get(WRAPPER) if is_wrapper else value

    @property
    def _is_due(self) -> bool:
        return self._chars <= _SHORT_CHARS or self._told_chars * 65 <= self._chars * 64


def _union_of(kinds: list[Any]) -> Any:
    """The union of a list of types. Raises ConfigError for an empty list, and for an invalid member."""
    try:
        return functools.reduce(or_, kinds)
    except TypeError as error:
        raise ConfigError(
            f"output_type= takes a type or a list of types, such as [Fruit, Vehicle]. Got {kinds!r:.200}."
        ) from error


@functools.lru_cache(256)
def _shared(kind: Any) -> OutputType[Any]:
    return OutputType(kind)


def _name_of(kind: Any) -> str:
    """Build a type name from the characters that providers allow: `Invoice`, `list_of_Invoice`, `int_or_str`."""
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", _spoken(kind)).strip("_")
    return name[:64] or "answer"


def _spoken(kind: Any) -> str:
    origin, inner = get_origin(kind), [each for each in get_args(kind) if each is not ...]
    named = getattr(kind, "__name__", "") if origin is None else getattr(origin, "__name__", "")
    match named:
        case "Annotated":
            return _spoken(inner[0])
        case "Literal":
            return "choice"
        case "Union" | "UnionType":
            return "_or_".join(map(_spoken, inner))
        case "NoneType":
            return "null"
    return f"{named}_of_{'_and_'.join(map(_spoken, inner))}" if inner else named


__all__ = ["GrowingAnswer", "OutputType"]
