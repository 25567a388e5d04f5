"""What is a model told of a tool's result, beyond the result itself? (pure)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from agentkit.agents.running.plan import Lead
from agentkit.decisions import Label
from agentkit.events import ToolCallFinished
from agentkit.messages import ToolCall, ToolResult
from agentkit.parts import File, Image
from agentkit.slotted import dataclass
from agentkit.tooling.result import with_handle

_NOTE = "\n\n[Note: "
_EDITED = "a person changed the arguments of this call to "
_AGAIN = "this very call has brought this very result before; do something else, or answer"

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Telling:
    """What is known about a call when its result comes: how often it came before, and whether a person changed it."""

    call: ToolCall
    earlier: Mapping[str, int] = field(default_factory=dict)
    """How often the call has brought each result before, as `Repeats.of` tells it."""
    repeated_calls: int | None = None
    is_edited: bool = False
    labels: frozenset[Label] = frozenset()
    """What the conversation that the call reads on in may hold."""

    def labelled(self, result: ToolResult) -> ToolResult:
        """The result with what it may hold, and with whom it hands over to."""
        if isinstance(result.value, Lead):
            name = result.value.name
            result = replace(result, status="ok", content=f"The conversation is passed to {name}.", lead=name)
        return replace(result, labels=result.labels | self.labels) if self.labels else result

    def amend(self, result: ToolResult) -> ToolResult:
        """The result as the model is told it."""
        notes = []
        result = self.labelled(result)
        before = self.earlier.get(_said(result), 0)
        result = with_handle(result, self.call.id)
        if self.is_edited:
            notes.append(f"{_EDITED}{self.call.arguments}")
        if self.repeated_calls and before + 1 >= _told_at(self.repeated_calls):
            notes.append(_AGAIN)
        return replace(result, content=f"{result.content}{_NOTE}{'; '.join(notes)}.]") if notes else result


class Repeats:
    """How often each call has brought each result. `calls` may grow: each of them is read once.

    Those that are there at the beginning belong to what the run did before it was taken up again: they count for what
    the model is told, and not for the limit, which is for what is to come.
    """

    def __init__(self, calls: Sequence[ToolCallFinished]) -> None:
        self._calls, self._read, self._start = calls, 0, len(calls)
        self._counts: dict[_Key, Counter[str]] = {}
        self._asked: dict[str, tuple[ToolCall, _Key]] = {}
        self._since: Counter[tuple[_Key, str]] = Counter()
        self._most: tuple[int, str] = (0, "")

    def of(self, call: ToolCall) -> Mapping[str, int]:
        """How often this call has brought each result."""
        self._read_on()
        key = _key(call)
        self._asked[call.id] = call, key
        return self._counts.get(key, {})

    def broken(self, repeated_calls: int | None) -> tuple[int, str] | None:
        """How often a call came too often with the same result, and its tool's name: as many times after the note."""
        self._read_on()
        if not repeated_calls or self._most[0] < _told_at(repeated_calls) + repeated_calls:
            return None
        return self._most

    def _read_on(self) -> None:
        for place in range(self._read, len(self._calls)):
            used = self._calls[place]
            if used.result.status == "interrupted":
                continue
            asked, key = self._asked.pop(used.call.id, (None, ("", "")))
            key, said = key if asked is used.call else _key(used.call), _said(used.result)
            self._counts.setdefault(key, Counter())[said] += 1
            if place >= self._start:
                self._since[key, said] += 1
                self._most = max(self._most, (self._since[key, said], used.call.name))
        self._read = len(self._calls)


def _told_at(repeated_calls: int) -> int:
    """At which time the model is told: never at the first, which repeats nothing."""
    return max(repeated_calls, 2)


def _said(result: ToolResult) -> str:
    """What a result says, without our notes and without the handle, which is another one for each call."""
    said, _, note = result.content.rpartition(_NOTE)
    is_ours = note == f"{_AGAIN}.]" or note.startswith(_EDITED)
    told = result.whole if result.whole is not None else said if is_ours else result.content
    return f"{told}{_digest(result.beside)}" if result.beside else told


def _digest(shown: Sequence[Image | File]) -> str:
    """What tells pictures and files apart that are told in the same words."""
    import hashlib

    return hashlib.sha256(" ".join(part.url for part in shown).encode(errors="replace")).hexdigest()


def _key(call: ToolCall) -> _Key:
    """The tool, and the arguments in one spelling, whatever the order and spacing of the model's JSON."""
    try:
        return call.name, json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return call.name, call.arguments
