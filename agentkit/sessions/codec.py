"""JSON encoding of events (pure).

Fields that have their default value are omitted, so that fields added by later versions cost nothing; unknown keys are
ignored. Three fields are never stored: `Response.raw`, `ToolResult.value`, which can be any object, and
`ToolResult.records`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from agentkit import content, messages
from agentkit.decisions import Decision, Label, SafetyLevel, Verdict
from agentkit.errors import SessionError
from agentkit.events import STORED_EVENTS, StoredEvent
from agentkit.messages import Message
from agentkit.sessions.store import START, Position, SessionEntry, SessionSummary
from agentkit.usage import Price, Tariff, Usage

Data = dict[str, Any]
_Read = Callable[[Any], Any]
_Part = TypeVar("_Part")

_ROLES: Mapping[str, type] = {
    "system": messages.SystemMessage,
    "user": messages.UserMessage,
    "assistant": messages.AssistantMessage,
    "tool": messages.ToolMessage,
}
_TAGS: Mapping[type, tuple[str, str]] = {
    **{kind: ("event", name) for name, kind in STORED_EVENTS.items()},
    **{kind: ("role", name) for name, kind in _ROLES.items()},
    content.File: ("part", "file"),
}
"""The key, and its value for each class, that identifies the classes of a union."""

_CLASSES = frozenset(
    (
        *(*_TAGS, Decision, Usage, Tariff, Price, content.Image, messages.ToolCall, messages.MadeCall, messages.Pause),
        *(messages.ToolResult, messages.HostedUse, messages.Response, messages.FailedModel),
    )
)
_NOT_STORED = {messages.Response: {"raw"}, messages.ToolResult: {"value", "records"}}
_MAX_SECONDS = 1e11
"""About three thousand years; `datetime` cannot represent much later times."""
_MAX_NUMBER = 1e18
_counts = attrgetter(*(field.name for field in fields(Usage) if field.default == 0))
_PLAIN = frozenset({str, int, float, bool, NoneType})

_DECODER = json.JSONDecoder()
_SURROGATE = re.compile("[\ud800-\udfff]")
_READABLE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = json.JSONEncoder(separators=(",", ":"))


def encode(event: StoredEvent) -> Data:
    """Encode a stored event as JSON-compatible data, with its kind under the key `event`."""
    return cast(Data, encode_part(event))


def decode(data: Any) -> StoredEvent:
    """Decode a stored event. Raises SessionError if the data is invalid."""
    name = data.get("event") if isinstance(data, dict) else None
    if not isinstance(name, str):
        raise SessionError("This is not a session entry: it has no event name.")
    if name not in STORED_EVENTS:
        raise SessionError(f"The entry's event {name!r:.80} is unknown. Update agentkit.")
    event: StoredEvent = _reader(cast(Any, STORED_EVENTS[name]))(data)
    return event


def encode_entry(entry: SessionEntry) -> Data:
    """Encode an entry as JSON-compatible data: `run`, `at`, and the stored event's keys."""
    return {"run": entry.run, "at": entry.at, **encode(entry.event)}


def decode_entry(data: Any) -> SessionEntry:
    """Decode an entry. Raises SessionError if the data is invalid."""
    event = decode(data)
    run, at = data.get("run"), data.get("at")
    if not isinstance(run, str) or not run:
        raise SessionError("This is not a session entry: `run` must be an id.")
    return SessionEntry(run, decode_seconds(at), event)


def decode_seconds(data: Any) -> float:
    """Decode a duration, or a time since 1970, in seconds. Raises SessionError if it is out of range."""
    if type(data) not in (int, float) or not 0 <= data < _MAX_SECONDS:  # false for NaN
        raise SessionError(f"An entry is damaged: {_shorten(data)} should be a time in seconds since 1970.")
    return float(data)


def encode_part(value: Any) -> Any:
    """Encode a message, response, result, decision or another part of a stored event as JSON-compatible data."""
    kind = type(value)
    if kind in _CLASSES:
        return _encode_fields(value)
    if kind in _PLAIN:
        return value
    if kind is dict or (kind is not tuple and isinstance(value, Mapping)):  # can be deeply nested, and is JSON already
        return {name: encode_part(each) if type(each) in _CLASSES else each for name, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(encode_part, value))
    if kind is tuple or (isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)):
        return [encode_part(each) for each in value]
    return _encode_name(value)


def decode_part(kind: type[_Part], data: Any) -> _Part:
    """Decode an object of class `kind`. Raises SessionError if the data does not fit."""
    return cast(_Part, _reader(cast(Any, kind))(data))


