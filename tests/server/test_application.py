"""Does the whole application hold against what strangers try, over real sockets?"""

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
    """A body for requests that have one."""
    return {} if method == "POST" else None


def test_an_application_is_starlettes():
    """`app` gives a Starlette application with a token of its own, or with the one that it is told."""
    agent = Agent("helper", llm=ScriptedLLM())
    assert isinstance(app(agent), Starlette)
    assert app(agent).state.token != app(agent).state.token
    assert app(agent, token="x" * 20).state.token == "x" * 20


def test_what_cannot_be_served_is_said_at_once(monkeypatch):
    """No agent, no model, a weak token, or room for nobody is refused before anything is served."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AGENTKIT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="takes an Agent"):
        app("helper")
    with pytest.raises(NoProvider):
        app(Agent("helper"))
    for options in ({"token": "short"}, {"most_runs": 0}, {"hosts": ["http://x"]}):
        with pytest.raises(ConfigError):
            app(Agent("helper", llm=ScriptedLLM()), **options)


def test_without_an_extra_a_protocol_names_the_command():
    """A protocol whose package is not installed says which extra it needs."""
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
    """Where Starlette is not installed, the error names the extra that brings it."""
    program = (
        "import sys; sys.modules['starlette'] = None\n"
        "from agentkit import Agent\nfrom agentkit.server import app\nfrom agentkit.testing import ScriptedLLM\n"
        "app(Agent('helper', llm=ScriptedLLM()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert install_command("serve") in done.stderr


@pytest.mark.parametrize("path", FILES)
def test_the_pages_files_are_shown_to_everybody(serve, path):
    """The page's own files hold no secret and are shown with what keeps a browser from anything else."""
    shown = serve("unused").ask("GET", path, token=False)
    assert shown.status == 200
    assert shown.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in shown.headers


@pytest.mark.parametrize(("method", "path"), DOORS)
def test_every_other_door_needs_the_token(serve, method, path):
    """Whatever does something, tells something, or is not there, is closed without the token, and with a wrong one."""
    served = serve("unused")
    for headers in ({}, {"Authorization": "Bearer wrong-token-of-some-length"}):
        refused = served.ask(method, path, document(method), headers, token=False)
        assert (refused.status, refused.body["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(("method", "path"), [*DOORS, ("GET", "/"), ("POST", "/sign-in")])
def test_strangers_names_and_origins_are_refused(serve, method, path):
    """A name that was bent to lead here, and a page of another origin, come through no door, even with the token."""
    served = serve("unused")
    bent = served.ask(method, path, document(method), {"Host": "evil.example"})
    foreign = served.ask(method, path, document(method), {"Origin": "http://evil.example"})
    other_port = served.ask(method, path, document(method), {"Origin": "http://127.0.0.1:1"})
    codes = [each.body["error"]["code"] for each in (bent, foreign, other_port)]
    assert codes == ["unknown_host", "foreign_origin", "foreign_origin"]


def test_a_browsers_question_whether_it_may_ask_is_refused(serve):
    """No other origin is ever allowed: the question before a request gets no leave."""
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    refused = serve("unused").ask("OPTIONS", "/v1/chat/completions", None, headers, token=False)
    assert refused.status == 403
    assert not [name for name in refused.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
def test_a_form_of_another_page_changes_nothing(serve, content_type):
    """What a form elsewhere can send without asking is refused by its type."""
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
def test_no_path_leads_to_a_file(serve, path):
    """Addresses lead to a fixed table of things; no other is made a path, and none is redirected."""
    refused = serve("unused").ask("GET", path)
    assert (refused.status, refused.body["error"]["code"]) == (404, "not_found")


def test_other_methods_are_refused(serve):
    """An address answers to its own method alone."""
    assert serve("unused").ask("DELETE", "/page/sessions").status == 405


def test_a_fault_tells_nothing_of_itself(serve):
    """A fault of the program is a plain error to the client; what it was stands in the log."""
    broken = serve(ZeroDivisionError("the secret reason")).complete()
    assert broken.status == 500
    assert broken.body["error"]["code"] == "server_error"
    assert "secret" not in json.dumps(broken.body)


def test_many_wrong_tokens_harm_nobody(serve):
    """Whoever tries many tokens is told so each time, and others are answered as before."""
    served = serve("It is 42.")
    for number in range(200):
        headers = {"Authorization": f"Bearer {number:040}"}
        assert served.ask("POST", "/v1/chat/completions", {}, headers, token=False).status == 401
    assert served.complete().status == 200


def test_bodies_of_strangers_are_not_read(serve):
    """Who shows no token is refused before its body has come, however long it says that this is."""
    served = serve("unused")
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000000\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_a_long_body_is_refused(serve):
    """A body beyond the bound is refused, also when it comes in pieces of unknown number."""
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


def test_slow_clients_keep_nobody_waiting(serve):
    """Clients that have sent half a request, or do not read their answer, keep others from nothing."""
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
    """When the server ends, runs that wait for somebody end, too."""
    from agentkit import system_tools

    served = serve(call("write_file", path="a.txt", content="x"), tools=system_tools)
    served.ask("POST", "/page/run", {"session": "talk", "prompt": "Write"})
    served.server.should_exit = True
    served.thread.join(30)
    assert not served.thread.is_alive()


def test_a_host_of_ones_own_is_answered(serve):
    """A name that the application was told is answered to."""
    served = serve("unused", app_options={"hosts": ["agent.example.com"]})
    assert served.ask("GET", "/v1/models", headers={"Host": "agent.example.com"}).status == 200


ELSEWHERE = "http://localhost:5173"


def test_pages_of_named_origins_may_call_the_server(serve):
    """A named origin passes a preflight and is named in answers; its page needs the token, and gets no other path."""
    served = serve("Hello.", app_options={"origins": ["HTTP://localhost:5173", "https://app.example.com:443"]})
    asks = {"Origin": ELSEWHERE, "Access-Control-Request-Method": "POST"}
    asked = served.ask("OPTIONS", "/ag-ui", token=False, headers=asks | {"Access-Control-Request-Headers": "X-A, b"})
    assert (asked.status, asked.headers["access-control-allow-origin"]) == (200, ELSEWHERE)
    assert {"X-A", "b"} <= set(asked.headers["access-control-allow-headers"].split(", "))
    assert asked.headers["access-control-allow-credentials"] is None
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
def test_what_is_no_origin_is_refused(origin):
    """An origin has a scheme and a host, and no path or wildcard."""
    with pytest.raises(ConfigError, match="is not the origin of a page"):
        app(Agent(llm=ScriptedLLM("x")), origins=[origin])
