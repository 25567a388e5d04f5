"""Tests for tools from Python files on the command line."""

import json
import sys
from pathlib import Path

import pytest

from agentkit import ConfigError, core_tools
from agentkit.cli.loaders import load_tool, load_tools
from agentkit.cli.terminal import REFUSED
from agentkit.errors import UnknownTool
from agentkit.testing import FakeServer, call, say

PLAIN = Path(__file__).parents[1] / "mcp" / "plain_server.py"
PROGRAM = '''
from __future__ import annotations
from dataclasses import dataclass
from functools import cache
from json import dumps
from agentkit import Agent, core_tools, tool

@dataclass
class Order:
    lines: list[str]

def price(order: Order) -> int:
    """The price of an order in EUR."""
    return 5 * len(order.lines)

@tool(level="system")
def pay(euros: float) -> str:
    """Pay."""
    return f"paid {euros}"

@cache
def stock(name: str) -> int:
    """How many there are."""
    return 3

class Endless:
    def __getattr__(self, name):
        return Endless()

anything = Endless()

def _secret() -> str:
    return "no tool"
'''


@pytest.fixture
def shop(tmp_path):
    """A program with three tools."""
    path = tmp_path / "shop.py"
    path.write_text(PROGRAM)
    return path


def test_functions_and_tools_of_a_program(shop):
    """The functions and tools a program defines are offered, but not imports, classes or _names."""
    assert load_tools([str(shop)]).names == ("price", "pay", "stock")
    assert load_tools(["core", f"{shop}:pay", f"{shop}:pay", "calculator"]).names == (*core_tools.names, "pay")


def test_tools_list_defines_the_offered_tools(shop):
    """A list named `tools` replaces the functions offered by default."""
    shop.write_text(f"{PROGRAM}\ntools = [core_tools.only('calculator'), _secret]\n")
    assert load_tools([str(shop)]).names == ("calculator", "_secret")


def test_program_is_run_once(tmp_path):
    """A program is run once, however often its tools are named."""
    path = tmp_path / "counting.py"
    path.write_text("import os\nos.mkdir(__file__ + '.run')\ndef count() -> int:\n    return 1\n")
    assert load_tools([str(path)])[0] is load_tool(f"{path}:count")
    assert (tmp_path / "counting.py.run").is_dir()


@pytest.mark.parametrize(
    ("text", "named", "expected"),
    [
        (None, "{0}", "one.py' does not exist. Name a Python file of tools"),
        ("x = 1\n", "{0}", "offers no tools. Write functions in it, or a list: tools = [...]"),
        ("tools = 5\n", "{0}", "tools= takes tools"),
        ("def one(): ...\ndef two(): ...\n", "{0}", "has one, two. Name one: "),
        ("def one(x: open): ...\n", "{0}", "one.py: "),
        ("nix\n", "{0}", "line 1: NameError"),
    ],
)
def test_file_without_a_usable_tool_raises(tmp_path, text, named, expected):
    """A missing, failing or ambiguous file raises an error."""
    path = tmp_path / "one.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=r".") as caught:
        load_tool(named.format(path))
    assert expected in str(caught.value)


def test_unknown_name_suggests_the_closest(shop):
    """An unknown name raises an error that suggests the closest name."""
    with pytest.raises(UnknownTool, match=r"shop.py: .*Did you mean 'price'\?"):
        load_tool(f"{shop}:prise")
    with pytest.raises(UnknownTool, match=r"Did you mean 'core'\?\n.*The collections are: core, .* FILE\.py"):
        load_tools(["cor"])


def test_model_calls_tools_of_a_file(command, shop):
    """`-t FILE.py` offers the tools of a file to the model, subject to the same policy."""
    questions = [call("price", order={"lines": ["a", "b"]}), call("pay", euros=10), say("Ten.")]
    with FakeServer(*questions) as server:
        out, err, code = command("-t", str(shop), "--no-session", "What is it?", server=server)
    assert (out, code) == ("Ten.\n", 0)
    assert "→ 10" in err
    assert "safety-level" in err
    results = [each["content"] for each in server.requests[-1].json["messages"] if each["role"] == "tool"]
    assert results[0] == "10"
    assert "pay can change this machine or data elsewhere, so it needs approval." in results[1]


def test_tool_of_a_file_is_run_and_explained(command, shop):
    """A tool of a file can be shown, run and explained like a shipped tool."""
    assert "The price of an order in EUR." in command("tools", "show", f"{shop}:price")[0]
    order = json.dumps({"lines": ["a"]})
    assert command("tools", "run", f"{shop}:price", f"order={order}")[0] == "5\n"
    assert command("explain", f"{shop}:pay", "3")[0].startswith("ask: ")


