"""JSON encoding of events (pure).

A field that has its default is left out, so that what a later version adds is no burden; keys that this version does
not know are passed over. Three fields are never kept: `Response.raw`, `ToolResult.value`, which may be any object, and
`ToolResult.records`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from agentkit import content, events, messages
from agentkit.decisions import Decision, Label, Verdict
from agentkit.errors import SessionError
from agentkit.events import Milestone
from agentkit.levels import SafetyLevel
from agentkit.messages import Message
from agentkit.sessions.store import START, Position, SessionEntry, SessionSummary
from agentkit.usage import Price, Tariff, Usage

Data = dict[str, Any]
_Read = Callable[[Any], Any]
_Part = TypeVar("_Part")

_EVENTS: Mapping[str, type[Milestone]] = {
    "run_started": events.RunStarted,
    "history_given": events.HistoryGiven,
    "run_resumed": events.RunResumed,
    "response_received": events.ResponseReceived,
    "request_failed": events.RequestFailed,
    "approved": events.Approved,
    "tool_call_started": events.ToolCallStarted,
    "tool_call_finished": events.ToolCallFinished,
    "tool_call_postponed": events.ToolCallPostponed,
    "hosted_call_finished": events.HostedCallFinished,
    "answer_refused": events.AnswerRefused,
    "answer_given": events.AnswerGiven,
    "answer_amended": events.AnswerAmended,
    "summarised": events.Summarised,
    "handed_off": events.HandedOff,
    "limit_reached": events.LimitReached,
    "run_ended": events.RunEnded,
}
_ROLES: Mapping[str, type] = {
    "system": messages.SystemMessage,
    "user": messages.UserMessage,
    "assistant": messages.AssistantMessage,
    "tool": messages.ToolMessage,
}
_TAGS: Mapping[type, tuple[str, str]] = {
    **{kind: ("event", name) for name, kind in _EVENTS.items()},
    **{kind: ("role", name) for name, kind in _ROLES.items()},
    content.File: ("part", "file"),
}
"""What tells the classes of a family apart: a key, and its value for each class."""

_PARTS = (
    Decision,
    Usage,
    Tariff,
    Price,
    content.Image,
    messages.ToolCall,
    messages.MadeCall,
    messages.Pause,
    messages.ToolResult,
    messages.HostedUse,
    messages.Response,
    messages.Missed,
)
_CLASSES = frozenset({*_TAGS, *_PARTS})
_LEFT_OUT = {messages.Response: {"raw"}, messages.ToolResult: {"value", "records"}}
_MOST_SECONDS = 1e11
"""Some three thousand years: what follows is no time that a calendar knows."""
_MOST_NUMBER = 1e18
_counts = attrgetter(*(field.name for field in fields(Usage) if field.default == 0))
_PLAIN = frozenset({str, int, float, bool, NoneType})

_READABLE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = json.JSONEncoder(separators=(",", ":"))


def encode(milestone: Milestone) -> Data:
    """A milestone as JSON-able data, its kind under the key `event`."""
    return cast(Data, encode_part(milestone))


def decode(data: Any) -> Milestone:
    """The milestone that `encode` made data of. Raises SessionError for what is none."""
    name = data.get("event") if isinstance(data, dict) else None
    if not isinstance(name, str):
        raise SessionError("This is not an entry of a session: it names no event.")
    if name not in _EVENTS:
        raise SessionError(f"The entry's event {name!r:.80} is unknown; a newer version of agentkit may know it.")
    return decode_part(_EVENTS[name], data)


def encode_entry(entry: SessionEntry) -> Data:
    """An entry as JSON-able data: `run`, `at`, and its milestone's keys."""
    return {"run": entry.run, "at": entry.at, **encode(entry.milestone)}


def decode_entry(data: Any) -> SessionEntry:
    """The entry that `encode_entry` made data of. Raises SessionError for what is none."""
    milestone = decode(data)
    run, at = data.get("run"), data.get("at")
    if not isinstance(run, str) or not run:
        raise SessionError("This is not an entry of a session: `run` must be an id.")
    return SessionEntry(run, decode_seconds(at), milestone)


