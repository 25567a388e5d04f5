"""Typed output: the schema sent to the model, parsing of the answer, and the errors sent back."""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import or_
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_args, get_origin, overload

from agentkit._dataclass import dataclass
from agentkit.errors import BadResponse, ConfigError
from agentkit.messages import OutputSchema
from agentkit.tooling import arguments as argument_repair
from agentkit.tooling.arguments import arguments_error, format_value
from agentkit.tooling.coercion import MISSING, discriminator_error, first_sentence, join_reasons, reason, subschemas_at
from agentkit.tooling.partial_json import PartialJSONParser
from agentkit.tooling.schema import adapter_of, json_schema_of, reject_generators
from agentkit.tooling.signature import AnnotationContext, pydantic_annotation
from agentkit.tooling.strict_schema import Schema, strict, tidy
from agentkit.tooling.unions import TAGGED

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


Path = tuple[str | int, ...]
Branch = tuple[Path, str | int]
"""The path of a union in a value, and the member type that was tried."""


@dataclass(frozen=True, slots=True)
class OutputError:
    """One validation error: path, message, the value given, and the union members it was parsed as."""

    path: Path
    message: str
    value: Any
    branches: tuple[Branch, ...] = ()


class OutputMismatch(Exception):
    """Raised if a JSON value does not match the output type."""

    def __init__(self, errors: Sequence[OutputError]) -> None:
        super().__init__(errors)
        self.errors = errors


def split_location(value: Any, location: Iterable[str | int], *, is_missing: bool) -> tuple[Path, tuple[Branch, ...]]:
    """Split a validator's location into the path through the value and the union branches on the way.

    Steps that do not exist in the value are the validator's branch names. A missing field comes last in the path.
    """
    steps = list(location)
    absent = [steps.pop()] if is_missing else []
    path: list[str | int] = []
    branches: list[Branch] = []
    for step in steps:
        if argument_repair.existing_steps(value, [step]):
            value = value[step]
            path.append(step)
        else:
            branches.append((tuple(path), step))
    return (*path, *absent), tuple(branches)


def sentences(errors: Iterable[OutputError], schema: Schema, given_value: Any, field_name: str = "") -> list[str]:
    """Return one sentence for each invalid path, with the expected and the given value.

    `field_name` is the field that contains the value, if any.
    """
    grouped: dict[Path, list[OutputError]] = {}
    for error in _closest_member_errors(list(errors)):
        grouped.setdefault(error.path, []).append(error)
    return [
        f"{_format_subject((field_name, *path) if field_name else path)} "
        f"{_predicate(path, same_path, schema, given_value)}"
        for path, same_path in grouped.items()
    ]


def _closest_member_errors(errors: Sequence[OutputError], level: int = 0) -> list[OutputError]:
    """Keep the errors of the closest union member: the one with only nested errors, and the fewest of them."""
    found: list[OutputError] = [error for error in errors if len(error.branches) <= level]
    unions: dict[Path, dict[str | int, list[OutputError]]] = {}
    for error in errors:
        if len(error.branches) > level:
            point, name = error.branches[level]
            unions.setdefault(point, {}).setdefault(name, []).append(error)
    for point, types in unions.items():
        inside = [each for each in types.values() if all(len(error.path) > len(point) for error in each)]
        for member_errors in [min(inside, key=len)] if inside else types.values():
            found.extend(_closest_member_errors(member_errors, level + 1))
    return found


def _format_subject(path: Path) -> str:
    return repr(argument_repair.format_path(path)) if path else "The answer"


def _predicate(path: Path, errors: Sequence[OutputError], schema: Schema, given_value: Any) -> str:
    """Return the rest of the sentence about a path, after its subject."""
    reasons = list(dict.fromkeys(error.message for error in errors))
    if reasons == [MISSING]:
        expected = " or ".join(dict.fromkeys(map(_describe_node, subschemas_at(schema, path)))) or "any value"
        was_null = len(argument_repair.existing_steps(given_value, path)) == len(path)
        return f"should be {expected}; got null." if was_null else f"is missing; it should be {expected}."
    return f"{join_reasons(reasons)}; got {argument_repair.format_value(errors[0].value)}."


def _describe_node(node: Schema) -> str:
    expected = argument_repair.describe_type(node)
    return f"{expected} in the form {node['format']}" if "format" in node else expected


_ROOT = ""
"""The key that wraps a value during validation, so that every path in it has a container."""

_NULL = {"none_required": "should be null"}


