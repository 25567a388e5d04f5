"""Tests for `agentkit mcp`: offering tools, and displaying the tools of servers."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agentkit.cli.mcp import mcp
from agentkit.cli.terminal import ANSWERED, REFUSED, USAGE
from agentkit.errors import ConfigError, ToolError
from agentkit.mcp import MCPServer

PLAIN = str(Path(__file__).parents[1] / "mcp" / "plain_server.py")
COMMAND = [sys.executable, "-c", "from agentkit.cli.mcp import mcp; mcp.main(prog_name='agentkit mcp')"]
TOKEN = "tulip-tulip-tulip-4711"


@pytest.fixture
def offer(tmp_path):
    """Make the plain server offer tools with these names and descriptions."""

    def write(**described):
        tools = [
            {"name": name, "description": text, "inputSchema": {"type": "object"}} for name, text in described.items()
        ]
        (tmp_path / "tools.json").write_text(json.dumps(tools))

    return write


@pytest.fixture
def look(tmp_path):
    """Run `agentkit mcp tools` on the plain server; return stdout, stderr and the exit code."""

    def run(*options):
        server = f"{sys.executable} -S {PLAIN} {tmp_path}"
        done = CliRunner().invoke(mcp, ["tools", server, *options], standalone_mode=False)
        assert done.exception is None, done.exception
        return done.stdout, done.stderr, done.return_value

    return run


def test_tools_of_a_server_are_listed(offer, look):
    """The tools of a server are listed, with direction marks in descriptions escaped."""
    offer(look="Looks.\nAt all.", hide="Hides \u202e it.")
    out, err, code = look()
    names = [line.split()[0] for line in out.splitlines()]
    assert (names, err, code) == (["look", "hide"], "", ANSWERED)
    assert "\\u{202e}" in out
    assert "At all" not in out


def test_server_without_tools(offer, look):
    """A server without tools produces an empty list."""
    offer()
    assert look() == ("\n", "", ANSWERED)


def test_changed_tool_is_reported_until_accepted(offer, look):
    """A changed tool is reported with an exit code until it is accepted."""
    offer(look="Looks.")
    look()
    offer(look="Looks elsewhere.")
    _, err, code = look()
    assert 'Changed: look has changed. Its description was "Looks." and is "Looks elsewhere."' in err
    assert code == REFUSED
    _, err, code = look("--accept")
    assert (err.startswith("Accepted: look"), code) == (True, ANSWERED)
    assert look()[1:] == ("", ANSWERED)


def test_json_output(offer, look):
    """--json prints complete tool definitions, hashes and changes."""
    offer(look="Looks.")
    look()
    offer(look="Looks.", more="More.")
    document = json.loads(look("--json")[0])
    assert [each["name"] for each in document["tools"]] == ["look", "more"]
    assert len(document["tools"][0]["sha256"]) == 64
    assert document["changes"] == [{"tool": "more", "change": 'more is new: "More.".'}]


@pytest.fixture
def listed(tmp_path, offer):
    """A configuration file that lists the plain server twice, and one disabled server."""
    offer(look="Looks.")
    plain = {"command": sys.executable, "args": ["-S", PLAIN, str(tmp_path)]}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"one": plain, "two": plain, "off": {"disabled": True, "url": "x"}}}))
    return str(path)


def shown(*words):
    """Return the stdout, stderr and exit code of `agentkit mcp tools`."""
    done = CliRunner().invoke(mcp, ["tools", *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout, done.stderr, done.return_value


def test_servers_of_a_file(listed, offer):
    """All servers of a file are shown, or only the named one."""
    out, err, code = shown("--config", listed)
    assert [line.split()[0] for line in out.splitlines()] == ["one:", "look", "two:", "look"]
    assert (err, code) == ("Left out: off is disabled.\n", ANSWERED)
    offer(look="Looks elsewhere.")
    out, err, code = shown("two", "--config", listed)
    assert (out.split()[0], err.startswith("Changed: look"), code) == ("look", True, REFUSED)
    documents = json.loads(shown("--config", listed, "--json")[0])
    assert [(each["server"], len(each["changes"])) for each in documents] == [("one", 1), ("two", 1)]


def test_unusable_server_does_not_hide_others(listed):
    """Usable servers are listed, and the problem of an unusable server is reported."""
    servers = json.loads(Path(listed).read_text("utf-8"))["mcpServers"]
    servers = {"gone": {"command": "no-such-program"}, "one": servers["one"]}
    Path(listed).write_text(json.dumps({"mcpServers": servers}), "utf-8")
    out, err, code = shown("--config", listed)
    assert (out.split()[:2], code) == (["one:", "look"], USAGE)
    assert "'gone' cannot be used" in err
    assert "The program 'no-such-program' cannot be started" in err
    documents = json.loads(shown("--config", listed, "--json")[0])
    assert [("error" in each, "tools" in each) for each in documents] == [(True, False), (False, True)]
    with pytest.raises(ConfigError, match="cannot be used"):
        shown("gone", "--config", listed)


def test_unreadable_config_file_is_a_usage_error(tmp_path):
    """A configuration file that cannot be read raises a usage error."""
    done = CliRunner().invoke(mcp, ["tools", "--config", str(tmp_path / "none.json")], standalone_mode=False)
    assert isinstance(done.exception, click.UsageError)
    assert "cannot be read" in str(done.exception)


@pytest.mark.parametrize("words", [["tools"], ["tools", "--config", "mcp.json", "--token", "tulip"]])
def test_ambiguous_server_is_a_usage_error(words):
    """A missing server or conflicting server options raise a usage error that mentions --config."""
    done = CliRunner().invoke(mcp, words, standalone_mode=False)
    assert isinstance(done.exception, click.UsageError)
    assert "--config" in str(done.exception)


def test_invalid_tool_is_reported(tmp_path, look):
    """A tool with an invalid schema is listed, and its problem is reported."""
    odd = {"name": "odd", "inputSchema": {"type": "object", "properties": {"a\u202e": {"type": "file"}}}}
    (tmp_path / "tools.json").write_text(json.dumps([odd]))
    out, err, code = look()
    assert (out.split()[0], code) == ("odd", ANSWERED)
    assert err.startswith(
        "Left out: Tool 'odd': its schema is not a valid JSON schema ('file' is not a valid type of 'a\\u202e'"
    )
    assert "'file' is not a valid type" in json.loads(look("--json")[0])["unusable"]["odd"]


def test_hints_are_shown_as_claims_of_the_server(look):
    """Hints of a server about its tools are shown as the server's claims."""
    assert "Repeats a text. (it says: only reads)" in look()[0]


