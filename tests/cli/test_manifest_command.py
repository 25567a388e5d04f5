"""Does `agentkit manifest` tell what an agent may do, and fail when it may do more?"""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.cli.manifest import agent_in
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
    """Write bot.py, whose agent may do this; gives its path."""

    def write(cost=0.5, safety="network"):
        path = tmp_path / "bot.py"
        path.write_text(BOT.format(cost=cost, safety=safety), "utf-8")
        return path

    return write


@pytest.fixture
def kept(tmp_path, bot, typed_line):
    """The manifest of bot.py in a file."""
    path = tmp_path / "agentkit.manifest.json"
    assert typed_line("manifest", bot(), "--write", path)[2] == ANSWERED
    return path


def line_of(file, fact):
    """The line of a file on which a fact stands."""
    [found] = [number for number, line in enumerate(file.read_text("utf-8").splitlines(), 1) if f'/{fact}"' in line]
    return found


def test_showing(command, bot):
    """Without an option the manifest is printed, and nothing else is."""
    path = bot()
    out, err, code = command("manifest", str(path))
    assert (code, err) == (ANSWERED, "")
    assert out == str(manifest_of(*agent_in(str(path))))


def test_the_same_everywhere(command, bot, tmp_path, monkeypatch):
    """Another folder, home, state, locale, hash seed and key change no byte of it."""
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


def test_a_rule_that_says_nothing_is_told(tmp_path, command):
    """A rule about a tool that its agent does not have is told; a pattern is about all whose names fit."""
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


def test_writing(kept, typed_line, bot):
    """A manifest is written as a whole over the one before, and nothing is left beside it."""
    old = kept.read_text("utf-8")
    assert typed_line("manifest", bot(cost=1), "--write", kept) == (
        "",
        f"Written: {kept}. Review it, and commit it.\n",
        0,
    )
    assert Manifest.parse(kept.read_text("utf-8")).facts != Manifest.parse(old).facts
    assert sorted(path.name for path in kept.parent.iterdir()) == ["agentkit.manifest.json", "bot.py"]


def test_writing_nowhere(bot, tmp_path, typed_line):
    """A file that cannot be written is an error that says so."""
    out, err, code = typed_line("manifest", bot(), "--write", tmp_path / "none" / "m.json")
    assert (out, code) == ("", USAGE)
    assert "cannot be written" in err


def test_nothing_has_changed(kept, bot, typed_line):
    """An agent that may do what is kept passes."""
    out, err, code = typed_line("manifest", bot(), "--check", kept)
    assert (out, code) == ("", ANSWERED)
    assert err == f"{kept.with_name('bot.py')} has no permissions beyond those in {kept}.\n"


def test_it_may_do_more(kept, bot, command):
    """What is wider is told with its line of the file and in words, and fails, with what to do about it."""
    out, err, code = command("manifest", str(bot(cost=5, safety="system")), "--check", str(kept))
    assert code == REFUSED
    line = line_of(kept, "limits/cost")
    wider = ["wider     line 5: ceiling network -> system", f"wider     line {line}: limits: cost 0.5 -> 5"]
    assert out.splitlines() == wider
    what, remedy = err.splitlines()
    assert what.endswith(f"bot.py has more permissions than {kept}, in 2 places.")
    assert remedy.endswith(f"To accept them: agentkit manifest {kept.with_name('bot.py')} --write {kept}")
    assert kept.read_text("utf-8").splitlines()[4] == '  "agents/bot/ceiling": "network",'


def test_it_may_do_less(kept, bot, typed_line):
    """What is narrower is told and does not fail, except with --strict."""
    path = bot(cost=0.1)
    told = f"narrower  line {line_of(kept, 'limits/cost')}: limits: cost 0.5 -> 0.1\n"
    assert typed_line("manifest", path, "--check", kept)[::2] == (told, ANSWERED)
    out, err, code = typed_line("manifest", path, "--check", kept, "--strict")
    assert (out, code) == (told, REFUSED)
    assert f"bot.py differs from {kept}, in one place." in err


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
def test_what_is_no_manifest(content, words, kept, bot, typed_line):
    """A file that is not a manifest is an error of two lines: what is wrong, and what to do."""
    kept.write_bytes(content)
    out, err, code = typed_line("manifest", bot(), "--check", kept)
    assert (out, code) == ("", USAGE)
    assert len(err.splitlines()) == 2
    assert "\x1b" not in err
    for line, expected in zip(err.splitlines(), words, strict=True):
        assert expected in line


def test_no_file_yet(bot, tmp_path, typed_line):
    """Where nothing is kept yet, it is said how to begin."""
    out, err, code = typed_line("manifest", bot(), "--check", tmp_path / "m.json")
    assert (out, code) == ("", USAGE)
    assert err.splitlines()[1].startswith(f"To begin with: agentkit manifest {tmp_path}/bot.py --write ")


def test_options_that_do_not_go_together(kept, bot, typed_line):
    """Checking and writing are two commands, and strict is how one checks."""
    assert typed_line("manifest", bot(), "--check", kept, "--write", kept)[2] == USAGE
    assert typed_line("manifest", bot(), "--strict")[2] == USAGE


@pytest.mark.slow
def test_a_published_server(tmp_path, command, monkeypatch):
    """A server that others have written is described, and its rug pull is found."""
    path, kept = tmp_path / "clock.py", tmp_path / "m.json"
    path.write_text(CLOCK, "utf-8")
    monkeypatch.setenv("TZ", "UTC")
    assert command("manifest", str(path), "--write", str(kept))[2] == ANSWERED
    made = Manifest.parse(kept.read_text("utf-8"))
    assert made.facts["agents", "bot", "servers", "time", "reached"] == "python -m mcp_server_time"
    assert made.names("bot", "tools") == ("convert_time", "get_current_time")
    assert made.facts["agents", "bot", "tools", "convert_time", "verdict"] == "allow"
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # which this server tells of in the schemas of its tools
    out, _, code = command("manifest", str(path), "--check", str(kept))
    assert code == REFUSED
    assert [line.partition("definition has changed")[1] != "" for line in out.splitlines()] == [True, True]


def test_a_full_disk(bot, command):
    """What cannot be printed is an error, and no success."""
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
