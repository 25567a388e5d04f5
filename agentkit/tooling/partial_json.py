"""Incremental parsing of JSON (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_NOTHING = object()
_MAX_LEVELS = 200
"""Deeper nesting is rejected by the type validator and by the JSON parser."""

_MAX_SCALAR_CHARS = 5_000
"""Python does not parse numbers with more characters."""
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_SCALAR = re.compile(r'[^\s,:\[\]{}"]+')
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])")
_HALF_ESCAPE = re.compile(
    r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?\Z"
)


class GrowingJSON:
    """An incremental JSON parser. Each character is read once, regardless of the number of pieces.

    Text before the first of the brackets in `opening` is skipped. Invalid JSON, or JSON nested too deeply, ends
    parsing; the value parsed so far remains. `changes` counts how often `value` has grown.
    """

    def __init__(self, opening: str = "{[") -> None:
        self._opening = re.compile(f"[{re.escape(opening)}]")
        self.changes = 0
        self._rest, self._at = "", 0
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str] = []
        self._pieces: list[str] = []
        self._in_value = False
        self._whole: Any = None
        self._step: Callable[[], bool] = self._begin

    def feed(self, piece: str) -> None:
        """Parse the next piece."""
        self._rest, self._at = self._rest[self._at :] + piece, 0
        while self._step():
            pass

    @property
    def is_whole(self) -> bool:
        """Whether the outermost bracket is closed."""
        return self._whole is not None

    @property
    def value(self) -> Any:
        """The value parsed so far; None before the first bracket.

        Objects contain the keys whose values have begun. A text can be cut; numbers and words are omitted until
        complete. Returns a new value each time, which later pieces do not change.
        """
        inner: Any = self._string() if self._in_value else _NOTHING
        keys = list(self._keys)
        for container in reversed(self._open):
            copy: Any = container.copy()
            key = keys.pop() if isinstance(container, dict) else None
            if inner is not _NOTHING and isinstance(copy, list):
                copy.append(inner)
            elif inner is not _NOTHING:
                copy[key] = inner
            inner = copy
        return inner if self._open else self._whole

    def _string(self) -> str:
        """Return the string being read, as far as it has arrived."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def _next(self) -> str:
        """Return the next non-blank character, or an empty string at the end of the input."""
        blank = _BLANK.match(self._rest, self._at)
        self._at = blank.end() if blank else self._at
        return self._rest[self._at : self._at + 1]

    def _go_on(self, step: Callable[[], bool], characters: int = 1) -> bool:
        self._at += characters
        self._step = step
        return True

    def _begin(self) -> bool:
        match = self._opening.search(self._rest, self._at)
        self._at = match.start() if match else len(self._rest)
        return match is not None and self._value()

    def _value(self) -> bool:
        match self._next():
            case "":
                return False
            case "{" | "[" if len(self._open) == _MAX_LEVELS:
                return self._give_up()
            case "{":
                self._keys.append("")
                return self._enter({}, self._key)
            case "[":
                return self._enter([], self._item)
            case '"':
                self._pieces, self._in_value = [], True
                self.changes += 1
                return self._go_on(self._characters)
        return self._scalar()

    def _enter(self, container: dict[str, Any] | list[Any], step: Callable[[], bool]) -> bool:
        self._open.append(container)
        self.changes += 1
        return self._go_on(step)

    def _item(self) -> bool:
        return self._close() if self._next() == "]" else self._value()

    def _key(self) -> bool:
        match self._next():
            case "":
                return False
            case '"':
                self._pieces = []
                return self._go_on(self._characters)
            case "}":
                return self._close()
        return self._give_up()

    def _colon(self) -> bool:
        found = self._next()
        if found == ":":
            return self._go_on(self._value)
        return bool(found) and self._give_up()

    def _after(self) -> bool:
        found = self._next()
        is_list = isinstance(self._open[-1], list)
        if found == ",":
            return self._go_on(self._item if is_list else self._key)
        if found == ("]" if is_list else "}"):
            return self._close()
        return bool(found) and self._give_up()

    def _scalar(self) -> bool:
        match = _SCALAR.match(self._rest, self._at)
        if match and match.end() == len(self._rest) and len(match.group()) < _MAX_SCALAR_CHARS:
            return False
        try:
            value = _DECODER.decode(match.group() if match else "")
        except ValueError:
            return self._give_up()
        self._at = match.end() if match else self._at
        return self._attach(value)

    def _characters(self) -> bool:
        if match := _PLAIN.match(self._rest, self._at):
            self._pieces.append(match.group())
            self._at = match.end()
            self.changes += 1
        if self._at == len(self._rest) or _HALF_ESCAPE.match(self._rest, self._at):
            return False
        if self._rest[self._at] == '"':
            self._at += 1
            if self._in_value:
                self._in_value = False
                return self._attach(self._string())
            self._keys[-1] = self._string()
            return self._go_on(self._colon, 0)
        escape = _ESCAPE.match(self._rest, self._at)
        if escape is None:
            return self._give_up()
        self._pieces.append(json.loads(f'"{escape.group()}"'))
        self.changes += 1
        return self._go_on(self._characters, len(escape.group()))

    def _close(self) -> bool:
        closed = self._open.pop()
        if isinstance(closed, dict):
            self._keys.pop()
        self._at += 1
        if self._open:
            return self._attach(closed)
        self._whole = closed
        return self._go_on(self._stop, 0)

    def _attach(self, value: Any) -> bool:
        self.changes += 1
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self._keys[-1]] = value
        return self._go_on(self._after, 0)

    def _give_up(self) -> bool:
        """Stop at invalid JSON; skip a bracket that turns out to be part of prose."""
        after_key = self._step == self._value
        if len(self._open) > 1 or self._open[0] or self._in_value or after_key:
            return self._go_on(self._stop, 0)
        self._open, self._keys = [], []
        return self._go_on(self._begin, 0)

    def _stop(self) -> bool:
        return False