def decode_seconds(data: Any) -> float:
    """A duration, or a moment since 1970, in seconds. Raises SessionError for what no clock shows."""
    if type(data) not in (int, float) or not 0 <= data < _MOST_SECONDS:  # NaN is not
        raise SessionError(f"An entry is damaged: {_shown(data)} should be seconds, as `at` has them since 1970.")
    return float(data)


def encode_part(value: Any) -> Any:
    """A message, a response, a result, a decision or whatever else milestones are made of, as JSON-able data."""
    kind = type(value)
    if kind in _CLASSES:
        return _encode_fields(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Mapping):  # deeply nested perhaps, and JSON already
        return {name: encode_part(each) if type(each) in _CLASSES else each for name, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(encode_part, value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [encode_part(each) for each in value]
    return _encode_name(value)


def decode_part(kind: type[_Part], data: Any) -> _Part:
    """The object of class `kind` that `encode_part` made data of. Raises SessionError when it does not fit."""
    return cast(_Part, _reader(cast(Any, kind))(data))


def decode_message(data: Any) -> Message:
    """The message that `encode_part` made data of. Raises SessionError for what is none."""
    return cast(Message, _reader(Message)(data))


def to_line(data: Mapping[str, Any]) -> str:
    """Data as one line of JSON, readable unless a character of it is half of one. Raises SessionError.

    Two halves of one character that stand side by side come back as that character.
    """
    try:
        line = _READABLE.encode(data)
        return line if line.isascii() or _is_utf8(line) else _ESCAPED.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise SessionError(f"This cannot be kept in a session, as it is not JSON: {error}") from None


def from_line(line: str | bytes) -> Data:
    """The data of a line. Raises SessionError when it is not one JSON object."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SessionError(f"A line is damaged, it is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise SessionError(f"A line is damaged: it must be a JSON object, and is {line!r:.80}.")
    return data


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encode_fields(value: Any) -> Data:
    kind: Any = type(value)
    data: Data = dict([_TAGS[kind]]) if kind in _TAGS else {}
    for name, default, _ in _layout(kind):
        part = getattr(value, name)
        if part is not default and (default is MISSING or part != default):
            data[name] = part if type(part) in _PLAIN else encode_part(part)
    return data


def _encode_name(value: Any) -> Any:
    """A member of an enumeration, or a value of a subclass of text or number, as its plain value."""
    if isinstance(value, SafetyLevel):
        return value.name
    for plain in (str, bool, int, float):
        if isinstance(value, plain):
            return plain(value)
    raise SessionError(f"This cannot be kept in a session, as it is not JSON: {value!r:.200}")


@cache
def _layout(kind: type) -> tuple[tuple[str, Any, _Read], ...]:
    """The fields of a class that are kept: name, default or MISSING, and what reads it."""
    hints = get_type_hints(kind)
    kept = [field for field in fields(kind) if field.name not in _LEFT_OUT.get(kind, ())]
    return tuple((field.name, _default(field), _reader(hints[field.name])) for field in kept)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


@cache
def _reader(kind: Any) -> _Read:
    """What reads a value of a type out of data; it raises SessionError when that does not fit."""
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
            return _mapping_reader(_reader(arguments[1]))
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
        if type(data) not in accepted or (is_number and not abs(data) < _MOST_NUMBER):  # NaN is not, either
            raise SessionError(f"An entry is damaged: {_shown(data)} should be of type {kind.__name__}.")
        return data

    return read


def _shown(data: Any) -> str:
    """The beginning of data, for an error: an integer can have more digits than Python writes."""
    return "a huge number" if isinstance(data, int) and abs(data) >= _MOST_NUMBER else f"{data!r:.80}"


def _choice_reader(choices: Mapping[Any, Any]) -> _Read:
    def read(data: Any) -> Any:
        if not isinstance(data, str) or data not in choices:
            raise SessionError(f"An entry is damaged: {data!r:.80} should be one of {', '.join(choices)}.")
        return choices[data]

    return read


def _class_reader(kind: type) -> _Read:
    key, tag = _TAGS.get(kind, ("", ""))

    def read(data: Any) -> Any:
        if not isinstance(data, dict) or (key and data.get(key) != tag):
            raise SessionError(f"An entry is damaged: {data!r:.80} is no {kind.__name__}.")
        values = {}
        for name, default, read_field in _layout(kind):
            if name in data:
                values[name] = read_field(data[name])
            elif default is MISSING:
                raise SessionError(f"An entry is damaged: its {kind.__name__} lacks {name!r}.")
        return kind(**values)

    return read


def _usage_reader() -> _Read:
    """Nobody has used less than nothing: what says so would give limits more room than they have."""
    read_any = _class_reader(Usage)

    def read(data: Any) -> Any:
        usage = read_any(data)
        if min(_counts(usage)) < 0:
            raise SessionError(f"An entry is damaged: {data!r:.80} says that less than nothing was used.")
        return usage

    return read


def _union_reader(kinds: Sequence[Any]) -> _Read:
    tagged = {_TAGS[kind]: _reader(kind) for kind in kinds if kind in _TAGS}
    others = [_reader(kind) for kind in kinds if kind not in _TAGS]

    def read(data: Any) -> Any:
        if tagged and isinstance(data, dict):
            found = next((read_one for (key, tag), read_one in tagged.items() if data.get(key) == tag), None)
            if found is not None:
                return found(data)
        for read_one in others:
            try:
                return read_one(data)
            except SessionError:
                continue
        raise SessionError(f"An entry is damaged: {data!r:.80} is not what should stand there.")

    return read


def _row_reader(origin: Any, kinds: Sequence[Any]) -> _Read:
    """A tuple of any length, a tuple with a type for each place, or a set."""
    is_open = origin is frozenset or kinds[-1] is Ellipsis
    readers = [_reader(kind) for kind in kinds if kind is not Ellipsis]

    def read(data: Any) -> Any:
        if not isinstance(data, list) or not (is_open or len(data) == len(readers)):
            raise SessionError(f"An entry is damaged: {data!r:.80} should be a list of its own length.")
        return origin(readers[0 if is_open else place](each) for place, each in enumerate(data))

    return read


def _mapping_reader(read_value: _Read) -> _Read:
    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise SessionError(f"An entry is damaged: {data!r:.80} should be an object.")
        return {name: read_value(value) for name, value in data.items()}

    return read


Row = tuple[str, float, str]
"""The entry's run, its time and its milestone as a line of JSON."""

_ID_BITS = 62


def rows_of(entries: Iterable[SessionEntry]) -> list[Row]:
    """The entries as they are kept. Raises SessionError for what cannot be kept."""
    return [(entry.run, entry.at, to_line(encode(entry.milestone))) for entry in entries]


def entries_in(rows: Iterable[Row]) -> list[SessionEntry]:
    """The entries that are kept. Raises SessionError for what is none."""
    return [_entry(*row) for row in rows]


def _entry(run: Any, at: Any, line: Any) -> SessionEntry:
    """The entry of a row; a database of others may hold values of any type."""
    if not isinstance(run, str) or not run or not isinstance(line, str):
        raise SessionError("An entry is damaged: its run or its milestone is no text.")
    return SessionEntry(run, decode_seconds(at), decode(from_line(line)))


def entries_found(
    found: Sequence[tuple[int, int | None, str, float, str]], after: Position
) -> tuple[list[SessionEntry], Position]:
    """What a database found behind `after`, and the position behind it: the session's id and place before each row.

    The session alone, without a place, says that nothing is new; no row at all that there is no such session.
    """
    if not found:
        return [], START
    session, place = found[0][0], found[-1][1]
    if place is None:
        return [], (session, after[1] if after[0] == session else 0)
    return entries_in((run, at, line) for _, _, run, at, line in found), (session, place)


def summary_of(name: Any, runs: Any, entries: Any, began: Any, changed: Any) -> SessionSummary:
    """The summary of a session from its row. Raises SessionError for values that no store of ours writes."""
    if not isinstance(name, str):
        raise SessionError(f"A session is damaged: its name {name!r:.80} is no text.")
    return SessionSummary(name, runs, entries, decode_seconds(began), decode_seconds(changed))


def new_id() -> int:
    """The id of a new session: none that was used before, not even in a place that was here before."""
    return 1 + secrets.randbits(_ID_BITS)