def test_tools_over_stdio(tmp_path):
    """`agentkit mcp serve` offers the named tools over stdio and uses the current folder."""
    (tmp_path / "note.txt").write_text("hello")
    words = [*COMMAND, "serve", "--tools", "core, read_file", "--safety", "system", "--ask-client"]
    with MCPServer(words, "ours", folder=tmp_path) as server:
        assert [tool.remote_name for tool in server][-1] == "read_file"
        assert json.loads(server.call("read_file", path="note.txt"))["content"] == "hello"


def test_tools_are_served_over_stdio(tmp_path):
    """`agentkit mcp serve` offers the named tools over stdio and uses the current folder."""
    (tmp_path / "note.txt").write_text("hello")
    folder = tmp_path / ".agentkit" / "templates"
    folder.mkdir(parents=True)
    (folder / "translate.toml").write_text('prompt = "In $language: $input"\ndescription = "Translates."\n')
    words = [*COMMAND, "serve", "--tools", "core", "--files", "--sessions", "--prompts", "translate"]
    with MCPServer(words, "ours", folder=tmp_path, environment={"XDG_STATE_HOME": str(tmp_path / "state")}) as server:
        uris = {each.uri for each in server.resources()}
        assert {"file:///note.txt", "file:///{+path}", "session:///{+name}"} <= uris
        assert server.read("file:///note.txt") == "hello"
        (prompt,) = server.prompts()
        assert (prompt.name, prompt.description) == ("translate", "Translates.")
        assert server.prompt("translate", language="French", input="dog") == "In French: dog"
        with pytest.raises(ToolError, match="'language' is missing"):
            server.prompt("translate", input="dog")


@pytest.mark.parametrize("token", [(), ("--token", TOKEN)])
def test_tools_over_http(token):
    """Over HTTP, the address and a generated token are printed; Ctrl-C stops the server."""
    words = [*COMMAND, "serve", "-t", "core", "--http", "--port", "0", *token]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        shown = TOKEN if token else process.stdout.readline().strip().rpartition(" ")[2]
        with MCPServer(url, "ours", token=shown) as server:
            assert json.loads(server.call("calculator", expression="6 * 7"))["result"] == 42
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == ANSWERED
