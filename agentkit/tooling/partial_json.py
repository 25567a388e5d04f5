"""Incremental parsing of JSON (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_NO_VALUE = object()
_MAX_LEVELS = 200
"""Deeper nesting is rejected by the type validator and by the JSON parser."""

_MAX_SCALAR_CHARS = 5_000
"""Python does not parse numbers with more characters."""
_DECODER = json.JSONDecoder()
_WHITESPACE = re.compile(r"\s*")
_SCALAR = re.compile(r'[^\s,:\[\]{}"]+')
_UNESCAPED = re.compile(r'[^"\\]+')
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])")
_INCOMPLETE_ESCAPE = re.compile(
    r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?\Z"
)


class PartialJSONParser:
    """An incremental JSON parser. Each character is read once, regardless of the number of chunks.

    Text before the first of the brackets in `opening` is skipped. Invalid JSON, or JSON nested too deeply, ends
    parsing; the value parsed so far remains. `changes` counts how often `value` has grown.
    """

    def __init__(self, opening: str = "{[") -> None:
        self._opening = re.compile(f"[{re.escape(opening)}]")
        self.changes = 0
        self._buffer, self._position = "", 0
        self._open_containers: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str] = []
        self._text_parts: list[str] = []
        self._in_value = False
        self._root: Any = None
        self._step: Callable[[], bool] = self._find_start

    def feed(self, chunk: str) -> None:
        """Parse the next chunk."""
        self._buffer, self._position = self._buffer[self._position :] + chunk, 0
        while self._step():
            pass

    @property
    def is_complete(self) -> bool:
        """Whether the outermost bracket is closed."""
        return self._root is not None

    @property
    def value(self) -> Any:
        """The value parsed so far; None before the first bracket.

        Objects contain the keys whose values have begun. A text can be cut; numbers and words are omitted until
        complete. Returns a new value each time, which later chunks do not change.
        """
        inner: Any = self._string() if self._in_value else _NO_VALUE
        keys = list(self._keys)
        for container in reversed(self._open_containers):
            copy: Any = container.copy()
            key = keys.pop() if isinstance(container, dict) else None
            if inner is not _NO_VALUE and isinstance(copy, list):
                copy.append(inner)
            elif inner is not _NO_VALUE:
                copy[key] = inner
            inner = copy
        return inner if self._open_containers else self._root

    def _string(self) -> str:
        """Return the string being read, as far as it has arrived."""
        self._text_parts = ["".join(self._text_parts)]
        return self._text_parts[0]

    def _peek(self) -> str:
        """Return the next non-blank character, or an empty string at the end of the input."""
        whitespace = _WHITESPACE.match(self._buffer, self._position)
        self._position = whitespace.end() if whitespace else self._position
        return self._buffer[self._position : self._position + 1]

    def _continue_with(self, step: Callable[[], bool], characters: int = 1) -> bool:
        self._position += characters
        self._step = step
        return True

    def _find_start(self) -> bool:
        match = self._opening.search(self._buffer, self._position)
        self._position = match.start() if match else len(self._buffer)
        return match is not None and self._value()

    def _value(self) -> bool:
        match self._peek():
            case "":
                return False
            case "{" | "[" if len(self._open_containers) == _MAX_LEVELS:
                return self._reject()
            case "{":
                self._keys.append("")
                return self._enter({}, self._key)
            case "[":
                return self._enter([], self._item)
            case '"':
                self._text_parts, self._in_value = [], True
                self.changes += 1
                return self._continue_with(self._characters)
        return self._scalar()

    def _enter(self, container: dict[str, Any] | list[Any], step: Callable[[], bool]) -> bool:
        self._open_containers.append(container)
        self.changes += 1
        return self._continue_with(step)

    def _item(self) -> bool:
        return self._close() if self._peek() == "]" else self._value()

    def _key(self) -> bool:
        match self._peek():
            case "":
                return False
            case '"':
                self._text_parts = []
                return self._continue_with(self._characters)
            case "}":
                return self._close()
        return self._reject()

    def _colon(self) -> bool:
        character = self._peek()
        if character == ":":
            return self._continue_with(self._value)
        return bool(character) and self._reject()

    def _after_value(self) -> bool:
        character = self._peek()
        is_list = isinstance(self._open_containers[-1], list)
        if character == ",":
            return self._continue_with(self._item if is_list else self._key)
        if character == ("]" if is_list else "}"):
            return self._close()
        return bool(character) and self._reject()

    def _scalar(self) -> bool:
        match = _SCALAR.match(self._buffer, self._position)
        if match and match.end() == len(self._buffer) and len(match.group()) < _MAX_SCALAR_CHARS:
            return False
        try:
            value = _DECODER.decode(match.group() if match else "")
        except ValueError:
            return self._reject()
        self._position = match.end() if match else self._position
        return self._attach(value)

    def _characters(self) -> bool:
        if match := _UNESCAPED.match(self._buffer, self._position):
            self._text_parts.append(match.group())
            self._position = match.end()
            self.changes += 1
        if self._position == len(self._buffer) or _INCOMPLETE_ESCAPE.match(self._buffer, self._position):
            return False
        if self._buffer[self._position] == '"':
            self._position += 1
            if self._in_value:
                self._in_value = False
                return self._attach(self._string())
            self._keys[-1] = self._string()
            return self._continue_with(self._colon, 0)
        escape = _ESCAPE.match(self._buffer, self._position)
        if escape is None:
            return self._reject()
        self._text_parts.append(json.loads(f'"{escape.group()}"'))
        self.changes += 1
        return self._continue_with(self._characters, len(escape.group()))

    def _close(self) -> bool:
        closed = self._open_containers.pop()
        if isinstance(closed, dict):
            self._keys.pop()
        self._position += 1
        if self._open_containers:
            return self._attach(closed)
        self._root = closed
        return self._continue_with(self._stop, 0)

    def _attach(self, value: Any) -> bool:
        self.changes += 1
        container = self._open_containers[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self._keys[-1]] = value
        return self._continue_with(self._after_value, 0)

    def _reject(self) -> bool:
        """Stop at invalid JSON; skip a bracket that turns out to be part of prose."""
        after_key = self._step == self._value
        if len(self._open_containers) > 1 or self._open_containers[0] or self._in_value or after_key:
            return self._continue_with(self._stop, 0)
        self._open_containers, self._keys = [], []
        return self._continue_with(self._find_start, 0)

    def _stop(self) -> bool:
        return False
