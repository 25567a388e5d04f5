"""Tests for the types of the public names, with a user's program that also runs."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import agentkit

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tests/typing/user_program.py"
INFERENCE = ROOT / "tests/typing/inference.py"
MISTAKES = {
    "agent(5)": "arg-type",
    "Agent('helper', max_iterations='10')": "call-overload",
    "Agent('helper', llm='gpt-5')": "call-overload",
    "Agent('helper', approve=lambda: True)": "arg-type",
    "Agent('helper', output_type=Invoice).run('Hi!').output.price": "attr-defined",
    "[event.result.output.price for event in Agent('helper', output_type=Invoice).stream('') if isinstance(event, "
    "RunFinished)]": "union-attr",
    "Agent('helper', output_type=Invoice).run('Hi!').value.total": "union-attr",
    "Agent('helper').run('Hi!').resume(5)": "arg-type",
    "Agent('helper', safety='hgih')": "call-overload",
    "tool(level='hgih')": "call-overload",
    "Agent('helper', guardrails=[5])": "list-item",
    "Agent('helper', output_type=Invoice | int).run('Hi!').output.number": "union-attr",
    "add('1', b=2)": "arg-type",
    "add(1)": "call-arg",
    "Agent('helper').run('Hi!').answer": "attr-defined",
    "Agent('helper').on(ToolCallFinished, lambda event: event.text)": "attr-defined",
}


def run(*arguments, folder):
    """Run Python without provider variables and return its exit code and output."""
    actual = ("AGENTKIT_", "OPENAI_", "AZURE_OPENAI_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(actual)}
    environment["AGENTKIT_STATE"] = str(folder / "state")
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def check(program, folder):
    """Return the result of a strict type check of a program without settings."""
    cache = ROOT / ".mypy_cache"
    return run("-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", str(program), folder=folder)


def test_every_public_name_is_used():
    """The program imports every public name."""
    imports = [node for node in ast.walk(ast.parse(PROGRAM.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    names = [alias.name for node in imports if node.module == "agentkit" for alias in node.names]
    assert sorted(names) == sorted(agentkit.__all__)


def test_program_passes_a_strict_type_check(tmp_path):
    """A program that uses every public name passes a strict type check."""
    code, output, errors = check(PROGRAM, tmp_path)
    assert (code, errors) == (0, ""), output


def marked(program):
    """Return the numbers of the lines that end with an error comment."""
    return {
        number for number, line in enumerate(program.read_text("utf-8").splitlines(), 1) if line.endswith("  # error")
    }


def test_mypy_reports_the_marked_errors(tmp_path):
    """Mypy infers the asserted types and reports exactly the marked errors."""
    _, output, _ = check(INFERENCE, tmp_path)
    found = {int(line.split(":")[1]) for line in output.splitlines() if ": error:" in line}
    assert found == marked(INFERENCE), output


def test_pyright_reports_the_marked_errors(tmp_path):
    """Pyright infers the asserted types and reports exactly the marked errors."""
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "enableTypeIgnoreComments": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    (tmp_path / INFERENCE.name).write_bytes(INFERENCE.read_bytes())
    _, output, errors = run("-m", "basedpyright", "--outputjson", "-p", str(tmp_path), folder=tmp_path)
    reports = json.loads(output or errors)["generalDiagnostics"]
    mistakes = [report for report in reports if report["severity"] == "error"]
    assert {report["range"]["start"]["line"] + 1 for report in mistakes} == marked(INFERENCE), mistakes


def test_program_runs(tmp_path):
    """The program runs with warnings as errors and without a provider."""
    assert run("-W", "error", str(PROGRAM), folder=tmp_path) == (0, "everything works\n", "")


def test_type_checkers_report_mistakes(tmp_path):
    """A type checker reports wrong arguments of agents and tools, and unknown names."""
    program = tmp_path / "mistaken.py"
    lines = PROGRAM.read_text("utf-8").partition("def main()")[0].splitlines()
    program.write_text("\n".join([*lines, *MISTAKES]), "utf-8")
    code, output, errors = check(program, tmp_path)
    assert (code, errors) == (1, "")
    found = {
        int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]")
        for line in output.splitlines()
        if ": error:" in line
    }
    assert found == {len(lines) + number: code for number, code in enumerate(MISTAKES.values(), start=1)}


@pytest.mark.parametrize("name", ["Agent", "agent", "Tool", "LLM"])
def test_public_names_are_documented(name):
    """The docstrings of the main public names have more than three lines."""
    assert len(getattr(agentkit, name).__doc__.splitlines()) > 3