class Validator:
    """A pydantic validator for a Python type. Raises ConfigError if it is not a type or has no JSON form."""

    def __init__(self, kind: Any) -> None:
        _refuse_non_type(kind)
        try:
            self._adapter, self.schema = _build(kind)
        except Exception as error:
            raise ConfigError(f"{kind!r} cannot be the type of an answer ({first_sentence(error)}); {_USE}") from error

    def check(self, value: Any) -> Any:
        """Validate a JSON value into a Python value. Raises OutputMismatch with all errors.

        A null for an optional field counts as omitted; an object or list encoded as text is parsed.
        """
        errors: Sequence[OutputError] = ()
        repaired: dict[str, Any] | None = {_ROOT: value}
        while repaired is not None:
            try:
                return self._value(repaired[_ROOT])
            except OutputMismatch as error:
                errors = error.errors
                problems = [((_ROOT, *each_error.path), each_error.message, each_error.value) for each_error in errors]
                repaired = argument_repair.repair(repaired, problems, ())
        raise OutputMismatch(errors)

    def encode(self, value: Any, *, is_tagged: bool = True) -> Any:
        """Convert a Python value to JSON data that `check` reads back, if the members of unions are tagged."""
        options: dict[str, Any] = {"mode": "json", "by_alias": True, "round_trip": True, "warnings": False}
        return self._adapter.dump_python(value, context=TAGGED if is_tagged else None, **options)

    def _value(self, value: Any) -> Any:
        from pydantic import ValidationError

        # Some models write half of a surrogate pair for an emoji, which pydantic rejects.
        text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise OutputMismatch(_output_errors(error, value)) from None
        except Exception as error:
            message = f"could not be checked ({type(error).__name__}: {error})"
            raise OutputMismatch([OutputError((), message, value)]) from error


_USE = (
    "use pydantic models, dataclasses, TypedDicts, NamedTuples, enums, Literal, plain types, "
    "and lists, dictionaries, tuples and unions of them."
)


def _refuse_non_type(kind: Any) -> None:
    """Raise ConfigError for values and functions, some of which pydantic would accept."""
    is_named = hasattr(kind, "__value__") or hasattr(kind, "__supertype__")  # type aliases and NewType
    if isinstance(kind, type) or get_origin(kind) is not None or is_named or kind in (None, typing.Any):
        return
    if isinstance(kind, str):
        reason = "it is a string; pass the type itself, without quotes"
    elif isinstance(kind, dict):
        reason = "it is a dictionary; pass a JSON schema to LLM.complete(output_schema=...)"
    elif inspect.isroutine(kind):
        reason = "it is a function; pass the type that it returns"
    else:
        reason = f"it is an object of the class {type(kind).__name__}, not a type"
    raise ConfigError(f"{kind!r:.100} cannot be the type of an answer ({reason}); {_USE}")


def _build(kind: Any) -> tuple[TypeAdapter[Any], Schema]:
    from pydantic import Field

    annotations = AnnotationContext({}, lambda text: Field(description=text), {})
    adapter = adapter_of(pydantic_annotation(kind, annotations))
    schema = tidy(json_schema_of(adapter))
    reject_generators(adapter.core_schema)
    return adapter, _inline_root(schema)


def _inline_root(schema: Schema) -> Schema:
    """Inline the definition that the whole schema refers to, as in recursive types."""
    definitions: Schema = schema.get("$defs", {})
    target = definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"))
    return schema if target is None else {**target, "$defs": definitions}


def _output_errors(error: ValidationError, value: Any) -> list[OutputError]:
    errors = []
    for each in error.errors(include_url=False):
        path, branches = split_location(value, each["loc"], is_missing=each["type"] == "missing")
        tag_error = discriminator_error(each.get("ctx", {}), each["input"])
        if tag_error is not None:
            name, message, given_value = tag_error
            errors.append(OutputError((*path, name), message, given_value, branches))
        else:
            message = _NULL.get(each["type"]) or reason(each["type"], each["msg"])
            errors.append(OutputError(path, message, each["input"], branches))
    return errors


_DECODER = json.JSONDecoder(strict=False)
_MAX_CANDIDATES = 10
_FENCE = "```"
_OPENING_FENCE = r"```[\w-]*[ \t]*"
# An object can begin within a line, a list only at its start: [1] within a line is a footnote.
_BRACKET = re.compile(r"\{|^[ \t]*\[", re.MULTILINE)
_LIKELY_JSON = re.compile(r"""\{\s*(?:["'}]|\w+\s*:|$)|\[\s*(?:["'\[\]{]|-?\d|true|false|null|NaN|-?Infinity|$)""")
# An unterminated string extends to the end of the text, so that its contents are scanned only once.
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class JSONCandidates:
    """The JSON in a text: the `values` in order, or `error`, one sentence about invalid JSON.

    `text` is the text without byte order mark, surrounding whitespace and code fence.
    """

    text: str
    values: tuple[Any, ...] = ()
    error: str | None = None


