"""Tests for the whole application against hostile requests, over real sockets."""

import http.client
import json
import socket
import subprocess
import sys

import pytest
from starlette.applications import Starlette

from agentkit import Agent, ConfigError, NoProvider
from agentkit.installation import install_command
from agentkit.server import app
from agentkit.testing import ScriptedLLM, call

FILES = [
    "/",
    "/page.css",
    "/page.js",
    "/run.js",
    "/cards.js",
    "/markdown.js",
    "/icon.svg",
    "/dashboard",
    "/dashboard.js",
]
DOORS = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/helper"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/ag-ui"),
    ("POST", "/a2a"),
    ("GET", "/page/about"),
    ("GET", "/page/sessions"),
    ("GET", "/page/session?name=x"),
    ("GET", "/page/events?session=x&serial=1"),
    ("POST", "/page/run"),
    ("POST", "/page/answer"),
    ("POST", "/page/stop"),
    ("POST", "/page/undo"),
    ("GET", "/nowhere"),
]


def document(method):
    """Return a body for methods that have one."""
    return {} if method == "POST" else None


def test_app_returns_a_starlette_application():
    """`app` returns a Starlette application with a random token or the given one."""
    agent = Agent("helper", llm=ScriptedLLM())
    assert isinstance(app(agent), Starlette)
    assert app(agent).state.token != app(agent).state.token
    assert app(agent, token="x" * 20).state.token == "x" * 20


def test_invalid_app_arguments_raise_an_error(monkeypatch):
    """`app` raises an error for a non-agent, a missing model, a weak token, no capacity or an invalid host."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AGENTKIT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="takes an Agent"):
        app("helper")
    with pytest.raises(NoProvider):
        app(Agent("helper"))
    for options in ({"token": "short"}, {"max_runs": 0}, {"hosts": ["http://x"]}):
        with pytest.raises(ConfigError):
            app(Agent("helper", llm=ScriptedLLM()), **options)


def test_without_an_extra_a_protocol_names_the_command():
    """A protocol whose package is not installed raises an error that names the extra."""
    program = (
        "import asyncio, sys\nsys.modules |= dict.fromkeys(['a2a', 'acp', 'ag_ui'])\n"
        "from agentkit import Agent\nfrom agentkit.errors import MissingExtra\n"
        "from agentkit.server import a2a, acp, ag_ui\n"
        "from agentkit.server.http_types import HTTPRequest\nfrom agentkit.testing import ScriptedLLM\n"
        "async def body():\n    yield b'{}'\n"
        "def asked():\n    return HTTPRequest(body(), 'application/json')\n"
        "agent = Agent(llm=ScriptedLLM())\n"
        "tasks, page = a2a.A2AEndpoint(agent, None, None), ag_ui.AGUIEndpoint(None, None)\n"
        "for work in (lambda: tasks.card(asked()), lambda: tasks.rpc(asked()), lambda: page.run(asked()),\n"
        "             lambda: acp.serve_editor(agent, None)):\n"
        "    try:\n        asyncio.run(work())\n    except MissingExtra as error:\n        print(error.extra)\n"
        "print(type(a2a.A2AAgent('http://127.0.0.1').run('Hi').error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["a2a", "a2a", "ag-ui", "acp", "MissingExtra"]


def test_protocols_are_loaded_when_they_are_used():
    """The packages of the protocols are not imported until a client uses them."""
    program = (
        "import sys\nfrom agentkit import Agent\nfrom agentkit.server import app\n"
        "from agentkit.testing import ScriptedLLM\napp(Agent(llm=ScriptedLLM()))\n"
        "print([name for name in ('ag_ui', 'a2a', 'acp', 'google.protobuf', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_extra_the_command_that_installs_it_is_named():
    """Without Starlette, the error names the extra to install."""
    program = (
        "import sys; sys.modules['starlette'] = None\n"
        "from agentkit import Agent\nfrom agentkit.server import app\nfrom agentkit.testing import ScriptedLLM\n"
        "app(Agent('helper', llm=ScriptedLLM()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert install_command("serve") in done.stderr


@pytest.mark.parametrize("path", FILES)
def test_pages_files_are_shown_to_everybody(serve, path):
    """The page's files are public and sent with restrictive headers."""
    shown = serve("unused").ask("GET", path, token=False)
    assert shown.status == 200
    assert shown.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in shown.headers


