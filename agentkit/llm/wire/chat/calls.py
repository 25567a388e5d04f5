"""How are tool calls put together, of whatever pieces a server sends? Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.events import ToolCallDelta
from agentkit.llm.wire import reading
from agentkit.llm.wire.reading import says
from agentkit.messages import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentkit.events import Event

_CALL_FIELDS = {"index", "id", "type", "function", "name", "arguments"}
_MAX_LOOKS = 100
"""How often the arguments of one call are parsed to see whether they are complete."""


def calls_in(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tool calls, or pieces of them, in a message or delta: a list, or only one, perhaps in the older form."""
    if "tool_calls" not in message and "function_call" not in message:
        return []
    calls = message.get("tool_calls")
    if found := [calls] if isinstance(calls, dict) else reading.dictionaries(calls):
        return found
    older = reading.dictionary(message.get("function_call"))
    return [{"index": "function_call", "function": older}] if any(older.values()) else []


def _function_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name and arguments of a call, which some servers do not put under `function`."""
    return reading.dictionary(call.get("function")) or call


def read_call(call: Mapping[str, Any]) -> ToolCall:
    """A tool call that came whole."""
    function = _function_of(call)
    extra = {name: value for name, value in call.items() if name not in _CALL_FIELDS and says(value)}
    arguments = reading.arguments_text(function.get("arguments"))
    return ToolCall(reading.word(call.get("id")), reading.word(function.get("name")), arguments, extra)


class _CallPieces:
    """A tool call that arrives in pieces."""

    def __init__(self, index: str) -> None:
        self.index = index
        self.id = self.name = ""
        self.arguments = reading.Pieces()
        self._looks_left = _MAX_LOOKS
        self.extra: dict[str, Any] = {}
        self.is_named_again = False

    def add(self, part: Mapping[str, Any], name: str, arguments: str) -> str:
        """Take in the next piece; the arguments in it, as they can be shown. Id and name may come more than once."""
        self.id = self.id or reading.word(part.get("id"))
        self.is_named_again = self.is_named_again or bool(self.name and name)
        if not self.arguments:
            self.name = _grown(self.name, name)
        self.name = self.name or name
        self.extra |= {key: value for key, value in part.items() if key not in _CALL_FIELDS and says(value)}
        return self.arguments.add(arguments)

    def is_complete(self) -> bool:
        """Whether the arguments are whole. Each look costs the whole text, so after many the answer is no."""
        if not (self._looks_left and self.arguments.ends_like_an_object()):
            return False
        self._looks_left -= 1
        return reading.is_complete_json(str(self.arguments))

    def whole(self) -> ToolCall:
        """The call."""
        return ToolCall(
            self.id, self.name, reading.arguments_text(reading.without_empty(str(self.arguments))), self.extra
        )


def _grown(name: str, piece: str) -> str:
    """A name with its next piece; some servers repeat the name instead, or send all of it so far."""
    return piece if piece.startswith(name) else name if name.startswith(piece) else name + piece


class CallsInPieces:
    """The tool calls of one streamed answer."""

    def __init__(self) -> None:
        self._calls: list[_CallPieces] = []
        self._by_index: dict[str, int] = {}
        self._by_id: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, parts: list[dict[str, Any]]) -> list[Event]:
        """The events in the next pieces."""
        return [self._feed_call(part) for part in parts] if len(parts) < 2 else self._feed_calls(parts)

    def whole(self) -> list[ToolCall]:
        """The calls by their indexes, if each has one of its own, or else as they came."""
        return [call.whole() for call in _in_order(self._calls)]

    def _feed_calls(self, parts: list[dict[str, Any]]) -> list[Event]:
        """Several pieces at once. Where nothing but their order tells them apart, they go on with the last calls."""
        first = len(self._calls) - len(parts)
        names = (name for part in parts for name in (part.get("index"), part.get("id"), _function_of(part).get("name")))
        if first < 0 or any(name not in (None, "") for name in names):
            return [self._feed_call(part) for part in parts]
        return [self._feed_call(part, first + place) for place, part in enumerate(parts)]

    def _feed_call(self, part: Mapping[str, Any], place: int | None = None) -> ToolCallDelta:
        function = _function_of(part)
        name, piece = reading.word(function.get("name")), reading.arguments_piece(function.get("arguments"))
        position = self._position(part, name, piece) if place is None else place
        if position == len(self._calls):
            self._calls.append(_CallPieces(reading.word(part.get("index"))))
            self._by_index[self._calls[position].index] = position
        call = self._calls[position]
        if _says_again(call, part, piece):
            return ToolCallDelta(position, "", "")
        known, shown = call.id, call.add(part, name, piece)
        if call.id != known:
            self._by_id[call.id] = position
        return ToolCallDelta(position, name, shown)

    def _position(self, part: Mapping[str, Any], name: str, arguments: str) -> int:
        """Which call a piece belongs to. Indexes may be missing, and a second whole call may come under index 0."""
        index, call_id, count = reading.word(part.get("index")), reading.word(part.get("id")), len(self._calls)
        if index:
            same = self._by_index.get(index, count)
            if same == count and count and not name:
                same = self._by_index[index] = self._misnumbered(call_id)
        else:
            same = self._by_id.get(call_id, count) if call_id else count
            if same == count and count and not (name and self._calls[-1].name):
                return count - 1
        if same == count or _says_again(self._calls[same], part, arguments):
            return same
        return count if _begins_anew(self._calls[same], part, name, arguments) else same

    def _misnumbered(self, call_id: str) -> int:
        """Which call a piece without a name belongs to whose index no call has: the one of its id, or the last."""
        if call_id:
            return self._by_id.get(call_id, len(self._calls))
        return len(self._calls) - (not self._calls[-1].is_complete())


def _in_order(calls: list[_CallPieces]) -> list[_CallPieces]:
    """The calls by their indexes, if each has one of its own, or else as they came."""
    indexes = {call.index for call in calls if call.index.isdecimal()}
    return sorted(calls, key=lambda call: (len(call.index), call.index)) if len(indexes) == len(calls) else calls


def _begins_anew(call: _CallPieces, part: Mapping[str, Any], name: str, arguments: str) -> bool:
    """Whether a piece under the index of `call` begins another one; per piece ids may change and names be repeated."""
    if not (name and call.name):
        return False
    has_id, has_other_id = bool(part.get("id")), bool(part.get("id")) and reading.word(part["id"]) != call.id
    if call.is_complete():
        # An empty object may come before the arguments, of which this is only a piece.
        is_all = not has_id or str(call.arguments) != "{}" or reading.is_complete_json(arguments)
        return (bool(arguments) and is_all) or has_other_id or not (call.id or call.is_named_again)
    return has_other_id and name != call.name


def _says_again(call: _CallPieces, part: Mapping[str, Any], arguments: str) -> bool:
    """Whether a piece is a whole call that is there already, sent once more: it has the same id and arguments."""
    if not (part.get("id") and reading.word(part["id"]) == call.id and call.is_complete()):
        return False
    return arguments == str(call.arguments)