def test_hosted_tool_is_selected(command):
    """`-t hosted:web_search` selects a hosted tool, which cannot be run locally."""
    assert [(each.name, each.spec.hosted) for each in load_tools(["core", "hosted:web_search"])][-1] == (
        "web_search",
        {"type": "web_search"},
    )
    assert "run by the provider" in "".join(command("tools", "run", "hosted:web_search")[:2])
    assert command("explain", "hosted:web_search")[0].startswith("allow: ")
    with FakeServer() as server:
        _, err, code = command("-t", "hosted:web_search", "--no-session", "Does it rain?", server=server)
    assert (code, "no hosted tool 'web_search'" in err) == (2, True)


def test_project_cannot_name_a_program(command, tmp_path, shop, own_user_file, monkeypatch):
    """The user's settings file may name a program; a project's file may not, even if it is trusted."""
    monkeypatch.chdir(tmp_path)
    own_user_file(f'tools = ["{shop}"]\n')
    with FakeServer(say("Yes.")) as server:
        assert command("--no-session", "Is it?", server=server)[2] == 0
    assert [each["function"]["name"] for each in server.requests[0].json["tools"]] == ["price", "pay", "stock"]
    (tmp_path / "agentkit.toml").write_text('tools = ["shop.py"]\n')
    assert "a project file cannot use the program 'shop.py' as tools" in command("--no-session", "Is it?")[1]
    (tmp_path / "agentkit.toml").write_text('tools = ["calculator"]\n')
    with FakeServer(say("Yes.")) as server:
        command("--no-session", "Is it?", server=server)
    assert "tools" not in server.requests[0].json


def test_servers_of_a_file(command, tmp_path, monkeypatch):
    """`-t FILE.json` offers the tools of the MCP servers in the file; a project's file cannot name one."""
    pytest.importorskip("mcp", reason="the extra agentkit-tools[mcp] is not installed")
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "look", "inputSchema": {"type": "object"}}]))
    plain = {"command": sys.executable, "args": ["-S", str(PLAIN), str(tmp_path)]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"plain": plain}}))
    with FakeServer(call("look"), say("Nothing.")) as server:
        out, err, code = command("-t", f"{tmp_path}/mcp.json", "--no-session", "What is it?", server=server)
    assert (out, code) == ("Nothing.\n", REFUSED)  # because a SYSTEM tool would need approval
    assert [each["function"]["name"] for each in server.requests[0].json["tools"]] == ["look"]
    assert "safety-level" in err
    look = load_tool(f"{tmp_path}/mcp.json:look")
    assert look.name == "look"
    look.server.close()
    with pytest.raises(UnknownTool, match=r"mcp\.json: .*Did you mean 'look'"):
        load_tool(f"{tmp_path}/mcp.json:loo")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agentkit.toml").write_text('tools = ["mcp.json"]\n')
    assert "a project file cannot use the program 'mcp.json' as tools" in command("--no-session", "Is it?")[1]


@pytest.mark.parametrize("name", ["shop", "shop:price"])
@pytest.mark.parametrize("question", [load_tool, lambda name: load_tools([name])])
def test_module_name_suggests_its_file(shop, monkeypatch, name, question):
    """A module name raises an error that suggests the file name."""
    monkeypatch.chdir(shop.parent)
    with pytest.raises(UnknownTool, match=r"Did you mean shop\.py(:price)?\?$"):
        question(name)
    with pytest.raises(UnknownTool, match=r"Your own tools: FILE\.py, .*hosted:web_search\.$"):
        question(f"work{name}")


def test_failed_call_suggests_tools_show(shop, command):
    """A failed call suggests `agentkit tools show` with the same tool reference."""
    _, output, code = command("tools", "run", f"{shop}:price", "order=5")
    assert (code, f"agentkit tools show {shop}:price" in output) == (2, True)


def test_hosted_tool_in_a_file_is_offered(tmp_path):
    """A hosted tool in a file is offered unless its name starts with an underscore."""
    file = tmp_path / "shop.py"
    file.write_text(
        "from agentkit.tools.hosted import HostedTool\n"
        "search = HostedTool('web_search')\n"
        "_code = HostedTool('code_execution')\n"
        "def price(name: str) -> int:\n    return 5\n"
    )
    assert load_tools([str(file)]).names == ("web_search", "price")
    assert load_tool(f"{file}:web_search").spec.hosted == {"type": "web_search"}