def decode_message(data: Any) -> Message:
    """Decode a message. Raises SessionError if the data is invalid."""
    return cast(Message, _reader(Message)(data))


def to_line(data: Mapping[str, Any]) -> str:
    """Serialise data to one line of JSON, unescaped unless it contains lone surrogates. Raises SessionError.

    A surrogate pair written as two code points is read back as one character.
    """
    try:
        line = _READABLE.encode(data)
        return _ESCAPED.encode(data) if not line.isascii() and _SURROGATE.search(line) else line
    except (TypeError, ValueError, RecursionError) as error:
        raise SessionError(f"This value cannot be stored in a session, because it is not JSON: {error}") from None


def from_line(line: str | bytes) -> Data:
    """Parse a line. Raises SessionError if it is not a JSON object."""
    try:
        data, end = _DECODER.raw_decode(line) if isinstance(line, str) and line[:1] == "{" else (None, 0)
        if isinstance(data, dict) and end == len(line):  # without the checks for other encodings and for blanks
            return data
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SessionError(f"A line is damaged: it is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise SessionError(f"A line is damaged: it must be a JSON object. Got {line!r:.80}.")
    return data


def _encode_fields(value: Any) -> Data:
    kind: Any = type(value)
    data: Data = dict([_TAGS[kind]]) if kind in _TAGS else {}
    for name, default, _ in _layout(kind):
        part = getattr(value, name)
        if part is not default and (default is MISSING or part != default):
            data[name] = part if type(part) in _PLAIN else encode_part(part)
    return data


def _encode_name(value: Any) -> Any:
    """Encode an enum member, or an instance of a subclass of a plain type, as its plain value."""
    if isinstance(value, SafetyLevel):
        return value.name
    for plain in (str, bool, int, float):
        if isinstance(value, plain):
            return plain(value)
    raise SessionError(f"This value cannot be stored in a session, because it is not JSON: {value!r:.200}")


@cache
def _layout(kind: type) -> tuple[tuple[str, Any, _Read], ...]:
    """The stored fields of a class: name, default or MISSING, and decoder."""
    hints, stored = get_type_hints(kind), list[tuple[str, Any, _Read]]()
    for field in fields(kind):
        if field.name not in _NOT_STORED.get(kind, ()):
            default = field.default if field.default_factory is MISSING else field.default_factory()
            stored.append((field.name, default, _reader(hints[field.name])))
    return tuple(stored)


@cache
def _reader(kind: Any) -> _Read:
    """Build the decoder for a type; it raises SessionError if the data does not fit."""
    arguments = get_args(kind)
    if kind in _CLASSES:
        return _usage_reader() if kind is Usage else _class_reader(kind)
    match get_origin(kind):
        case origin if origin is Union or origin is UnionType:
            return _union_reader(arguments)
        case origin if origin is Literal:
            return _choice_reader({choice: choice for choice in arguments})
        case origin if origin in (tuple, frozenset):
            return _row_reader(origin, arguments)
        case origin if origin is Mapping:
            read_value = _reader(arguments[1])

            def read_mapping(data: Any) -> Any:
                if not isinstance(data, dict):
                    raise SessionError(f"An entry is damaged: {data!r:.80} should be an object.")
                return {name: read_value(value) for name, value in data.items()}

            return read_mapping
    return _simple_reader(kind)


def _simple_reader(kind: Any) -> _Read:
    if kind in (Verdict, Label):
        return _choice_reader({member.value: member for member in kind})
    if kind is SafetyLevel:
        return _choice_reader({level.name: level for level in SafetyLevel})
    if kind is Any:
        return lambda data: data
    accepted = (int, float) if kind is float else (kind,)
    is_number = kind in (int, float)

    def read(data: Any) -> Any:
        if type(data) not in accepted or (is_number and not abs(data) < _MAX_NUMBER):  # false for NaN
            raise SessionError(f"An entry is damaged: {_shorten(data)} should be of type {kind.__name__}.")
        return data

    return read


def _shorten(data: Any) -> str:
    """Shorten data for an error message: an integer can have more digits than Python converts to text."""
    return "a huge number" if isinstance(data, int) and abs(data) >= _MAX_NUMBER else f"{data!r:.80}"


def _choice_reader(choices: Mapping[Any, Any]) -> _Read:
    def read(data: Any) -> Any:
        if not isinstance(data, str) or data not in choices:
            raise SessionError(f"An entry is damaged: {data!r:.80} should be one of {', '.join(choices)}.")
        return choices[data]

    return read


def _class_reader(kind: type) -> _Read:
    key, tag = _TAGS.get(kind, ("", ""))
    read_text = _reader(str)
    readers: dict[str, _Read] = {}  # of the stored fields, most of which an entry lacks; filled on first use

    def read(data: Any) -> Any:
        if not isinstance(data, dict) or (key and data.get(key) != tag):
            raise SessionError(f"An entry is damaged: {data!r:.80} is not a valid {kind.__name__}.")
        if not readers:  # classes can contain each other
            readers.update((name, read_field) for name, _, read_field in _layout(kind))
        values = {}
        for name, value in data.items():  # the code that opening a long session spends most of its time in
            read_field = readers.get(name)
            if read_field is not None:
                values[name] = value if read_field is read_text and type(value) is str else read_field(value)
        try:
            return kind(**values)
        except TypeError:
            missing = [name for name, default, _ in _layout(kind) if default is MISSING and name not in values]
            if not missing:
                raise
            raise SessionError(f"An entry is damaged: its {kind.__name__} lacks {min(missing)!r}.") from None

    return read


def _usage_reader() -> _Read:
    """Build a decoder that rejects negative counts, which would raise the limits of a run."""
    read_any = _class_reader(Usage)

    def read(data: Any) -> Any:
        usage = read_any(data)
        if min(_counts(usage)) < 0:
            raise SessionError(f"An entry is damaged: {data!r:.80} has a negative count.")
        return usage

    return read


def _union_reader(kinds: Sequence[Any]) -> _Read:
    tagged: dict[str, dict[str, _Read]] = {}
    for kind in kinds:
        if kind in _TAGS:
            key, tag = _TAGS[kind]
            tagged.setdefault(key, {})[tag] = _reader(kind)
    others = [_reader(kind) for kind in kinds if kind not in _TAGS]

    def read(data: Any) -> Any:
        for key, readers in tagged.items() if isinstance(data, dict) else ():
            tag = data.get(key)
            if isinstance(tag, str) and tag in readers:
                return readers[tag](data)
        for read_one in others:
            try:
                return read_one(data)
            except SessionError:
                continue
        raise SessionError(f"An entry is damaged: {data!r:.80} has the wrong type.")

    return read


def _row_reader(origin: Any, kinds: Sequence[Any]) -> _Read:
    """Build the decoder of a variable-length tuple, a fixed-length tuple or a frozenset."""
    is_open = origin is frozenset or kinds[-1] is Ellipsis
    readers = [_reader(kind) for kind in kinds if kind is not Ellipsis]

    def read(data: Any) -> Any:
        if not isinstance(data, list) or not (is_open or len(data) == len(readers)):
            raise SessionError(f"An entry is damaged: {data!r:.80} should be a list of the right length.")
        return origin(readers[0 if is_open else place](each) for place, each in enumerate(data))

    return read


Row = tuple[str, float, str]
"""The entry's run, its time, and its stored event as a line of JSON."""

_ID_BITS = 62


def rows_of(entries: Iterable[SessionEntry]) -> list[Row]:
    """Serialise entries to rows. Raises SessionError if an entry cannot be stored."""
    return [(entry.run, entry.at, to_line(encode(entry.event))) for entry in entries]


def entries_in(rows: Iterable[tuple[Any, Any, Any]]) -> list[SessionEntry]:
    """Parse rows to entries; in a foreign database, the values can be of any type. Raises SessionError if invalid."""
    entries = []
    for run, at, line in rows:
        if not isinstance(run, str) or not run or not isinstance(line, str):
            raise SessionError("An entry is damaged: its run and its event must be strings.")
        entries.append(SessionEntry(run, decode_seconds(at), decode(from_line(line))))
    return entries


def parse_entries(
    rows: Sequence[tuple[int, int | None, str, float, str]], after: Position
) -> tuple[list[SessionEntry], Position]:
    """Parse the rows read after a position, and compute the new position.

    Each row starts with the session's id and the entry's position. A single row without a position means that nothing
    is new, no rows that the session does not exist.
    """
    if not rows:
        return [], START
    session, index = rows[0][0], rows[-1][1]
    if index is None:
        return [], (session, after[1] if after[0] == session else 0)
    return entries_in((run, at, line) for _, _, run, at, line in rows), (session, index)


def summary_of(name: Any, runs: Any, entries: Any, began: Any, changed: Any) -> SessionSummary:
    """Build the summary of a session from its row. Raises SessionError for values that our stores do not write."""
    if not isinstance(name, str):
        raise SessionError(f"A session is damaged: its name must be a string. Got {name!r:.80}.")
    return SessionSummary(name, runs, entries, decode_seconds(began), decode_seconds(changed))


def new_id() -> int:
    """Return a random id for a new session, so that a recreated database does not reuse ids."""
    return 1 + secrets.randbits(_ID_BITS)
