"""What was a fake server asked?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote, urlsplit

from agentkit.slotted import dataclass


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it came. Header names are in lower case; `json` is None when the body is no JSON."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    json: Any = None

    @property
    def is_azure(self) -> bool:
        """Whether it went to an Azure deployment, whose answers carry the marks of its content filter."""
        return "/openai/deployments/" in self.path

    @property
    def model(self) -> str:
        """The model, or else the Azure deployment, that was asked for; empty when none was."""
        deployment = self.path.partition("/deployments/")[2].partition("/")[0]
        return str((isinstance(self.json, dict) and self.json.get("model")) or deployment)

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants to use the connection again."""
        return self.headers.get("connection", "").lower() != "close"

    @property
    def question(self) -> str:
        """Where it went and the last thing that was said, for a readable error."""
        asked = self.json if isinstance(self.json, dict) else {}
        said = asked.get("messages") or asked.get("input") or ""
        last = said[-1] if isinstance(said, list) else said
        return f"{self.method} {self.path} {json.dumps(last, ensure_ascii=False)}"


def read_request(stream: BinaryIO) -> RecordedRequest | None:
    """The next request on a connection, or None at its end. Raises ValueError for what cannot be read as one."""
    start = stream.readline()
    if not start.strip():
        return None
    method, target, version = _start_line(start)
    headers = _read_headers(stream)
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal():
        raise ValueError("The fake server reads a body by its Content-Length, which must be a number")
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    body = stream.read(int(length))
    if len(body) < int(length):
        return None
    address = urlsplit(target)
    query = dict(parse_qsl(address.query, keep_blank_values=True))
    return RecordedRequest(method, unquote(address.path), query, headers, body, _json_or_none(body))


def _start_line(line: bytes) -> tuple[str, str, str]:
    words = line.decode("latin-1").split()
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ValueError(f"Not an HTTP/1.1 request: {line[:80]!r}")
    return words[0], words[1], words[2]


def _read_headers(stream: BinaryIO) -> dict[str, str]:
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


def _json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