@pytest.mark.parametrize(("method", "path"), DOORS)
def test_every_other_path_requires_the_token(serve, method, path):
    """All other paths, including unknown ones, return 401 for a missing or wrong token."""
    served = serve("unused")
    for headers in ({}, {"Authorization": "Bearer wrong-token-of-some-length"}):
        refused = served.ask(method, path, document(method), headers, token=False)
        assert (refused.status, refused.body["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(("method", "path"), [*DOORS, ("GET", "/"), ("POST", "/sign-in")])
def test_unknown_hosts_and_origins_are_rejected(serve, method, path):
    """Unknown host names and other origins are rejected on every path, even with the token."""
    served = serve("unused")
    bent = served.ask(method, path, document(method), {"Host": "evil.example"})
    foreign = served.ask(method, path, document(method), {"Origin": "http://evil.example"})
    other_port = served.ask(method, path, document(method), {"Origin": "http://127.0.0.1:1"})
    codes = [each.body["error"]["code"] for each in (bent, foreign, other_port)]
    assert codes == ["unknown_host", "foreign_origin", "foreign_origin"]


def test_preflight_of_another_origin_is_rejected(serve):
    """A CORS preflight from another origin is rejected."""
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    refused = serve("unused").ask("OPTIONS", "/v1/chat/completions", None, headers, token=False)
    assert refused.status == 403
    assert not [name for name in refused.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
def test_form_content_types_are_rejected(serve, content_type):
    """Content types that an HTML form can send cross-origin return 415."""
    refused = serve("unused").ask("POST", "/page/run", b'{"prompt": "x"}', {"Content-Type": content_type})
    assert refused.status == 415


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2fpyproject.toml",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/page/../../application.py",
        "/page.js/",
        "//evil.example/",
        "/page",
        "/page/",
        "/v1/chat/completions/",
        "/page.html",
        "/__init__.py",
    ],
)
def test_unknown_paths_are_not_found(serve, path):
    """Unknown paths return 404 without a redirect."""
    refused = serve("unused").ask("GET", path)
    assert (refused.status, refused.body["error"]["code"]) == (404, "not_found")


def test_other_methods_are_rejected(serve):
    """Other methods on a known path are rejected."""
    assert serve("unused").ask("DELETE", "/page/sessions").status == 405


def test_unexpected_exception_is_not_disclosed(serve):
    """An unexpected exception returns a generic 500 error without its message."""
    broken = serve(ZeroDivisionError("the secret reason")).complete()
    assert broken.status == 500
    assert broken.body["error"]["code"] == "server_error"
    assert "secret" not in json.dumps(broken.body)


def test_many_wrong_tokens_do_not_block_others(serve):
    """Many requests with wrong tokens all return 401 and do not block a valid request."""
    served = serve("It is 42.")
    for number in range(200):
        headers = {"Authorization": f"Bearer {number:040}"}
        assert served.ask("POST", "/v1/chat/completions", {}, headers, token=False).status == 401
    assert served.complete().status == 200


def test_unauthenticated_bodies_are_not_read(serve):
    """A request without the token is rejected before its body is read."""
    served = serve("unused")
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000000\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_long_body_is_rejected(serve):
    """A body over the limit is rejected, also when it is sent in chunks."""
    served = serve("unused")
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    pieces = (b" " * 1_000_000 for _ in range(10))
    try:
        connection.request("POST", "/v1/chat/completions", pieces, headers, encode_chunked=True)
    except OSError:
        pass  # it was refused before all of it was sent
    else:
        assert connection.getresponse().status == 413
    connection.close()


def test_slow_clients_do_not_block_others(serve):
    """Clients that send incomplete requests do not block other requests."""
    served = serve("It is 42.")
    idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
    for connection in idle[:25]:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: loc")
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
    for connection in idle[25:]:
        connection.sendall(head.encode() + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    assert served.complete().status == 200
    for connection in idle:
        connection.close()


def test_runs_end_with_the_server(serve, tmp_path):
    """When the server stops, its waiting runs end."""
    from agentkit import system_tools

    served = serve(call("write_file", path="a.txt", content="x"), tools=system_tools)
    served.ask("POST", "/page/run", {"session": "talk", "prompt": "Write"})
    served.server.should_exit = True
    served.thread.join(30)
    assert not served.thread.is_alive()


def test_configured_host_is_accepted(serve):
    """A host name passed in `hosts` is accepted."""
    served = serve("unused", app_options={"hosts": ["agent.example.com"]})
    assert served.ask("GET", "/v1/models", headers={"Host": "agent.example.com"}).status == 200


ELSEWHERE = "http://localhost:5173"


def test_pages_of_named_origins_may_call_the_server(serve):
    """A configured origin passes the preflight, and its requests still require the token."""
    served = serve("Hello.", app_options={"origins": ["HTTP://localhost:5173", "https://app.example.com:443"]})
    asks = {"Origin": ELSEWHERE, "Access-Control-Request-Method": "POST"}
    request = served.ask("OPTIONS", "/ag-ui", token=False, headers=asks | {"Access-Control-Request-Headers": "X-A, b"})
    assert (request.status, request.headers["access-control-allow-origin"]) == (200, ELSEWHERE)
    assert {"X-A", "b"} <= set(request.headers["access-control-allow-headers"].split(", "))
    assert request.headers["access-control-allow-credentials"] is None
    page = {"Origin": ELSEWHERE, "Sec-Fetch-Site": "cross-site"}
    for path, token, status in (("/v1/models", True, 200), ("/v1/models", False, 401), ("/page/sessions", True, 403)):
        answer = served.ask("GET", path, headers=page, token=token)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, ELSEWHERE)
    assert served.ask("GET", "/v1/models", headers={"Origin": "https://app.example.com"}).status == 200
    for other in ("http://localhost:5174", "https://localhost:5173", "null", "http://localhost:5173.evil.example"):
        answer = served.ask("GET", "/v1/models", headers={"Origin": other})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (403, None)
        assert served.ask("OPTIONS", "/ag-ui", token=False, headers=asks | {"Origin": other}).status == 400
    streamed = served.complete(stream=True)
    assert streamed.status == 200


@pytest.mark.parametrize("origin", ["*", "localhost:5173", "http://a.example/path", "http://*.example", "null", 5])
def test_invalid_origin_is_rejected(origin):
    """An invalid value in `origins` raises a ConfigError."""
    with pytest.raises(ConfigError, match="is not the origin of a page"):
        app(Agent(llm=ScriptedLLM("x")), origins=[origin])
