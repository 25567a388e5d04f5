"""How is a conversation written down without saying it again with each request? What was said has a number (pure).

What is new stands there whole, with its number; what was there before is named, a row of it as `"3-17"`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from agentkit.errors import SessionError
from agentkit.memory.codec import Data, encode_part

_Span = tuple[int, int]
_MOST_ROWS = 16
_MOST_IN_ROW, _MOST_DIGITS = 100_000, 12
_MOST_IN_ALL = 5_000_000
"""How many messages all requests of a cassette name together: a span of a few bytes can name 100,000."""


class Numbers:
    """The numbers that were given so far, for writing."""

    def __init__(self) -> None:
        self._of_object: dict[int, tuple[int, object]] = {}
        self._of_text: dict[bytes, int] = {}
        self._rows: deque[tuple[tuple[object, ...], list[_Span]]] = deque(maxlen=_MOST_ROWS)

    def row(self, things: Iterable[object]) -> list[Any]:
        """The things in order: whole ones, and numbers of those that were there before."""
        now = tuple(things)
        count, spans = self._begun(now)
        written: list[_Span | Data] = list(spans)
        for thing in now[count:]:
            number, data = self.enter(thing)
            _extend(spans, number)
            if data is None:
                _extend(written, number)
            else:
                written.append(data)
        self._rows.append((now, spans))
        return [part if isinstance(part, dict) else _shown(part) for part in written]

    def _begun(self, now: tuple[object, ...]) -> tuple[int, list[_Span]]:
        """How long an earlier row is that this one begins with and replaces, and the numbers of its parts."""
        for place, (earlier, spans) in reversed([*enumerate(self._rows)]):
            count = len(earlier)
            if count and earlier == now[:count]:
                del self._rows[place]  # this very one: another that is equal keeps its own spans
                return count, spans
        return 0, []

    def one(self, thing: object) -> Any:
        """The thing whole, or its number when it was there before."""
        number, data = self.enter(thing)
        return str(number) if data is None else data

    def enter(self, thing: object, encoded: Any = None) -> tuple[int, Data | None]:
        """The thing's number, and the thing as data when it is new. `encoded` spares encoding it once more."""
        known = self._of_object.get(id(thing))
        if known is not None:
            return known[0], None
        encoded = encode_part(thing) if encoded is None else encoded
        data = encoded if "role" in encoded else {"text" if isinstance(encoded, str) else "schema": encoded}
        text = blake2b(repr(data).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if text in self._of_text:
            return self._of_text[text], None
        number = self._of_text[text] = len(self._of_text) + 1
        self._of_object[id(thing)] = number, thing  # the thing is kept, so that its id is no other's
        return number, {"number": number, **data}


class Numbered:
    """What bears which number, for reading."""

    def __init__(self, most_in_all: int = _MOST_IN_ALL) -> None:
        self._things: dict[int, Data] = {}
        self._left = most_in_all

    def enter(self, data: Mapping[str, Any]) -> int:
        """Take in a thing that stands there whole; its number. Raises SessionError when it has none."""
        number = data.get("number")
        if type(number) is not int:
            raise SessionError("A cassette is damaged: something that was said has no number.")
        self._things[number] = {key: value for key, value in data.items() if key != "number"}
        return number

    def __getitem__(self, number: int) -> Data:
        try:
            return self._things[number]
        except KeyError:
            raise SessionError(f"A cassette is damaged: it names number {number}, which nothing has.") from None

    def row(self, row: Sequence[Any]) -> list[int]:
        """The numbers of a row. Raises SessionError for one, or for rows together, longer than any conversation."""
        numbers = list[int]()
        for part in row:
            span = (self.enter(part),) if isinstance(part, dict) else self._span(part)
            missing = next((number for number in span if number not in self._things), None)
            if missing is not None:
                self[missing]
            self._left -= len(span)
            if len(numbers) + len(span) > _MOST_IN_ROW:
                raise SessionError(f"A cassette is damaged: it sends more than {_MOST_IN_ROW:,} messages at once.")
            if self._left < 0:
                raise SessionError("A cassette is damaged: its requests name more messages together than are read.")
            numbers += span
        return numbers

    def _span(self, part: Any) -> Sequence[int]:
        """The numbers that a text names: one, or all from the first to the last."""
        first, _, last = part.partition("-") if isinstance(part, str) else ("", "", "")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and max(len(first), len(last)) <= _MOST_DIGITS):
            raise SessionError(f"A cassette is damaged: {part!r:.80} is neither a message nor a number of one.")
        return range(int(first), int(last) + 1)


def _extend(row: list[Any], number: int) -> None:
    """Add a number to the spans in the row."""
    if row and isinstance(row[-1], tuple) and row[-1][1] + 1 == number:
        row[-1] = (row[-1][0], number)
    else:
        row.append((number, number))


def _shown(span: _Span) -> str:
    first, last = span
    return str(first) if first == last else f"{first}-{last}"
