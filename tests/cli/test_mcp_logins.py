"""Tests for logging in to MCP servers from the command line, and logging out."""

import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from agentkit.cli.mcp import mcp
from agentkit.cli.terminal import ANSWERED
from agentkit.errors import ConfigError
from agentkit.mcp import MCPServer

SERVER = str(Path(__file__).parents[1] / "mcp" / "protected_server.py")
COMMAND = [sys.executable, "-m", "agentkit", "mcp"]
BROWSER = "import sys, httpx2; httpx2.get(sys.argv[1], follow_redirects=True, timeout=20)"


@pytest.fixture(scope="module")
def url():
    """The URL of a server that requires a login, in a separate process."""
    with subprocess.Popen([sys.executable, SERVER], stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.kill()


@pytest.fixture
def browser(tmp_path):
    """An environment whose browser follows every redirect."""
    program = tmp_path / "browser.py"
    program.write_text(BROWSER)
    return {**os.environ, "BROWSER": f"{sys.executable} {program} %s"}


def test_login_in_a_browser(url, browser):
    """Login shows and opens the URL and waits for the browser's response; the server can be used afterwards."""
    done = subprocess.run(
        [*COMMAND, "login", url], capture_output=True, text=True, env=browser, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("", ANSWERED), done.stderr
    question, address, output = done.stderr.splitlines()[:3]
    assert (question, output) == ("Open this address to log in:", f"Logged in. To log out: agentkit mcp logout {url}")
    assert address.startswith(url.removesuffix("mcp"))
    with MCPServer(url, "far", level="safe") as server:
        assert server.call("add", first=1, second=2) == "3"
    output = CliRunner().invoke(mcp, ["logout", url], standalone_mode=False).stderr
    assert output.startswith("The login was deleted here. The authorization server does not support revocation")
    assert CliRunner().invoke(mcp, ["logout", url], standalone_mode=False).stderr == "No login is stored.\n"
    refused = CliRunner().invoke(mcp, ["tools", url], standalone_mode=False).exception
    assert isinstance(refused, ConfigError)
    assert f"agentkit mcp login {url}" in str(refused)


def test_login_with_a_browser_elsewhere(url):
    """If the browser runs on another machine, the user pastes the final URL."""
    words = [*COMMAND, "login", url, "--paste", "--scope", "read write"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "Open this address to log in:\n"
        answer_text = httpx2.get(process.stderr.readline().strip(), timeout=20).headers["location"]
        _, output = process.communicate(f"{answer_text}\n", timeout=120)
        assert process.returncode == ANSWERED, output
    with MCPServer(url, "far", level="safe") as server:
        assert server.call("add", first=1, second=2) == "3"


def test_secret_of_the_client(url):
    """A client's secret is read from the environment and requires the URL of its authorization server."""
    environment = {"AGENTKIT_MCP_CLIENT_SECRET": "tulip"}
    done = CliRunner().invoke(mcp, ["login", url, "--client-id", "us"], standalone_mode=False, env=environment)
    assert isinstance(done.exception, ConfigError)
    assert "issuer" in str(done.exception)
    assert "tulip" not in str(done.exception)


def test_login_needs_a_url():
    """A command or a host without a scheme is rejected."""
    refused = CliRunner().invoke(mcp, ["login", "mcp.example.com"], standalone_mode=False).exception
    assert "'mcp.example.com' is not a URL" in str(refused)
