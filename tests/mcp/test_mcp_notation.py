"""Tests for the notation of configuration files, as written by other programs."""

from pathlib import Path

import pytest

from agentkit.errors import ConfigError
from agentkit.mcp.config import ConfigVariables, entries, settings

HERE = Path("/work/project/.vscode/mcp.json")


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"a": {"command": "//x, }"}}}',
        '\ufeff{"servers": {"a": {"command": "//x, }"}}}',
        '{"other": [1], "mcpServers": {"a": {"command": "//x, }"}}, "inputs": []}',
        '// servers\n{"servers": { /* of\nours */ "a": {"command": "//x, }", }, // one\n }, }',
        '{"servers": {"a": {"command": "//x, }"}},\n' + "/" * 400_000 + "\n" + "/**/" * 100_000 + '"b": 1}',
    ],
)
def test_lists(text):
    """Servers are listed under either key; comments and trailing commas are allowed."""
    assert entries(text) == {"a": {"command": "//x, }"}}


@pytest.mark.for_each(
    ("text", "message"),
    [
        ("", "not JSON, line 1"),
        ('{"servers": {"a": {"env": {"KEY": "tulip"}\n"b": 1}}}', "not JSON, line 2"),
        ("[" * 100_000, "nested too deep|no JSON"),
        ('{"servers": {}} /* tulip', "not JSON, line 1"),
        ("/*" * 400_000, "not JSON, line 1"),
        ('{"a": ' + '"\\\\' * 400_000, "not JSON, line 1"),
        ("," + " " * 800_000 + "1", "not JSON, line 1"),
        ("[]", "lists no servers"),
        ("{}", "lists no servers"),
        ('{"servers": []}', "lists no servers"),
        ('{"servers": {}, "mcpServers": {}}', "lists no servers"),
        ('{"servers": {"a": "tulip"}}', "'a' must be an object"),
        ('{"servers": {"a": {"url": "x", "url": "tulip"}}}', "'url' occurs twice"),
    ],
)
def test_invalid_lists(text, message):
    """An invalid list raises an error that quotes no values."""
    with pytest.raises(ConfigError, match=message) as caught:
        entries(text)
    assert "tulip" not in str(caught.value)


@pytest.mark.for_each(
    ("text", "filled"),
    [
        ("${KEY}", "tulip"),
        ("${env:KEY}", "tulip"),
        ("Bearer ${KEY}!${KEY}", "Bearer tulip!tulip"),
        ("${NONE:-rose}", "rose"),
        ("${KEY:-rose}", "tulip"),
        ("${NONE:-}", ""),
        ("${NONE:-http://a:1}", "http://a:1"),
        ("${workspaceFolder}${/}a", "/work/project/a"),
        ("${workspaceFolderBasename}", "project"),
        ("${userHome}", str(Path.home())),
        ("$KEY and $(KEY)", "$KEY and $(KEY)"),
        (["${KEY}", {"a": "${KEY}"}, 3], ["tulip", {"a": "tulip"}, 3]),
    ],
)
def test_placeholders(text, filled):
    """Placeholders for variables and folders are replaced once, with an optional default."""
    assert ConfigVariables(HERE, {"KEY": "tulip", "OTHER": "${KEY}"}).substitute(text) == filled
    assert ConfigVariables(HERE, {"OTHER": "${KEY}"}).substitute("${OTHER}") == "${KEY}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NONE}", r"\$\{NONE\} is not set"),
        ("${env:NONE}", "not set"),
        ("${input:key}", r"the variable \$\{input:key\} is unknown. Use \$\{env:NAME\}"),
        ("${command:x}", "is unknown"),
        ("${}", "is unknown"),
    ],
)
def test_unknown_placeholders(text, message):
    """An unset or unknown placeholder raises a ConfigError."""
    with pytest.raises(ConfigError, match=message):
        ConfigVariables(HERE, {}).substitute([text])


def test_folders_of_other_files():
    """A file outside of an editor's folder uses its own folder as the workspace."""
    assert ConfigVariables(Path("/work/project/mcp.json"), {}).substitute("${workspaceFolder}") == "/work/project"


def test_variables_file():
    """A file of variables has one per line, with quotation marks and comments."""
    text = "# ours\n\nA=1\nexport B = 'two words'\nC=\"\nD=a=b\nE=\n"
    assert settings(text) == {"A": "1", "B": "two words", "C": '"', "D": "a=b", "E": ""}
    with pytest.raises(ConfigError, match="line 2 of its envFile"):
        settings("A=1\ntulip\n")
