"""What does an agent do against a real connection? A fake OpenAI server that says its lines."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import BinaryIO, Self

from agentkit.testing.delivery import Delivery, deliver, objection
from agentkit.testing.recorded import RecordedRequest, read_request
from agentkit.testing.replies import ServerLine, fail, reply_of
from agentkit.testing.script import Script, ScriptError, is_function, resolve
from agentkit.testing.shapes.vectors import PATH, reply_with_vectors

_DO_NOT_RETRY = {"X-Should-Retry": "false"}
_JOIN_SECONDS = 5.0


class FakeServer:
    """An OpenAI server on 127.0.0.1 that says its lines in order, one a request, and records what it was asked.

    A line is a text, `call(...)` or a list of them, `say(...)`, an `AssistantMessage`, a `Response`; one of
    `refuse`, `filtered`, `fail`, `raw`, `slow`, `cut`, `drop`; or a function from the `RecordedRequest` to a line.
    Any of them is served over Chat Completions, Responses or Anthropic's Messages, as JSON or streamed, as it is asked
    for, also on Azure's paths. With `repeat` the last line is said for ever, which is what a load test needs.

        with FakeServer(call("calculator", expression="2+2"), "It is 4.") as server:
            llm = LLM(base_url=server.base_url, model="any")

    Requests for vectors find no line: they are answered with vectors that are the same each time, and near to each
    other for texts that share words. What stands in `embeddings` is answered to the first of them instead.

    A request too many is answered with status 500 and the reason. At the end of the block, unless it failed by
    itself, `done` is called. Any number of connections may be open at once; each has a thread.
    """

    def __init__(self, *lines: ServerLine, repeat: bool = False, embeddings: Sequence[ServerLine] = ()) -> None:
        self._script = _script(lines, repeat=repeat)
        self._of_vectors = _script(embeddings, repeat=False)
        self._objections: list[Exception] = []
        self._connections: dict[socket.socket, Thread] = {}
        self._lock = Lock()
        self._closing = Event()
        self._listener: socket.socket | None = None
        self._acceptor: Thread | None = None

    @property
    def requests(self) -> list[RecordedRequest]:
        """Every request so far, in the order in which they came."""
        return self._script.requests

    @property
    def origin(self) -> str:
        """The address without a path, which is what Azure calls an endpoint. Raises RuntimeError when closed."""
        if self._listener is None:
            raise RuntimeError("The fake server is not running; use it as `with FakeServer(...) as server:`")
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def base_url(self) -> str:
        """The address that an OpenAI client is given; it ends in /v1. Raises RuntimeError when closed."""
        return f"{self.origin}/v1"

    def start(self) -> None:
        """Open the socket, on a port that is free."""
        self._closing.clear()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._acceptor = Thread(target=self._accept, args=(self._listener,), daemon=True, name="FakeServer")
        self._acceptor.start()

    def close(self) -> None:
        """Close the socket and every connection; waits end at once. Closing twice is no error."""
        if self._listener is None or self._acceptor is None:
            return
        self._closing.set()
        with suppress(OSError):
            socket.create_connection(self._listener.getsockname()).close()  # wakes the thread that accepts
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
        """Raise ScriptError when lines are unsaid, a request found no line, or a scripted function raised."""
        if self._objections:
            raise ScriptError(str(self._objections[0])) from self._objections[0]
        self._script.done()
        self._of_vectors.done()

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
        """Answer the requests of one connection until either side ends it."""
        try:
            with suppress(OSError), connection, connection.makefile("rb") as stream:
                while not self._closing.is_set() and self._serve_one(connection, stream):
                    pass
        finally:
            with self._lock:
                del self._connections[connection]

    def _serve_one(self, connection: socket.socket, stream: BinaryIO) -> bool:
        """Whether the connection can be used again."""
        try:
            request = read_request(stream)
        except ValueError as error:
            self._send(connection, deliver(fail(400, str(error)), RecordedRequest("", ""), 0))
            return False
        if request is None:
            return False
        delivery = self._delivery(request)
        self._send(connection, delivery)
        return delivery.ends_well and request.keeps_alive

    def _delivery(self, request: RecordedRequest) -> Delivery:
        """The next line as bytes. What the script objects to is told to the client, and again by `done`."""
        unscripted = objection(request)
        if unscripted is not None:
            self.requests.append(request)
            return deliver(unscripted, request, 0)
        try:
            number, line = self._line(request)
            return deliver(reply_of(resolve(line, request)), request, number)
        except Exception as error:  # noqa: BLE001 - a scripted function is the user's; its error goes over the wire
            self._objections.append(error)
            told = fail(500, f"{type(error).__name__}: {error}", code="script", headers=_DO_NOT_RETRY)
            return deliver(told, request, 0)

    def _line(self, request: RecordedRequest) -> tuple[int, object]:
        """The number of a request and the next line for it. Raises ScriptError when there is none."""
        if not request.path.endswith(PATH):
            return self._script.take(request)
        self.requests.append(request)
        with suppress(ScriptError):
            return self._of_vectors.take(request)
        return len(self.requests), reply_with_vectors

    def _send(self, connection: socket.socket, delivery: Delivery) -> None:
        self._wait(delivery.delay_seconds)
        for position, piece in enumerate(delivery.pieces):
            self._wait(delivery.pause_seconds if position else 0)
            connection.sendall(piece)

    def _wait(self, seconds: float) -> None:
        """Wait, but no longer than until the server closes."""
        if seconds:
            self._closing.wait(seconds)


def _script(lines: Sequence[ServerLine], *, repeat: bool) -> Script[RecordedRequest, object]:
    prepared = [line if is_function(line) else reply_of(line) for line in lines]
    return Script(prepared, lambda asked: asked.question, repeat=repeat)
