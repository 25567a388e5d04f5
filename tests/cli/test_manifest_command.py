"""Tests for `agentkit manifest`: printing, writing, and checking the permissions of an agent."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.cli.manifest import load_agent
from agentkit.cli.terminal import ANSWERED, REFUSED, USAGE
from agentkit.manifest import Manifest, manifest_of

BOT = """\
from agentkit import Agent, Limits, core_tools

bot = Agent("bot", tools=core_tools, limits=Limits(cost={cost}), safety="{safety}")
"""
CLOCK = """\
import sys

from agentkit import Agent
from agentkit.mcp import MCPServer

bot = Agent("bot", tools=[MCPServer([sys.executable, "-m", "mcp_server_time"], "time", level="safe")])
"""


@pytest.fixture
def bot(tmp_path):
    """Write bot.py, whose agent has these tools; return its path."""

    def write(cost=0.5, safety="network"):
        path = tmp_path / "bot.py"
        path.write_text(BOT.format(cost=cost, safety=safety), "utf-8")
        return path

    return write


@pytest.fixture
def write_manifest(tmp_path, bot, typed_line):
    """Write the manifest of bot.py to a file."""
    path = tmp_path / "agentkit.manifest.json"
    assert typed_line("manifest", bot(), "--write", path)[2] == ANSWERED
    return path


def line_of(file, fact):
    """Return the line number of a fact in a file."""
    [found] = [number for number, line in enumerate(file.read_text("utf-8").splitlines(), 1) if f'/{fact}"' in line]
    return found


def test_manifest_is_printed(command, bot):
    """Without an option, only the manifest is printed."""
    path = bot()
    out, err, code = command("manifest", str(path))
    assert (code, err) == (ANSWERED, "")
    assert out == str(manifest_of(*load_agent(str(path))))


def test_manifest_does_not_depend_on_the_environment(command, bot, tmp_path, monkeypatch):
    """The manifest does not depend on the folder, the environment or the locale."""
    path = bot()
    here = command("manifest", str(path))[0]
    for name, value in {
        "HOME": str(tmp_path / "home"),
        "AGENTKIT_STATE": str(tmp_path / "state"),
        "LC_ALL": "C",
        "PYTHONHASHSEED": "4711",
        "TZ": "Asia/Ho_Chi_Minh",
        "GROQ_API_KEY": "tulip-tulip-tulip-4711",
    }.items():
        monkeypatch.setenv(name, value)
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "bot.py").write_bytes(path.read_bytes())
    assert command("manifest", str(other / "bot.py"))[0] == here
    assert str(tmp_path) not in here


def test_rule_without_a_matching_tool_warns(tmp_path, command):
    """A rule that matches none of its agent's tools is reported as a warning."""
    path = tmp_path / "bot.py"
    path.write_text(
        "from agentkit import Agent, Policy, Rule, core_tools\n\n"
        'rules = [Rule("deny", "mcp_*"), Rule("deny", "calc*"), Rule("ask", "run_shell")]\n'
        'bot = Agent("bot", tools=core_tools, policy=Policy(rules=rules))\n'
    )
    out, err, code = command("manifest", str(path))
    assert (code, Manifest.parse(out).names("bot", "rules")) == (ANSWERED, ("001", "002", "003"))
    assert err.splitlines() == [
        "Warning: Rule 001 of bot names 'mcp_*', but the agent has no such tool.",
        "Warning: Rule 003 of bot names 'run_shell', but the agent has no such tool.",
    ]


def test_write_replaces_the_manifest(write_manifest, typed_line, bot):
    """--write replaces the manifest and leaves no other file behind."""
    old = write_manifest.read_text("utf-8")
    assert typed_line("manifest", bot(cost=1), "--write", write_manifest) == (
        "",
        f"Written: {write_manifest}. Review it, and commit it.\n",
        0,
    )
    assert Manifest.parse(write_manifest.read_text("utf-8")).facts != Manifest.parse(old).facts
    assert sorted(path.name for path in write_manifest.parent.iterdir()) == ["agentkit.manifest.json", "bot.py"]


def test_write_to_a_missing_folder(bot, tmp_path, typed_line):
    """--write to a missing folder is a usage error."""
    out, err, code = typed_line("manifest", bot(), "--write", tmp_path / "none" / "m.json")
    assert (out, code) == ("", USAGE)
    assert "cannot be written" in err


def test_check_without_changes(write_manifest, bot, typed_line):
    """--check succeeds if the agent has the permissions in the manifest."""
    out, err, code = typed_line("manifest", bot(), "--check", write_manifest)
    assert (out, code) == ("", ANSWERED)
    assert err == f"{write_manifest.with_name('bot.py')} has no permissions beyond those in {write_manifest}.\n"


