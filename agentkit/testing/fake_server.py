"""A fake model server on 127.0.0.1 that answers from a script and records requests."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

from agentkit._dataclass import dataclass
from agentkit.testing import fake_responses
from agentkit.testing.fake_responses import (
    PATH,
    Raw,
    RecordedRequest,
    ScriptedAnswer,
    ScriptedReply,
    ServerLine,
    embeddings_reply,
    fail,
    read_request,
    to_reply,
)
from agentkit.testing.request_rules import Receiver, violations
from agentkit.testing.scripted_llm import Script, ScriptError, is_function, resolve, with_call_ids

_EVENT_STREAM = "text/event-stream"
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class _BodyPart(NamedTuple):
    """A part of a body that is sent at once; `is_delta` marks a part of the answer."""

    data: bytes
    is_delta: bool


class _Protocol(NamedTuple):
    """How a protocol serialises an answer, whole and streamed, and frames streamed events."""

    whole: Callable[[ScriptedAnswer, RecordedRequest, int], dict[str, Any]]
    streamed: Callable[[ScriptedAnswer, RecordedRequest, int], Iterator[dict[str, Any]]]
    is_delta: Callable[[Mapping[str, Any]], bool]
    event_name: str
    last: tuple[bytes, ...]


_PROTOCOLS = {
    "/chat/completions": _Protocol(
        fake_responses.completion, fake_responses.chunks, fake_responses.is_chat_delta, "", (b"data: [DONE]\n\n",)
    ),
    "/responses": _Protocol(
        fake_responses.response,
        fake_responses.responses_events,
        fake_responses.is_responses_delta,
        "event: {type}\n",
        (),
    ),
    **dict.fromkeys(
        fake_responses.GEMINI_PATHS,
        _Protocol(fake_responses.gemini_body, fake_responses.gemini_chunks, fake_responses.is_gemini_delta, "", ()),
    ),
    "/messages": _Protocol(
        fake_responses.message, fake_responses.messages_events, fake_responses.is_messages_delta, "event: {type}\n", ()
    ),
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """The chunks to send over a connection, with the delays in seconds before the first and between all.

    `is_complete` says whether the connection can be reused.
    """

    chunks: tuple[bytes, ...]
    delay_seconds: float = 0.0
    pause_seconds: float = 0.0
    is_complete: bool = True


def request_error(request: RecordedRequest) -> ScriptedReply | None:
    """The error response to a request for an unknown URL or with an invalid body; None if it is valid."""
    if request.method != "POST" or not request.path.endswith((*_PROTOCOLS, PATH)):
        return fail(404, f"Unknown request URL: {request.method} {request.path}", code="unknown_url")
    if not isinstance(request.json, dict):
        return fail(400, "We could not parse the JSON body of your request")
    return None


def deliver(reply: ScriptedReply, request: RecordedRequest, number: int) -> Delivery:
    """Serialise `reply` as the response to request `number`, counted from 1."""
    if reply.ending == "silent":
        return Delivery((), reply.delay_seconds, is_complete=False)
    content = reply.content
    status, headers = (content.status, content.headers) if isinstance(content, Raw) else (200, _headers(request))
    pieces = list(_body(content, request, number))
    sent = pieces if reply.ending == "whole" else _truncate(pieces, reply.after)
    data = [piece.data for piece in sent]
    is_complete = reply.ending != "dropped"
    if headers.get("Content-Type", "").startswith(_EVENT_STREAM):
        framing, body = "Transfer-Encoding: chunked", _chunked_encoding(data, is_complete=is_complete)
    else:
        announced = pieces if reply.ending == "dropped" else sent
        framing, body = f"Content-Length: {sum(len(piece.data) for piece in announced)}", data
    head = _head(status, {"X-Request-Id": f"req_{number}", **headers}, framing)
    return Delivery((head, *body), reply.delay_seconds, reply.pause_seconds, is_complete)


def _protocol(request: RecordedRequest) -> _Protocol:
    found = (protocol for path, protocol in _PROTOCOLS.items() if request.path.endswith(path))
    protocol = next(found, None)
    if protocol is None:
        raise ScriptError(
            "A text cannot answer an embeddings request: pass embeddings=, or queue fail(...), raw(...) or drop()."
        )
    return protocol


def _headers(request: RecordedRequest) -> dict[str, str]:
    return {"Content-Type": _EVENT_STREAM if request.is_streamed else "application/json"}


def _body(content: ScriptedAnswer | Raw, request: RecordedRequest, number: int) -> Iterator[_BodyPart]:
    if isinstance(content, Raw):
        return (_BodyPart(piece, is_delta=True) for piece in content.chunks)
    protocol = _protocol(request)
    answer = replace(content, response=with_call_ids(content.response, number))
    if request.is_streamed:
        return _events(protocol, answer, request, number)
    return _split_in_half(_json(protocol.whole(answer, request, number)))


def _events(protocol: _Protocol, answer: ScriptedAnswer, request: RecordedRequest, number: int) -> Iterator[_BodyPart]:
    for event in protocol.streamed(answer, request, number):
        name = protocol.event_name.format_map(event).encode()
        yield _BodyPart(name + b"data: " + _json(event) + b"\n\n", protocol.is_delta(event))
    yield from (_BodyPart(data, is_delta=False) for data in protocol.last)


def _split_in_half(body: bytes) -> Iterator[_BodyPart]:
    middle = len(body) // 2
    yield _BodyPart(body[:middle], is_delta=True)
    yield _BodyPart(body[middle:], is_delta=False)


def _truncate(pieces: list[_BodyPart], after: int | None) -> list[_BodyPart]:
    """The pieces up to delta number `after`, or up to the first delta if `after` is 0."""
    deltas = [at for at, piece in enumerate(pieces) if piece.is_delta]
    if not deltas:
        return pieces[:1]
    sent = deltas[:after]
    return pieces[: sent[-1] + 1] if sent else pieces[: deltas[0]]


def _chunked_encoding(data: list[bytes], *, is_complete: bool) -> list[bytes]:
    """Apply chunked transfer encoding, with the final chunk if the body ends well."""
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in data if piece]
    return [*chunks, b"0\r\n\r\n"] if is_complete else chunks


def _head(status: int, headers: Mapping[str, str], framing: str) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, framing, "", ""]).encode("latin-1")


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_DO_NOT_RETRY = {"X-Should-Retry": "false"}
_JOIN_SECONDS = 5.0


class FakeServer:
    """An OpenAI server on 127.0.0.1 that answers each request with its next line, and records requests.

    A line is a text, `call(...)` or a list of them, `say(...)`, an `AssistantMessage`, a `Response`; one of
    `refuse`, `filtered`, `fail`, `raw`, `slow`, `cut`, `drop`; or a function from the `RecordedRequest` to a line.
    Each can be served over Chat Completions, Responses, Anthropic's Messages or Gemini's protocol, as JSON or streamed,
    as requested, also on Azure's paths. With `repeat` the last line is repeated forever, for example for a load test.

        with FakeServer(call("calculator", expression="2+2"), "It is 4.") as server:
            llm = LLM(base_url=server.base_url, model="any")

    Embedding requests use no line: they are answered with deterministic vectors, which are similar for texts that share
    words. The first of them are answered with the lines in `embeddings` instead.

    With `rules` the server refuses requests that a real server would refuse, such as `rules="mistral"`: they are
    answered with status 400 and the reason, use no line, and are listed in `refusals`.

    A request beyond the last line is answered with status 500 and the reason. At the end of the block,
    `done` is called unless the block raised. Any number of connections can be open at once; each has a thread.
    """

    def __init__(
        self,
        *lines: ServerLine,
        repeat: bool = False,
        embeddings: Sequence[ServerLine] = (),
        rules: Receiver | None = None,
    ) -> None:
        self.refusals: list[str] = []
        self._rules = rules
        self._script = _script(lines, repeat=repeat)
        self._embedding_script = _script(embeddings, repeat=False)
        self._errors: list[Exception] = []
        self._connections: dict[socket.socket, Thread] = {}
        self._lock = Lock()
        self._closing = Event()
        self._listener: socket.socket | None = None
        self._acceptor: Thread | None = None

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests so far, in the order in which they came."""
        return self._script.requests

    @property
    def origin(self) -> str:
        """The address without a path, which Azure calls the endpoint. Raises RuntimeError if the server is closed."""
        if self._listener is None:
            raise RuntimeError("The fake server is not running; use it as `with FakeServer(...) as server:`")
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def base_url(self) -> str:
        """The base URL for an OpenAI client, which ends in /v1. Raises RuntimeError if the server is closed."""
        return f"{self.origin}/v1"

    def start(self) -> None:
        """Open the socket on a free port."""
        self._closing.clear()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._acceptor = Thread(target=self._accept, args=(self._listener,), daemon=True, name="FakeServer")
        self._acceptor.start()

    def close(self) -> None:
        """Close the socket and all connections; waits end at once. Closing twice is allowed."""
        if self._listener is None or self._acceptor is None:
            return
        self._closing.set()
        with suppress(OSError):
            socket.create_connection(self._listener.getsockname()).close()  # wakes the accepting thread
        self._acceptor.join(_JOIN_SECONDS)
        self._listener.close()
        self._listener = self._acceptor = None
        with self._lock:
            open_connections = dict(self._connections)
        for connection, thread in open_connections.items():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(_JOIN_SECONDS)

    def done(self) -> None:
        """Raise ScriptError if lines are unused, a request found no line, or a scripted function raised."""
        if self._errors:
            raise ScriptError(str(self._errors[0])) from self._errors[0]
        self._script.done()
        self._embedding_script.done()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            self.done()

    def _accept(self, listener: socket.socket) -> None:
        while not self._closing.is_set():
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = Thread(target=self._serve, args=(connection,), daemon=True, name="FakeServer connection")
            with self._lock:
                self._connections[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection until either side closes it."""
        try:
            with suppress(OSError), connection, connection.makefile("rb") as stream:
                while not self._closing.is_set() and self._serve_one(connection, stream):
                    pass
        finally:
            with self._lock:
                del self._connections[connection]

    def _serve_one(self, connection: socket.socket, stream: BinaryIO) -> bool:
        """Answer one request; return whether the connection can be reused."""
        try:
            request = read_request(stream)
        except ValueError as error:
            self._send(connection, deliver(fail(400, str(error)), RecordedRequest("", ""), 0))
            return False
        if request is None:
            return False
        delivery = self._next_delivery(request)
        self._send(connection, delivery)
        return delivery.is_complete and request.keeps_alive

    def _next_delivery(self, request: RecordedRequest) -> Delivery:
        """Serialise the next line. Script errors are sent to the client, and raised again by `done`."""
        error_reply = request_error(request) or self._refusal(request)
        if error_reply is not None:
            self.requests.append(request)
            return deliver(error_reply, request, 0)
        try:
            number, line = self._line(request)
            return deliver(to_reply(resolve(line, request)), request, number)
        except Exception as error:  # noqa: BLE001 - a scripted function is the user's; its error is sent to the client
            self._errors.append(error)
            reply = fail(500, f"{type(error).__name__}: {error}", code="script", headers=_DO_NOT_RETRY)
            return deliver(reply, request, 0)

    def _refusal(self, request: RecordedRequest) -> ScriptedReply | None:
        """The error response to a request that breaks the rules of the server; None if it is accepted."""
        broken = violations(self._rules, request.json) if self._rules and not request.path.endswith(PATH) else []
        self.refusals += broken
        return fail(400, broken[0]) if broken else None

    def _line(self, request: RecordedRequest) -> tuple[int, object]:
        """The number of a request and the next line for it. Raises ScriptError if all lines are used."""
        if not request.path.endswith(PATH):
            return self._script.take(request)
        self.requests.append(request)
        with suppress(ScriptError):
            return self._embedding_script.take(request)
        return len(self.requests), embeddings_reply

    def _send(self, connection: socket.socket, delivery: Delivery) -> None:
        self._wait(delivery.delay_seconds)
        for position, piece in enumerate(delivery.chunks):
            self._wait(delivery.pause_seconds if position else 0)
            connection.sendall(piece)

    def _wait(self, seconds: float) -> None:
        """Wait, but stop when the server closes."""
        if seconds:
            self._closing.wait(seconds)


def _script(lines: Sequence[ServerLine], *, repeat: bool) -> Script[RecordedRequest, object]:
    prepared = [line if is_function(line) else to_reply(line) for line in lines]
    return Script(prepared, lambda asked: asked.question, repeat=repeat)
