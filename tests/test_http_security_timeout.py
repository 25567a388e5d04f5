"""Tests for the timeout of idle connections."""

import socket
import threading

from agentkit.http_security import create_server


def test_idle_connection_is_closed():
    """A connection without a complete request is closed after a timeout."""

    async def answer(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    server = create_server(answer, 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        head = b"GET / HTTP/1.1\r\nHost: x\r\n"
        for text in (b"", head, head + b"\r\n" + head):
            with socket.create_connection(listener.getsockname(), timeout=30) as connection:
                connection.sendall(text)
                answered = b""
                while piece := connection.recv(1_000):
                    answered += piece
            assert answered.endswith(b"ok") is (b"\r\n\r\n" in text)
        server.should_exit = True
        thread.join(30)