def test_check_with_added_permissions_fails(write_manifest, bot, command):
    """--check fails if permissions were added, and shows each with its line and a remedy."""
    out, err, code = command("manifest", str(bot(cost=5, safety="system")), "--check", str(write_manifest))
    assert code == REFUSED
    line = line_of(write_manifest, "limits/cost")
    wider = ["wider     line 5: ceiling network -> system", f"wider     line {line}: limits: cost 0.5 -> 5"]
    assert out.splitlines() == wider
    what, remedy = err.splitlines()
    assert what.endswith(f"bot.py has more permissions than {write_manifest}, in 2 places.")
    assert remedy.endswith(
        f"To accept them: agentkit manifest {write_manifest.with_name('bot.py')} --write {write_manifest}"
    )
    assert write_manifest.read_text("utf-8").splitlines()[4] == '  "agents/bot/ceiling": "network",'


def test_check_with_removed_permissions(write_manifest, bot, typed_line):
    """--check reports removed permissions, and fails only with --strict."""
    path = bot(cost=0.1)
    text = f"narrower  line {line_of(write_manifest, 'limits/cost')}: limits: cost 0.5 -> 0.1\n"
    assert typed_line("manifest", path, "--check", write_manifest)[::2] == (text, ANSWERED)
    out, err, code = typed_line("manifest", path, "--check", write_manifest, "--strict")
    assert (out, code) == (text, REFUSED)
    assert f"bot.py differs from {write_manifest}, in one place." in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["line 1: the first line of a manifest must be {", "Write it again with"]),
        (b"\xff\xfe{}", ["line 1: the first line of a manifest", "Write it again"]),
        (b'{\n  "format": 7\n}\n', ["is written in format 7, and this agentkit knows format 1.", "Upgrade agentkit"]),
        (b'{\n  "format": 1,\n  "\x1b[2J": 1\n}\n', ["line 3: this is not a fact", "Write it again"]),
        (b" " * 4_000_001, ["is too long for a manifest: 4,000,001 characters.", "Write it again"]),
    ],
    ids=["empty", "binary", "newer", "hostile", "long"],
)
def test_invalid_manifest_is_a_usage_error(content, words, write_manifest, bot, typed_line):
    """An invalid manifest is a usage error with a remedy on the second line."""
    write_manifest.write_bytes(content)
    out, err, code = typed_line("manifest", bot(), "--check", write_manifest)
    assert (out, code) == ("", USAGE)
    assert len(err.splitlines()) == 2
    assert "\x1b" not in err
    for line, expected in zip(err.splitlines(), words, strict=True):
        assert expected in line


def test_check_with_a_missing_manifest(bot, tmp_path, typed_line):
    """--check with a missing manifest suggests the command that writes one."""
    out, err, code = typed_line("manifest", bot(), "--check", tmp_path / "m.json")
    assert (out, code) == ("", USAGE)
    assert err.splitlines()[1].startswith(f"To begin with: agentkit manifest {tmp_path}/bot.py --write ")


def test_conflicting_options(write_manifest, bot, typed_line):
    """--check with --write, and --strict without --check, are usage errors."""
    assert typed_line("manifest", bot(), "--check", write_manifest, "--write", write_manifest)[2] == USAGE
    assert typed_line("manifest", bot(), "--strict")[2] == USAGE


@pytest.mark.slow
def test_published_server(tmp_path, command, monkeypatch):
    """A published MCP server is described, and changed tool definitions are reported."""
    path, write_manifest = tmp_path / "clock.py", tmp_path / "m.json"
    path.write_text(CLOCK, "utf-8")
    monkeypatch.setenv("TZ", "UTC")
    assert command("manifest", str(path), "--write", str(write_manifest))[2] == ANSWERED
    made = Manifest.parse(write_manifest.read_text("utf-8"))
    assert made.facts["agents", "bot", "servers", "time", "reached"] == "python -m mcp_server_time"
    assert made.names("bot", "tools") == ("convert_time", "get_current_time")
    assert made.facts["agents", "bot", "tools", "convert_time", "verdict"] == "allow"
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # which this server mentions in the schemas of its tools
    out, _, code = command("manifest", str(path), "--check", str(write_manifest))
    assert code == REFUSED
    assert [line.partition("definition has changed")[1] != "" for line in out.splitlines()] == [True, True]


def test_full_disk_exits_with_1(bot, command):
    """Output that cannot be written exits with code 1."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        assert stat.S_ISCHR(os.fstat(full.fileno()).st_mode)
        done = subprocess.run(
            [sys.executable, "-m", "agentkit", "manifest", bot()],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
