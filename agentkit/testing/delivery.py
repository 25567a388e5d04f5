"""Which bytes does a fake server send for a reply? Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple

from agentkit.slotted import dataclass
from agentkit.testing.recorded import RecordedRequest
from agentkit.testing.replies import Answer, Raw, Reply, fail
from agentkit.testing.script import ScriptError, with_call_ids
from agentkit.testing.shapes import chat, messages, responses
from agentkit.testing.shapes.vectors import PATH

_EVENT_STREAM = "text/event-stream"
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class _Piece(NamedTuple):
    """A part of a body that is sent at once; `is_delta` says that it carries a piece of the answer."""

    data: bytes
    is_delta: bool


class _Protocol(NamedTuple):
    """How one protocol shapes an answer, whole and streamed, and how a streamed event looks on the wire."""

    whole: Callable[[Answer, RecordedRequest, int], dict[str, Any]]
    streamed: Callable[[Answer, RecordedRequest, int], Iterator[dict[str, Any]]]
    is_delta: Callable[[Mapping[str, Any]], bool]
    event_name: str
    last: tuple[bytes, ...]


_PROTOCOLS = {
    "/chat/completions": _Protocol(chat.completion, chat.chunks, chat.is_delta, "", (b"data: [DONE]\n\n",)),
    "/responses": _Protocol(responses.response, responses.events, responses.is_delta, "event: {type}\n", ()),
    "/messages": _Protocol(messages.message, messages.events, messages.is_delta, "event: {type}\n", ()),
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """What goes over a connection, piece by piece, with the waits in seconds before the first and between all.

    `ends_well` says that the connection can be used again.
    """

    pieces: tuple[bytes, ...]
    delay_seconds: float = 0.0
    pause_seconds: float = 0.0
    ends_well: bool = True


def objection(request: RecordedRequest) -> Reply | None:
    """What any server says to a request that asks no model for anything; None when it does."""
    if request.method != "POST" or not request.path.endswith((*_PROTOCOLS, PATH)):
        return fail(404, f"Unknown request URL: {request.method} {request.path}", code="unknown_url")
    if not isinstance(request.json, dict):
        return fail(400, "We could not parse the JSON body of your request")
    return None


def deliver(reply: Reply, request: RecordedRequest, number: int) -> Delivery:
    """The bytes that answer request `number`, counted from 1, with `reply`."""
    if reply.ending == "silent":
        return Delivery((), reply.delay_seconds, ends_well=False)
    content = reply.content
    status, headers = (content.status, content.headers) if isinstance(content, Raw) else (200, _headers(request))
    pieces = list(_body(content, request, number))
    kept = pieces if reply.ending == "whole" else _before_the_end(pieces, reply.after)
    data = [piece.data for piece in kept]
    ends_well = reply.ending != "dropped"
    if headers.get("Content-Type", "").startswith(_EVENT_STREAM):
        framing, body = "Transfer-Encoding: chunked", _in_chunks(data, ends_well=ends_well)
    else:
        promised = pieces if reply.ending == "dropped" else kept
        framing, body = f"Content-Length: {sum(len(piece.data) for piece in promised)}", data
    head = _head(status, {"X-Request-Id": f"req_{number}", **headers}, framing)
    return Delivery((head, *body), reply.delay_seconds, reply.pause_seconds, ends_well)


def _protocol(request: RecordedRequest) -> _Protocol:
    found = (protocol for path, protocol in _PROTOCOLS.items() if request.path.endswith(path))
    protocol = next(found, None)
    if protocol is None:
        raise ScriptError("No words answer a request for vectors: give embeddings= fail(...), raw(...) or drop().")
    return protocol


def _headers(request: RecordedRequest) -> dict[str, str]:
    return {"Content-Type": _EVENT_STREAM if request.json.get("stream") else "application/json"}


def _body(content: Answer | Raw, request: RecordedRequest, number: int) -> Iterator[_Piece]:
    if isinstance(content, Raw):
        return (_Piece(piece, is_delta=True) for piece in content.pieces)
    protocol = _protocol(request)
    answer = replace(content, response=with_call_ids(content.response, number))
    if request.json.get("stream"):
        return _events(protocol, answer, request, number)
    return _halves(_json(protocol.whole(answer, request, number)))


def _events(protocol: _Protocol, answer: Answer, request: RecordedRequest, number: int) -> Iterator[_Piece]:
    for event in protocol.streamed(answer, request, number):
        name = protocol.event_name.format_map(event).encode()
        yield _Piece(name + b"data: " + _json(event) + b"\n\n", protocol.is_delta(event))
    yield from (_Piece(data, is_delta=False) for data in protocol.last)


def _halves(body: bytes) -> Iterator[_Piece]:
    middle = len(body) // 2
    yield _Piece(body[:middle], is_delta=True)
    yield _Piece(body[middle:], is_delta=False)


def _before_the_end(pieces: list[_Piece], after: int | None) -> list[_Piece]:
    """The pieces up to the last of so many deltas, or up to the first delta when there shall be none."""
    deltas = [at for at, piece in enumerate(pieces) if piece.is_delta]
    if not deltas:
        return pieces[:1]
    wanted = deltas[:after]
    return pieces[: wanted[-1] + 1] if wanted else pieces[: deltas[0]]


def _in_chunks(data: list[bytes], *, ends_well: bool) -> list[bytes]:
    """The pieces framed for a body of unknown length, with its closing mark if it ends well."""
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in data if piece]
    return [*chunks, b"0\r\n\r\n"] if ends_well else chunks


def _head(status: int, headers: Mapping[str, str], framing: str) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, framing, "", ""]).encode("latin-1")


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
