"""Server-sent events (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.llm.protocols.error_mapping import not_compatible
from agentkit.llm.protocols.parsing import json_leniently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DONE = (b"[DONE]", b'"[DONE]"')
_RETURN = ord("\r")
"""An int, because searching bytes for bytes tries an int conversion first and raises an exception internally."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_EAGER_LINES = 100
_FIELDS = {b"", b"id", b"retry", b"data", b"event", b"error"}
_UNKNOWN_FIELD = re.compile(rb"[a-zA-Z][\w-]*")
"""Fields that event streams ignore; they can precede the first known one."""

_TYPE = re.compile(rb"[a-z]+[._][a-z._]+")
"""Event names that are chunk types; others, such as `message`, are not."""

_IDLE = {b"ping", b"keepalive", b"keep-alive", b"heartbeat"}
"""Keep-alive events, whose data is ignored."""


class EventStream:
    """Parses bytes as server-sent events with JSON objects, wherever the chunks are cut.

    Lines end in LF, CRLF or CR; comments are skipped. An object without a type gets the type named by its event. The
    data of an `error` event, or of a line `error: …`, is emitted as `{"error": …}`. JSON on lines without a field name,
    in which some servers send errors, is parsed too. `closed` becomes true at `[DONE]`; anything after it is ignored.
    Objects are emitted at the end of their line, to reduce latency and because some servers omit the empty line between
    events. A server that does not stream sends a single JSON object or list, which is collected in `body`.
    `scrub` removes secrets from texts quoted in errors.
    """

    def __init__(self, scrub: Callable[[str], str] = str) -> None:
        self.closed = False
        self.body = bytearray()
        self._is_body: bool | None = None
        self._scrub = scrub
        self._pending: list[bytes] = []
        self._unfinished: list[bytes] = []
        self._is_error = self._is_idle = False
        self._type = ""
        self._has_begun = self._is_after_return = False
        self._unknown = b""

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The objects completed by this chunk. Raises BadResponse if the data is not an event stream of JSON."""
        if self._is_body is None and (start := piece.lstrip(_BYTE_ORDER_MARK + b" \t\r\n")):
            self._is_body = start.startswith((b"{", b"["))
        if self._is_body:
            self.body += piece
            return
        if _RETURN in piece or self._is_after_return:
            piece = self._with_line_feeds(piece)
        lines = piece.split(b"\n")
        unended = lines.pop()
        if self._pending and lines:
            lines[0], self._pending = b"".join([*self._pending, lines[0]]), []
        if unended:
            self._pending.append(unended)
        for line in lines:
            found = None if self.closed else self._line(line)
            if found is not None:
                yield found

    def flush(self) -> Iterator[dict[str, Any]]:
        """The object left incomplete when the server closed the connection.

        Raises BadResponse if all lines were fields that no event stream has.
        """
        yield from self.feed(b"\n\n")
        if self._unknown and not self._has_begun:
            raise not_compatible(self._scrub(self._unknown.decode("utf-8", "replace")))

    def _with_line_feeds(self, piece: bytes) -> bytes:
        """The chunk with LF line ends; a CRLF can be split between two chunks."""
        if not piece:
            return piece
        was_return, self._is_after_return = self._is_after_return, piece.endswith(b"\r")
        if was_return:
            piece = piece.removeprefix(b"\n")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _line(self, line: bytes) -> dict[str, Any] | None:
        """The object completed by this line, if any."""
        if not self._has_begun:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line.strip():
            return self._end_event()
        name, _, value = line.partition(b":")
        if self._is_ignored(name, line):
            return None
        had_begun, self._has_begun = self._has_begun, True
        if name in (b"data", b"error"):
            self._is_error = self._is_error or name == b"error"
            return self._data(value.strip())
        if name == b"event":
            self._is_error, self._is_idle = value.strip() == b"error", value.strip() in _IDLE
            self._type = value.strip().decode() if _TYPE.fullmatch(value.strip()) else ""
        elif any(self._unfinished) or (had_begun and line.startswith((b"{", b"["))):
            return self._data(line)
        elif not had_begun and name not in _FIELDS:
            raise not_compatible(self._scrub(line.decode("utf-8", "replace")))
        return None

    def _is_ignored(self, name: bytes, line: bytes) -> bool:
        """Whether a line before the first known field is a field that event streams do not have."""
        is_ignored = not self._has_begun and name not in _FIELDS and bool(_UNKNOWN_FIELD.fullmatch(name))
        self._unknown = self._unknown or (line if is_ignored else b"")
        return is_ignored

    def _data(self, data: bytes) -> dict[str, Any] | None:
        """Add a data line. An object can span several; after many lines it is parsed only when its event ends."""
        if data in _DONE:
            self.closed = True
            return None
        self._unfinished.append(data)
        return self._object() if self._is_error or len(self._unfinished) <= _MAX_EAGER_LINES else None

    def _object(self) -> dict[str, Any] | None:
        """The object in the buffered lines; None while they do not parse."""
        text = b"\n".join(self._unfinished).decode("utf-8", "replace")
        try:
            parsed = json_leniently(text)
        except (ValueError, RecursionError):
            if not self._is_error:
                return None
            parsed = text
        self._unfinished.clear()
        if isinstance(parsed, list) and len(parsed) == 1:
            parsed = parsed[0]
        if self._is_error:
            parsed = parsed if isinstance(parsed, dict) and "error" in parsed else {"error": parsed or "no explanation"}
        if isinstance(parsed, dict):
            return {"type": self._type, **parsed} if self._type else parsed
        if parsed in (None, []):
            return None
        raise BadResponse(
            f"The stream contains something that is not a JSON object: {self._scrub(text)[:120]!r}. Try again."
        )

    def _end_event(self) -> dict[str, Any] | None:
        if not self._unfinished:
            self._forget()
            return None
        found = self._object() if any(self._unfinished) else None
        if self._is_idle:
            self._unfinished.clear()
        self._forget()
        if any(self._unfinished):
            text = b"\n".join(self._unfinished).decode("utf-8", "replace")
            raise BadResponse(f"The stream contains invalid JSON: {self._scrub(text)[:120]!r}. Try again.")
        self._unfinished.clear()
        return found

    def _forget(self) -> None:
        """Reset the state of the finished event."""
        self._is_error = self._is_idle = False
        self._type = ""
