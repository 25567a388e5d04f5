"""Server-sent events (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.llm.protocols.error_mapping import not_compatible_error
from agentkit.llm.protocols.parsing import parse_json_leniently

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

_KEEPALIVE_EVENTS = {b"ping", b"keepalive", b"keep-alive", b"heartbeat"}
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
        self._data_lines: list[bytes] = []
        self._is_error = self._is_keepalive = False
        self._type = ""
        self._has_started = self._is_after_return = False
        self._unknown_line = b""

    def feed(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """The objects completed by this chunk. Raises BadResponse if the data is not an event stream of JSON."""
        if self._is_body is None and (start := chunk.lstrip(_BYTE_ORDER_MARK + b" \t\r\n")):
            self._is_body = start.startswith((b"{", b"["))
        if self._is_body:
            self.body += chunk
            return
        if _RETURN in chunk or self._is_after_return:
            chunk = self._normalise_line_ends(chunk)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if self._pending and lines:
            lines[0], self._pending = b"".join([*self._pending, lines[0]]), []
        if rest:
            self._pending.append(rest)
        for line in lines:
            parsed = None if self.closed else self._feed_line(line)
            if parsed is not None:
                yield parsed

    def flush(self) -> Iterator[dict[str, Any]]:
        """The object left incomplete when the server closed the connection.

        Raises BadResponse if all lines were fields that no event stream has.
        """
        yield from self.feed(b"\n\n")
        if self._unknown_line and not self._has_started:
            raise not_compatible_error(self._scrub(self._unknown_line.decode("utf-8", "replace")))

    def _normalise_line_ends(self, chunk: bytes) -> bytes:
        """The chunk with LF line ends; a CRLF can be split between two chunks."""
        if not chunk:
            return chunk
        was_after_return, self._is_after_return = self._is_after_return, chunk.endswith(b"\r")
        if was_after_return:
            chunk = chunk.removeprefix(b"\n")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _feed_line(self, line: bytes) -> dict[str, Any] | None:
        """The object completed by this line, if any."""
        if not self._has_started:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line.strip():
            return self._end_event()
        name, _, value = line.partition(b":")
        if self._is_ignored(name, line):
            return None
        had_started, self._has_started = self._has_started, True
        if name in (b"data", b"error"):
            self._is_error = self._is_error or name == b"error"
            return self._add_data(value.strip())
        if name == b"event":
            self._is_error, self._is_keepalive = value.strip() == b"error", value.strip() in _KEEPALIVE_EVENTS
            self._type = value.strip().decode() if _TYPE.fullmatch(value.strip()) else ""
        elif any(self._data_lines) or (had_started and line.startswith((b"{", b"["))):
            return self._add_data(line)
        elif not had_started and name not in _FIELDS:
            raise not_compatible_error(self._scrub(line.decode("utf-8", "replace")))
        return None

    def _is_ignored(self, name: bytes, line: bytes) -> bool:
        """Whether a line before the first known field is a field that event streams do not have."""
        is_ignored = not self._has_started and name not in _FIELDS and bool(_UNKNOWN_FIELD.fullmatch(name))
        self._unknown_line = self._unknown_line or (line if is_ignored else b"")
        return is_ignored

    def _add_data(self, data: bytes) -> dict[str, Any] | None:
        """Add a data line. An object can span several; after many lines it is parsed only when its event ends."""
        if data in _DONE:
            self.closed = True
            return None
        self._data_lines.append(data)
        return self._parse_object() if self._is_error or len(self._data_lines) <= _MAX_EAGER_LINES else None

    def _parse_object(self) -> dict[str, Any] | None:
        """The object in the buffered lines; None while they do not parse."""
        text = b"\n".join(self._data_lines).decode("utf-8", "replace")
        try:
            parsed = parse_json_leniently(text)
        except (ValueError, RecursionError):
            if not self._is_error:
                return None
            parsed = text
        self._data_lines.clear()
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
        if not self._data_lines:
            self._reset_event()
            return None
        parsed = self._parse_object() if any(self._data_lines) else None
        if self._is_keepalive:
            self._data_lines.clear()
        self._reset_event()
        if any(self._data_lines):
            text = b"\n".join(self._data_lines).decode("utf-8", "replace")
            raise BadResponse(f"The stream contains invalid JSON: {self._scrub(text)[:120]!r}. Try again.")
        self._data_lines.clear()
        return parsed

    def _reset_event(self) -> None:
        """Reset the state of the finished event."""
        self._is_error = self._is_keepalive = False
        self._type = ""
