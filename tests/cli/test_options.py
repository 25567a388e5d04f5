"""Tests for shell completion."""

import os
import subprocess
import sys

import pytest

from agentkit.messages import UserMessage
from agentkit.sessions.session import Session


@pytest.mark.for_each(
    ("line", "offered"),
    [
        ("agentkit ses", ["sessions"]),
        ("agentkit tools ru", ["run"]),
        ("agentkit tools run calc", ["calculator"]),
        ("agentkit ask -t core,cal", ["core,calculator"]),
        ("agentkit sessions show tr", ["trip"]),
        ("agentkit sessions show --store /dev/null/x tr", []),
        ("agentkit ask --session t", ["trip"]),
        ("agentkit explain run_s", ["run_shell"]),
        ("agentkit --of", ["--offline"]),
        ("agentkit --ver", ["--version", "--verbose"]),
        ("agentkit --help", ["--help"]),
        ("agentkit --safety N", ["network"]),
        ("agentkit explain run_shell --safety s", ["safe", "system"]),
        ("agentkit serve --limit co", ["cost="]),
    ],
)
def test_shell_completion(line, offered):
    """Commands, options, tools, levels, limits and sessions are completed, also after a comma in a list of tools."""
    Session.open(name="trip").append([UserMessage("Where to?")])
    words = line.split()
    env = {**os.environ, "_AGENTKIT_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    out = subprocess.check_output([sys.executable, "-m", "agentkit"], env=env, text=True, timeout=60)
    assert [each.partition(",")[2] for each in out.splitlines() if each] == offered
