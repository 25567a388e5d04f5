"""What do the bytes of an event stream say? Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentkit.errors import BadResponse
from agentkit.llm.wire.failures import not_compatible

if TYPE_CHECKING:
    from collections.abc import Iterator

_DONE = b"[DONE]"
_FIELDS = (b"event:", b"id:", b"retry:", b":")


class EventStream:
    """Splits bytes into the JSON objects of server-sent events, wherever the pieces were cut.

    Lines end in LF or CRLF; comments and event names are passed over. `closed` becomes true at `[DONE]`;
    what follows it is ignored. An object is given out as soon as its line ends, for the sake of latency and of
    servers that leave out the empty line between events.
    """

    def __init__(self) -> None:
        self.closed = False
        self._pending = b""
        self._unfinished: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The objects that are complete with this piece. Raises BadResponse for what is no event stream of JSON."""
        lines = (self._pending + piece).split(b"\n")
        self._pending = lines.pop()
        for line in lines:
            if not self.closed:
                yield from self._line(line.rstrip(b"\r"))

    def flush(self) -> Iterator[dict[str, Any]]:
        """The object that a server left unended when it closed the connection."""
        yield from self.feed(b"\n\n")

    def _line(self, line: bytes) -> Iterator[dict[str, Any]]:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data == _DONE:
                self.closed = True
            elif data:
                yield from self._data(data)
        elif not line:
            self._check_finished()
        elif not line.startswith(_FIELDS):
            raise not_compatible(line.decode("utf-8", "replace"))

    def _data(self, data: bytes) -> Iterator[dict[str, Any]]:
        """An object may span several data lines, so one that does not parse waits for the next."""
        self._unfinished.append(data)
        try:
            parsed = json.loads(b"\n".join(self._unfinished))
        except ValueError:
            return
        self._unfinished.clear()
        if not isinstance(parsed, dict):
            raise BadResponse(f"The stream carries something that is no JSON object: {data[:120]!r}")
        yield parsed

    def _check_finished(self) -> None:
        if self._unfinished:
            raise BadResponse(f"The stream carries broken JSON: {self._unfinished[0][:120]!r}")
