"""Tests for connections and the environment: proxies and certificates."""

import socket
import ssl
import threading

import pytest
import trustme

from agentkit.errors import ConfigError, Unreachable
from agentkit.llm.client import LLM

ANSWER = b'{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    """Remove the proxy and certificate variables of the machine."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


class Server:
    """A server that answers each connection with the next bytes and records the requests."""

    def __init__(self, *answers, family=socket.AF_INET, tls=None):
        self.asked, self._answers, self._tls = [], answers, tls
        host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        self._listener = socket.create_server((host, 0), family=family)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self):
        for answer in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                with self._tls.wrap_socket(connection, server_side=True) if self._tls else connection as stream:
                    self._answer(stream, answer)
            except OSError:
                continue  # the client did not trust the certificate

    def _answer(self, stream, answer):
        data = b""
        while b"\r\n\r\n" not in data or (data.startswith(b"POST") and not data.endswith(b"}")):
            data += stream.recv(65_536)
        self.asked.append(data)
        stream.sendall(answer)


def closed_port():
    """Return the number of a port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.mark.parametrize("names", ["*", "other.example, *", "127.0.0.0/8", "::1,127.0.0.1", "127.0.0.1:{port}"])
def test_no_proxy_with_addresses(ask, monkeypatch, names):
    """NO_PROXY accepts a star, an address, a network, or an address with a port."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    with Server(OK) as server:
        monkeypatch.setenv("NO_PROXY", names.format(port=server.port))
        assert ask(LLM(base_url=f"http://127.0.0.1:{server.port}/v1", model="m", max_retries=0)).text == "Hi"


@pytest.mark.parametrize("name", ["localhost", "*localhost", "*.LOCALHOST", ".localhost"])
def test_no_proxy_with_names(ask, monkeypatch, name):
    """NO_PROXY accepts host names and domains."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("NO_PROXY", name)
    with Server(OK) as server:
        assert ask(LLM(base_url=f"http://localhost:{server.port}/v1", model="m", max_retries=0)).text == "Hi"


@pytest.mark.parametrize("name", ["::1", "[::1]", "::/64", "[::]/64", "[::1]:{port}"])
def test_no_proxy_with_ipv6_addresses(ask, monkeypatch, name):
    """NO_PROXY accepts IPv6 addresses with and without brackets."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    try:
        server = Server(OK, family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        monkeypatch.setenv("NO_PROXY", name.format(port=server.port))
        assert ask(LLM(base_url=f"http://[::1]:{server.port}/v1", model="m", max_retries=0)).text == "Hi"


@pytest.mark.parametrize("names", ["", "other.example,10.0.0.0/8,::1,*.other", "10.0.0.0/99", "."])
def test_other_servers_use_the_proxy(ask, monkeypatch, names):
    """Requests to other servers use the proxy, with the user and password in its address."""
    with Server(OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://user:pass@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", names)
        assert ask(LLM(base_url="http://model.example/v1", model="m", max_retries=0)).text == "Hi"
        (question,) = proxy.asked
    assert question.startswith(b"POST http://model.example/v1/chat/completions HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n" in question


def test_proxy_refusal_raises_unreachable(ask, monkeypatch):
    """A proxy's 503 is retried, and its 407 raises an error that names the proxy."""
    with Server(b"HTTP/1.1 503 Busy\r\n\r\n", b"HTTP/1.1 407 Who are you\r\n\r\n") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(
            Unreachable, match=rf"proxy http://127.0.0.1:{proxy.port} refused .*: 407 Who are you\. Check"
        ):
            ask(LLM(base_url="https://model.example/v1", model="m", max_retries=1))


@pytest.mark.parametrize("address", ["http://user:sesame#@host:1", "http://host:sesame", "http://user:sesame@h\n"])
def test_invalid_proxy_address_raises_config_error(ask, monkeypatch, address):
    """An invalid proxy address raises an error that names the variable and hides the password."""
    monkeypatch.setenv("HTTP_PROXY", address)
    with pytest.raises(ConfigError, match=r"The address of the proxy is invalid\. Check HTTP_PROXY\.") as caught:
        ask(LLM(base_url="http://model.example/v1", model="m", max_retries=0))
    assert "sesame" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_certificate_file_set_later_is_used(ask, monkeypatch, tmp_path):
    """A new LLM uses a certificate file that was set after a server was not trusted."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with Server(OK, OK, tls=tls) as server:
        options = {"base_url": f"https://127.0.0.1:{server.port}/v1", "model": "m", "max_retries": 0}
        with pytest.raises(Unreachable, match=r"certificate verify failed.* and SSL_CERT_FILE"):
            ask(LLM(**options))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert ask(LLM(**options)).text == "Hi"