def find_json(text: str) -> JSONCandidates:
    """Find the JSON values in a text: the whole text, or the last few values embedded in prose."""
    stripped = _strip_fence(text.lstrip("\ufeff").strip())
    try:
        return JSONCandidates(stripped, (_DECODER.decode(stripped),))
    except (ValueError, RecursionError):
        return _scan(stripped)


def _strip_fence(text: str) -> str:
    """Strip a code fence around the whole text."""
    begin = re.match(_OPENING_FENCE, text)
    if begin is None or not text.endswith(_FENCE) or len(text) < len(begin.group()) + len(_FENCE):
        return text
    return text[begin.end() : -len(_FENCE)].strip()


def _scan(text: str) -> JSONCandidates:
    """Find JSON values anywhere in the text, skipping the contents of invalid ones."""
    values: deque[Any] = deque(maxlen=_MAX_CANDIDATES)
    last_error: tuple[str, ValueError | RecursionError, int] | None = None
    position = 0
    while match := _BRACKET.search(text, position):
        start, position = match.end() - 1, match.end()
        if not _LIKELY_JSON.match(text, start):
            continue
        position = closing_bracket(text, start) or len(text)
        # Decoded separately, because the line count of an error includes all preceding text.
        candidate = text[start:position]
        try:
            values.append(_DECODER.decode(candidate))
        except (ValueError, RecursionError) as error:
            last_error = candidate, error, start
        else:
            last_error = None  # an unfinished draft before the answer
    return JSONCandidates(text, error=_json_error(*last_error)) if last_error else JSONCandidates(text, tuple(values))


def _json_error(text: str, error: ValueError | RecursionError, start: int) -> str:
    """Describe the error in JSON that begins at character `start` of the answer."""
    if isinstance(error, json.JSONDecodeError):
        if error.pos >= len(text):
            return "The JSON is cut off before its end."
        context = format_value(text[max(error.pos - 20, 0) : error.pos + 20])
        return f"The answer is not valid JSON: {error.msg} at character {start + error.pos}, near {context}."
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply."
    return "A number in the JSON has too many digits."


def closing_bracket(text: str, start: int) -> int | None:
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
"""Answers up to this length are emitted in full at every chunk."""

_T = TypeVar("_T")


class OutputType(Generic[_T]):
    """A Python type that answers are validated against.

    Supports pydantic models, dataclasses, TypedDicts, NamedTuples, enums, Literal, plain types and dates, and lists,
    dictionaries, tuples and unions of them. Plain `str` is any text, without a schema. For the model, a type that is
    not an object is wrapped in an object with the field `result`; `parse`, `partial_parser` and `encode` work with the
    value itself.

    Args:
        kind: The type. `OutputType.of(kind)` returns the instance shared by all users of a type.

    Raises:
        ConfigError: The value is not a type, or the type has no JSON form.
    """

    def __init__(self, kind: type[_T] | Any) -> None:
        self.kind = kind
        # Build a type name from the characters that providers allow: `Invoice`, `list_of_Invoice`, `int_or_str`
        name = re.sub(r"[^a-zA-Z0-9_-]+", "_", _type_name(kind)).strip("_")
        self.name = name[:64] or "answer"
        self._validator = None if kind is str else Validator(kind)
        self._is_object = self._validator is not None and self._validator.schema.get("type") == "object"
        self._schema = self._answer_schema()
        self._strict = strict(self._schema)

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
            return _cached(kind)
        except TypeError:  # an annotation is unhashable, so the type cannot be cached
            return OutputType(kind)

    @property
    def schema(self) -> OutputSchema | None:
        """The schema that the provider enforces, in strict form if there is one; None for plain text."""
        if self._validator is None:
            return None
        return OutputSchema(self.name, self._strict or self._schema, strict=self._strict is not None)

    @property
    def instruction(self) -> str:
        """The instruction for models whose provider does not enforce schemas; empty for plain text."""
        if self._validator is None:
            return ""
        schema = json.dumps(self._strict or self._schema, ensure_ascii=False, separators=(",", ":"))
        return (
            "Answer with JSON only, without text or a code fence around it. It must match this JSON schema:\n" + schema
        )

    def parse(self, text: str) -> _T:
        """Parse the JSON answer of a model, also in a code fence or embedded in prose.

        Raises BadResponse, whose message contains exactly what the model has to fix.
        """
        if self._validator is None:
            return cast("_T", text)
        found = find_json(text)
        errors: list[str] = []
        for candidate, field_name in self._candidates(found):
            try:
                return cast("_T", self._validator.check(candidate))
            except OutputMismatch as mismatch:
                errors = errors or sentences(mismatch.errors, self._validator.schema, candidate, field_name)
        raise BadResponse(
            str(arguments_error([found.error] if found.error else errors or [self._no_json_error(found.text)]))
        )

    def partial_parser(self) -> PartialAnswerParser:
        """Create a parser for one streamed answer."""
        return PartialAnswerParser(is_text=self._validator is None, is_object=self._is_object)

    def encode(self, value: _T) -> str:
        """Serialise a value to text that `parse` reads back."""
        if self._validator is None:
            return str(value)
        data = self._validator.encode(value)
        return json.dumps(data if self._is_object else {WRAPPER: data}, ensure_ascii=False)

    def plain(self, value: _T) -> Any:
        """Convert a value to JSON data: dictionaries, lists, texts and numbers."""
        return value if self._validator is None else self._validator.encode(value, is_tagged=False)

    def _answer_schema(self) -> Schema:
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
        if not self._is_object and not found.error and not any(isinstance(each, dict | list) for each in found.values):
            yield from ((text, "") for text in dict.fromkeys((found.text, found.text.strip("\"'`*. "))) if text)

    def _no_json_error(self, text: str) -> str:
        return f"The answer should be JSON; {'it is empty' if not text else 'it contains none'}."

    def __repr__(self) -> str:
        return f"OutputType({self.name})"


