"""Tests for plugins: installed packages that offer tools, providers and commands."""

import json
import sys
from pathlib import Path

import pytest

from agentkit.testing import FakeServer, call

PLUGIN = Path(__file__).parents[2] / "examples/plugin"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the example plugin, as an installer writes it, into a folder on the module path."""
    site = tmp_path / "site"
    info = site / "agentkit_tide-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "agentkit_tide.py").write_text((PLUGIN / "agentkit_tide.py").read_text())
    points = [
        line
        for line in (PLUGIN / "pyproject.toml").read_text().splitlines()
        if line.startswith(("[project.en", "tide =", "parrot ="))
    ]
    text = "\n".join(
        line.replace('[project.entry-points."', "[").replace('"]', "]").replace('"', "") for line in points
    )
    (info / "entry_points.txt").write_text(text)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentkit-tide\nVersion: 1.0\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return site


def test_plugins_are_listed(installed, process):
    """The list shows kind, name, package and usage without importing the plugin."""
    (installed / "agentkit_tide.py").write_text("raise SystemExit(7)")
    out, _, code = process("plugins")
    assert code == 0
    assert "tools      tide              agentkit-tide 1.0  use: -t tide" in out
    found = json.loads(process("plugins", "list", "--json")[0])["plugins"]
    assert {(each["kind"], each["name"]) for each in found} >= {
        ("tools", "tide"),
        ("providers", "parrot"),
        ("commands", "tide"),
    }


def test_plugin_tool_must_be_named_and_needs_approval(installed, process):
    """A plugin's tool is offered with -t only; its level is SYSTEM until the user sets another one."""
    question = call("high_water", after="2026-11-27T00:00:00Z")
    with FakeServer(question, "Soon.") as server:
        _, err, code = process("When is high water?", server=server)
    assert (code, "No tool is named 'high_water'" in err) == (0, True)
    with FakeServer(question, "Soon.") as server:
        _, err, code = process("-t", "tide", "When is high water?", server=server)
    assert (code, "[deny: safety-level]" in err) == (4, True)
    assert process("config", "set", "plugins.tide", "safe")[2] == 0
    with FakeServer(question, "Soon.") as server:
        out, err, code = process("-t", "tide:high_water", "When is high water?", server=server)
    assert (out, code) == ("Soon.\n", 0)
    assert "→ 2026-11-27T" in err


def test_providers_and_commands_of_a_plugin_are_used_by_name(installed, process):
    """`-m PLUGIN:MODEL` asks the plugin's model, and `agentkit NAME` runs its command."""
    assert process("-m", "parrot:polly", "Who are you?")[::2] == ("I am polly.\n", 0)
    out, _, code = process("tide")
    assert (code, out.startswith("20")) == (0, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-t", "tied", "x"), "No tool is named 'tied'. Did you mean 'tide'?"),
        (("tidee", "now"), "'tidee' is not a command. Did you mean 'tide'?"),
        (("-m", "parrot", "x"), "'parrot' is a provider, not a model. Use -m parrot:MODEL"),
        (("-m", "parrot:", "x"), "'parrot:' is a provider, not a model. Use -m parrot:MODEL"),
        (("config", "set", "plugins.tied", "network"), "No plugin is named 'tied'. Did you mean 'tide'?"),
    ],
)
def test_misspelt_names_of_plugins_are_rejected(installed, process, words, message):
    """A name that resembles that of a plugin raises an error that suggests it, in flags, commands and settings."""
    _, err, code = process(*words)
    assert (code, message in " ".join(err.split())) == (2, True), err


def test_commands_of_plugins_are_in_the_help(installed, process):
    """The help lists the commands of plugins with their package."""
    assert "Commands of plugins:\n  tide  A command of agentkit-tide." in process("--help")[0]


def test_manifest_lists_the_plugin_of_a_tool(installed, process, tmp_path):
    """The manifest of an agent lists the plugin of a tool and its safety level."""
    program = tmp_path / "work/bot.py"
    program.write_text(
        "from agentkit import Agent\nfrom agentkit.tools.plugins import plugin_tools\n"
        "bot = Agent('bot', plugin_tools('tide'))\n"
    )
    out, _, code = process("manifest", str(program))
    assert code == 0
    assert "plugin tide" in out
    assert "system" in out


def test_failing_plugin_is_named(installed, process):
    """The error names plugin and package; an unknown name suggests the installed ones."""
    (installed / "agentkit_tide.py").write_text("1 / 0")
    for line in (("--offline", "-t", "tide", "hi"), ("-m", "parrot:polly", "hi"), ("tide",)):
        _, err, code = process(*line)
        assert (code, "of the package agentkit-tide failed: ZeroDivisionError" in " ".join(err.split())) == (2, True), (
            err
        )
    (installed / "agentkit_tide.py").write_text("tools = []\ndef parrot(model):\n    return 1\ncommand = 2\n")
    _, err, _ = process("-m", "parrot:polly", "hi")
    assert "returned int instead of a function from a model's name to an LLM." in err
    assert "returned int instead of a click command." in process("tide")[1]


def test_project_cannot_lower_the_level_of_a_plugin(installed, process, tmp_path):
    """A project's settings cannot lower the safety level of a plugin."""
    (tmp_path / "work/agentkit.toml").write_text('[plugins]\ntide = "safe"\n')
    _, err, code = process("--offline", "hi")
    assert (code, "a project file cannot set the safety levels of plugins" in err) == (2, True)


def test_plugin_tools_in_a_program(installed):
    """A program names a plugin and can set its level; an unknown plugin is an error."""
    import subprocess

    program = (
        "from agentkit.tools.plugins import plugin_tools\n"
        "from agentkit.errors import ConfigError\n"
        "a, b = plugin_tools('tide')[0], plugin_tools('tide', 'network')[0]\n"
        "print(a.level.name, sorted(map(str, a.labels)), b.level.name, sorted(map(str, b.labels)), a.plugin)\n"
        "try:\n    plugin_tools('tids')\nexcept ConfigError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == (
        "SYSTEM ['private', 'untrusted'] NETWORK ['untrusted'] tide\n"
        "No plugin with tools is named 'tids'. Did you mean 'tide'? Installed: tide.\n"
    )
