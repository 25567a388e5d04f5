"""A connection of the server: the subset of HTTP/1.1 with keep-alive that the clients need."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from contextlib import suppress

from benchmarks.server.answers import ResponseFormat, answer, failure, page, whole
from benchmarks.server.script import Script, WrongResultError, script_in, turn_of

_LENGTH = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)")
_STREAMED = re.compile(rb'"stream":\s*true')
_WANTS_USAGE = re.compile(rb'"include_usage":\s*true')


class Tally:
    """Counts of the server since the last tally: evidence that a client really did the work."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._refusals: list[str] = []
        self._most_messages = 0
        self._prompt: list[str] = []

    def count(self, what: str) -> None:
        """Increment a count."""
        self._counts[what] += 1

    def weigh(self, body: bytes) -> None:
        """Record the number of messages if it is the largest."""
        self._most_messages = max(self._most_messages, body.count(b'"role"'))

    def compare(self, body: bytes, *, is_first: bool) -> None:
        """Add the bytes of tools and messages; count a request that does not start with the whole previous one.

        Providers charge less for the part of a prompt that has the same prefix as an earlier one: the tools, then the
        messages.
        """
        data = json.loads(body)
        messages = data.get("messages") or data.get("input") or []
        before, now = self._prompt, [_compact(data.get("tools")), *map(_compact, messages)]
        self._prompt = now
        self._counts["sent_bytes"] += sum(len(part.encode()) for part in now)
        if not is_first and now[: len(before)] != before:
            self._counts["rewritten"] += 1

    def refuse(self, why: str) -> None:
        """Record the reason of a refused request."""
        self._refusals.append(why)

    def dump(self) -> bytes:
        """Return all counts as JSON, and reset them."""
        counts = {**self._counts, "most_messages": self._most_messages, "refusals": self._refusals[:5]}
        self._counts, self._refusals, self._most_messages = Counter(), [], 0
        return json.dumps(counts).encode()


class Connection(asyncio.Protocol):
    """Reads requests and writes answers. A client can use several connections in parallel."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._head_ends = -1
        self._request_ends = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self._tally.count("connections")

    def data_received(self, data: bytes) -> None:
        """Receive bytes, and answer each complete request."""
        self._buffer += data
        while self._is_whole():
            head = bytes(self._buffer[: self._head_ends])
            body = bytes(self._buffer[self._head_ends : self._request_ends])
            del self._buffer[: self._request_ends]
            self._head_ends = self._request_ends = -1
            self._serve(head, body)

    def _is_whole(self) -> bool:
        if self._head_ends < 0:
            found = self._buffer.find(b"\r\n\r\n")
            if found < 0:
                return False
            self._head_ends = found + 4
            length = _LENGTH.search(self._buffer, 0, self._head_ends)
            self._request_ends = self._head_ends + (int(length[1]) if length else 0)
        return len(self._buffer) >= self._request_ends

    def _serve(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ", 2)[1].decode()
        if path == "/tally":
            self._write(whole(self._tally.dump()))
            return
        if path == "/page":
            self._write(page())
            return
        try:
            script = script_in(path)
            turn = turn_of(script, body)
        except ValueError as error:
            self._tally.refuse(str(error))
            self._write(
                failure(str(error), "422 Unprocessable" if isinstance(error, WrongResultError) else "404 Not Found")
            )
            return
        self._tally.count("requests")
        self._tally.weigh(body)
        if script.weigh:
            self._tally.compare(body, is_first=turn == 0)
        self._respond(script, answer(script, turn, _response_format(path, body)))

    def _respond(self, script: Script, response: bytes) -> None:
        if script.delay:
            asyncio.get_running_loop().call_later(script.delay / 1_000, self._write, response)
        else:
            self._write(response)

    def _write(self, response: bytes) -> None:
        if self._transport is not None:
            with suppress(OSError):
                self._transport.write(response)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _response_format(path: str, body: bytes) -> ResponseFormat:
    return ResponseFormat(
        path.partition("?")[0].endswith("/responses"),
        _STREAMED.search(body) is not None,
        _WANTS_USAGE.search(body) is not None,
    )