class PartialAnswerParser:
    """A streamed answer. Each character is parsed once and emitted a bounded number of times."""

    def __init__(self, *, is_text: bool = False, is_object: bool = True) -> None:
        self._json = None if is_text else PartialJSONParser("{" if is_object else "{[")
        self._texts: list[str] = []
        self._is_object = is_object
        self._chars, self._emitted_chars, self._emitted_changes = 0, 0, 0

    def feed(self, chunk: str) -> Any:
        """Parse another chunk; return the partial answer if there is more to emit, else None.

        Partial answers are plain values, not yet of the type: dictionaries and lists with the entries so far, texts
        that can be cut; numbers and words such as true only when complete. They are not validated: a truncated text can
        be valid, and wrong. Plain text is returned as it is. Each partial answer is a new value, which costs time
        proportional to its length, so long answers are not emitted at every chunk: they must have grown by a
        sixty-fourth, or be complete.
        """
        self._chars += len(chunk)
        value = self._feed_text(chunk) if self._json is None else self._feed_json(self._json, chunk)
        if value is not None:
            self._emitted_chars = self._chars
        return value

    def _feed_text(self, chunk: str) -> str | None:
        self._texts.append(chunk)
        if not chunk or not self._is_due:
            return None
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    def _feed_json(self, json: PartialJSONParser, chunk: str) -> Any:
        json.feed(chunk)
        if json.changes == self._emitted_changes or not (self._is_due or json.is_complete):
            return None
        self._emitted_changes = json.changes
        value = json.value
        is_wrapper = not self._is_object and isinstance(value, dict) and value.keys() <= {WRAPPER}
        return value.get(WRAPPER) if is_wrapper else value

    @property
    def _is_due(self) -> bool:
        return self._chars <= _SHORT_CHARS or self._emitted_chars * 65 <= self._chars * 64


def _union_of(kinds: list[Any]) -> Any:
    """The union of a list of types. Raises ConfigError for an empty list, and for an invalid member."""
    try:
        return functools.reduce(or_, kinds)
    except TypeError as error:
        raise ConfigError(
            f"output_type= takes a type or a list of types, such as [Fruit, Vehicle]. Got {kinds!r:.200}."
        ) from error


@functools.lru_cache(256)
def _cached(kind: Any) -> OutputType[Any]:
    return OutputType(kind)


def _type_name(kind: Any) -> str:
    origin, inner = get_origin(kind), [each for each in get_args(kind) if each is not ...]
    named = getattr(kind, "__name__", "") if origin is None else getattr(origin, "__name__", "")
    match named:
        case "Annotated":
            return _type_name(inner[0])
        case "Literal":
            return "choice"
        case "Union" | "UnionType":
            return "_or_".join(map(_type_name, inner))
        case "NoneType":
            return "null"
    return f"{named}_of_{'_and_'.join(map(_type_name, inner))}" if inner else named


__all__ = ["OutputType", "PartialAnswerParser"]
