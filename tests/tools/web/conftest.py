"""Fixtures for the web tools: servers on this machine that answer with given bytes."""

import socket
import ssl
import threading
import time
from contextlib import closing, suppress

import httpx2
import pytest
import trustme

PUBLIC = "93.184.215.14"


class Server:
    """A server that answers each connection with the items of `answer(path)`: bytes to send, seconds to wait.

    `requests` are the requests so far, as text; `hosts` are the names that TLS clients requested.
    """

    def __init__(self, answer, tls=None):
        self.requests, self.hosts = [], []
        self._answer, self._tls = answer, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopping = threading.Event()
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        """Return the URL of the server, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        """Accept no more connections, and abandon active ones."""
        self._stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or the thread that accepts would keep the port open
        self._listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=[self._listener.accept()[0]], daemon=True).start()

    def _serve(self, connection):
        with closing(connection), suppress(OSError):
            connection.settimeout(30)
            connection = self._secured(connection)
            with closing(connection):
                request = self._read(connection)
                if request:
                    self.requests.append(request)
                    self._send(connection, self._answer(request.split(" ")[1]))

    def _secured(self, connection):
        if not self._tls:
            return connection
        self._tls.sni_callback = lambda _, name, __: self.hosts.append(name)
        return self._tls.wrap_socket(connection, server_side=True)

    def _read(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65_536)
            if not chunk:
                return ""
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0)
        while len(body) < length:
            body += connection.recv(65_536)
        return (head + b"\r\n\r\n" + body).decode("latin-1")

    def _send(self, connection, pieces):
        for piece in [pieces] if isinstance(pieces, bytes) else pieces:
            if self._stopping.is_set():
                return
            if isinstance(piece, bytes):
                connection.sendall(piece)
            else:
                time.sleep(piece)


class Rerouted(httpx2.AsyncBaseTransport):
    """A transport that sends each request to a server on this machine; `targets` are the original addresses."""

    def __init__(self, server):
        self.targets = []
        self._port = server.port

    async def handle_async_request(self, request):
        """Send the request to the server of the tests, with all its headers."""
        self.targets.append(request.url.host)
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
        moved = httpx2.Request(request.method, url, headers=request.headers, extensions=request.extensions)
        return await httpx2.AsyncHTTPTransport(trust_env=False).handle_async_request(moved)


def page(body=b"", status=b"200 OK", **headers):
    """Return the bytes of a response: status, headers (`content_type=b"text/html"`), length and body."""
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    lines = [b"%s: %s" % item for item in {b"Content-Length": b"%d" % len(body), **named}.items()]
    return b"HTTP/1.1 " + status + b"\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body


def redirect(location, status=b"302 Found"):
    """Return the bytes of a redirect."""
    return page(status=status, Location=location.encode())


@pytest.fixture
def answered():
    """Return a function that creates the bytes of a response."""
    return page


@pytest.fixture
def redirected():
    """Return a function that creates the bytes of a redirect."""
    return redirect


@pytest.fixture
def serve():
    """Return a function that starts a server from `answer` (bytes, or a function from a path to them)."""
    servers = []

    def start(answer, tls=None):
        servers.append(Server((lambda _: answer) if isinstance(answer, bytes) else answer, tls))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def rerouted():
    """A transport that sends every request to a server on this machine."""
    return Rerouted


@pytest.fixture(scope="session")
def authority():
    """A certificate authority for the tests."""
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority):
    """The TLS settings of a client that trusts only the tests' authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


@pytest.fixture
def certified(authority):
    """Return a function that creates the TLS settings of a server with a certificate for the given names."""

    def settings(*names):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        return context

    return settings
