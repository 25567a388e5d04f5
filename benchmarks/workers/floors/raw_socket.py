"""Lower bound with a raw socket, which also shows the capacity of the server."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from workload import KEY, Function, Message, converse, request

LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d+)")
MISSING = {
    "respond": "written for Chat Completions only",
    "aask": "the socket is synchronous",
    "wait": "this loop runs one tool after the other",
}


class Wire:
    """A persistent connection that parses only the end of HTTP responses."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 0
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "https":
            self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=host)
        self._head = (
            f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {KEY}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()

    def send(self, body: Message) -> None:
        """Send a request."""
        data = json.dumps(body).encode()
        self._socket.sendall(b"%b%d\r\n\r\n%b" % (self._head, len(data), data))

    def post(self, body: Message) -> Any:
        """Send a request and read its answer."""
        self.send(body)
        read = self._socket.recv(65_536)
        while (end := read.find(b"\r\n\r\n")) < 0:
            read += self._socket.recv(65_536)
        length = LENGTH.search(read, 0, end)
        if length is None:
            raise ValueError("The answer has no length")
        end += 4
        while len(read) < end + int(length[1]):
            read += self._socket.recv(65_536)
        return json.loads(read[end:])

    def lines(self, body: Message) -> Iterator[bytes]:
        """Send a request and yield the lines of its answer, including the lines of chunk headers."""
        self.send(body)
        rest = b""
        while not rest.endswith(b"\r\n0\r\n\r\n"):
            *lines, last = rest.split(b"\n")
            yield from lines
            rest = last + self._socket.recv(65_536)
        yield from rest.split(b"\n")


def ask(url: str, functions: Sequence[Function], history: Sequence[Message] = ()) -> Callable[[], str]:
    """The handwritten loop."""
    return partial(converse, Wire(url).post, functions, history)


def recall(url: str, history: list[Message]) -> Callable[[], str]:
    """One question after a long conversation."""
    return ask(url, (), history)


def stream(url: str) -> Callable[[], int]:
    """One question whose answer is read line by line."""
    wire = Wire(url)

    def counted() -> int:
        count = 0
        for line in wire.lines(request(streamed=True)):
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                count += bool(choices and choices[0]["delta"].get("content"))
        return count

    return counted
