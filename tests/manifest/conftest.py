"""Fixtures for manifests: programs, each a file in a separate folder."""

import pytest

from agentkit.cli.manifest import load_agent
from agentkit.manifest import manifest_of

PRELUDE = '''
from pathlib import Path

from agentkit import LLM, Agent, Limits, Policy, Rule, Tool, calculator_tool, core_tools, shell_tool, write_file_tool
from agentkit.decisions import Decision
from agentkit.code_mode import program_tool
from agentkit.safety.terminal_approver import TerminalApprover
from agentkit.sandbox.process import Confinement
from agentkit.tools.system import shell_tool_in
from agentkit.tools.web.fetch import fetch_tool
from agentkit.usage import Price
from agentkit.workspace.workspace import Workspace

HERE = Path(__file__).parent

def note(text: str) -> str:
    """Take a note."""
    return text

def ring(bell: str) -> str:
    """Ring a bell."""
    return bell

def refuse(arguments):
    return Decision("deny", "refuse", "No.")

def short(output):
    if len(output) > 100:
        raise ValueError("too long")

'''


@pytest.fixture
def program(tmp_path):
    """Write a program with common imports and return its path."""
    for name in ("data", "other"):
        (tmp_path / name).mkdir()

    def write(text, name="bot.py"):
        path = tmp_path / name
        path.write_text(PRELUDE + text, "utf-8")
        return path

    return write


@pytest.fixture
def manifest(program):
    """Return the manifest of a program."""

    def derive(text):
        return manifest_of(*load_agent(str(program(text))))

    return derive
