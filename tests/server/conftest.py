"""Fixtures for servers: a server on a real socket, plain requests to it, and a browser."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from agentkit import Agent, core_tools
from agentkit.server import app
from agentkit.testing import ScriptedLLM

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE = 30


class Served:
    """An agent served on a separate port."""

    def __init__(self, agent, **options):
        import uvicorn

        self.application = app(agent, **options)
        self.token = self.application.state.token
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        settings = uvicorn.Config(self.application, log_level="critical", timeout_graceful_shutdown=0)
        self.server = uvicorn.Server(settings)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def __enter__(self):
        self.thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(PATIENCE)

    def ask(self, method, path, document=None, headers=None, *, token=True):
        """Send one request and return its status, headers and body, parsed if it is JSON."""
        text = {"Content-Type": "application/json"} if document is not None else {}
        text |= {"Authorization": f"Bearer {self.token}"} if token else {}
        text |= headers or {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        body = document if isinstance(document, bytes | None) else json.dumps(document)
        connection.request(method, path, body, {name: value for name, value in text.items() if value is not None})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        with contextlib.suppress(ValueError):
            content = json.loads(content)
        return SimpleNamespace(status=response.status, headers=response.headers, body=content)

    def complete(self, prompt="How much is 6*7?", **more):
        """Request a completion."""
        document = {"model": "helper", "messages": [{"role": "user", "content": prompt}], **more}
        return self.ask("POST", "/v1/chat/completions", document)

    def events(self, session, serial):
        """Return all events of a run of the page."""
        body = self.ask("GET", f"/page/events?session={session}&serial={serial}").body
        lines = [body] if isinstance(body, dict) else map(json.loads, body.splitlines())
        return [line for line in lines if line]

    def question(self, session, serial):
        """Return the next question of a run."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {self.token}"}
        connection.request("GET", f"/page/events?session={session}&serial={serial}", headers=headers)
        with contextlib.closing(connection), connection.getresponse() as lines:
            return next(line for line in map(json.loads, filter(bytes.strip, lines)) if line["kind"] == "question")

    def run(self, prompt, session="talk"):
        """Run a prompt of the page to its end and return its events."""
        started = self.ask("POST", "/page/run", {"session": session, "prompt": prompt})
        assert started.status == 202, started.body
        return self.events(session, started.body["serial"])


def until(is_so, seconds=PATIENCE):
    """Wait until a condition is true; return its value."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if value := is_so():
            return value
        time.sleep(0.01)
    raise AssertionError("It did not come to be so in time")


@pytest.fixture
def serve(tmp_path):
    """Return a function that serves an agent with scripted lines or a given agent until the test ends."""
    with contextlib.ExitStack() as stack:

        def start(*lines, agent=None, tools=core_tools, app_options=None, **options):
            if agent is None:
                llm = ScriptedLLM(*lines)
                agent = Agent("helper", tools, llm=llm, workspace=tmp_path, **options)
            return stack.enter_context(Served(agent, **(app_options or {})))

        yield start


@dataclass
class Browser:
    """A headless Chromium, controlled over two pipes with its own protocol."""

    process: subprocess.Popen
    commands: int
    replies: int
    rest: bytes = b""
    count: int = 0
    session: str | None = None
    target: str | None = None

    def call(self, method, **parameters):
        """Send one command; return its result."""
        self.count += 1
        number = self.count
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                self.rest += os.read(self.replies, 1 << 16) or _closed()
            line, _, self.rest = self.rest.partition(b"\0")
            reply = json.loads(line)
            if reply.get("method") == "Runtime.exceptionThrown":
                raise AssertionError(reply["params"]["exceptionDetails"])
            if reply.get("id") == number:
                if "error" in reply:
                    raise RuntimeError(reply["error"])
                return reply["result"]

    def open(self, url, width=1100, height=800, scheme="light"):
        """Open a new tab at a URL, with this size and colour scheme."""
        self.session = None
        if self.target:
            self.call("Target.closeTarget", targetId=self.target)
        self.target = target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=url)
        return self

    def js(self, expression, *, is_ready=True):
        """Return the value of an expression in the page, or None if the page is not loaded yet."""
        wanted = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        try:
            result = self.call("Runtime.evaluate", **wanted)
        except RuntimeError:  # the page is being replaced by another
            if is_ready:
                raise
            return None
        assert not (is_ready and "exceptionDetails" in result), result
        return None if "exceptionDetails" in result else result["result"].get("value")

    def until(self, expression):
        """Wait until an expression is true in the page; return its value."""
        try:
            return until(lambda: self.js(expression, is_ready=False))
        except AssertionError:
            raise AssertionError(
                f"never so: {expression}\n{self.js('document.body.innerText', is_ready=False)}"
            ) from None

    def click(self, words):
        """Click the first visible button with this text as soon as it is enabled."""
        found = (
            f"[...document.querySelectorAll('button')].find((each) => each.textContent.trim() === {json.dumps(words)}"
        )
        self.until(f"!!{found} && !each.disabled && each.offsetParent)")
        self.js(f"{found} && !each.disabled && each.offsetParent).click()")

    def type(self, text):
        """Type a prompt and submit it."""
        self.until("document.activeElement?.id === 'prompt'")
        self.call("Input.insertText", text=text)
        self.press("Enter")

    def press(self, key):
        """Press a key."""
        codes = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, "")}
        code, text = codes[key]
        known = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **known)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    @property
    def text(self):
        """Return the visible text of the page."""
        return self.js("document.body.innerText")


def _closed():
    raise AssertionError("The browser has gone")


@contextlib.contextmanager
def launched(profile):
    """Launch a browser with this profile folder."""
    (reference, commands), (replies, actual) = os.pipe(), os.pipe()
    options = f"--headless --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run --user-data-dir={profile}"
    shell = f'exec "$0" {options} 3<&{reference} 4>&{actual}'
    process = subprocess.Popen(
        ["bash", "-c", shell, BROWSER],
        pass_fds=(reference, actual),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(reference)
    os.close(actual)
    yield Browser(process, commands, replies)
    process.terminate()
    process.wait(PATIENCE)
    os.close(commands)
    os.close(replies)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Start one browser for all tests, or skip them if Chromium is not installed."""
    if BROWSER is None:
        pytest.skip("Chromium is not installed")
    with launched(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(chromium):
    """Return the browser without a session or cookies."""
    chromium.session = None
    chromium.call("Storage.clearCookies")
    return chromium
