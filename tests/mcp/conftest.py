"""Fixtures with MCP servers: a plain program, and one made with the MCP package."""

import json
import sys
import time
from pathlib import Path

import pytest
from mcp.server import MCPServer as ForeignServer

from agentkit.mcp import MCPServer

PLAIN = str(Path(__file__).with_name("plain_server.py"))
PATIENCE_SECONDS = 20


@pytest.fixture
def words(tmp_path):
    """The command of the plain server, as a list."""
    return [sys.executable, "-S", PLAIN, str(tmp_path)]


@pytest.fixture
def plain(words):
    """The plain server, in a process."""
    with MCPServer(words, "plain") as server:
        yield server


@pytest.fixture
def messages(tmp_path):
    """Return a function that waits for these lines and returns all lines the plain server has received."""

    def until(*lines):
        def found():
            file = tmp_path / "heard"
            text = file.read_text("utf-8").splitlines() if file.exists() else []
            return text if {*lines} <= {*text} else None

        return awaited(found)

    return until


@pytest.fixture
def offer(tmp_path):
    """Return a function that changes the tools of the plain server, each a name and a description."""

    def write(**described):
        offered = [
            {"name": name, "description": text, "inputSchema": {"type": "object"}} for name, text in described.items()
        ]
        (tmp_path / "tools.json").write_text(json.dumps(offered))

    return write


@pytest.fixture
def foreign():
    """A server made with the MCP package, in this process."""
    server = ForeignServer("foreign")

    @server.tool()
    def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    return server


@pytest.fixture
def eventually():
    """Wait for the first true value of a function."""
    return awaited


@pytest.fixture
def is_alive():
    """Return whether the process with this id is running."""

    def ask(process):
        try:
            return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text("utf-8")
        except OSError:
            return False

    return ask


@pytest.fixture
def process_of(messages):
    """Return the id of the latest process of the plain server."""
    return lambda: int([line for line in messages("tools/list") if line.startswith("started")][-1].split()[1])


def awaited(found):
    """Return the first true value of `found()`; fails after a timeout."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{found} found nothing in {PATIENCE_SECONDS} seconds.")


@pytest.fixture
def library():
    """A server with resources and prompts, and no tools."""
    server = ForeignServer("library")

    @server.resource("notes://rules", description="The house rules.", mime_type="text/markdown")
    def rules() -> str:
        return "Be kind."

    @server.resource("notes://logo", mime_type="image/png")
    def logo() -> bytes:
        return PNG

    @server.resource("notes://{name}/length", title="How long a name is.")
    def length(name: str) -> str:
        return str(len(name))

    @server.prompt(description="Asks for a review.")
    def review(code: str, lines: int = 1) -> str:
        return f"Review these {lines} lines: {code}"

    return server


PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
