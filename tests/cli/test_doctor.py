"""Tests for `agentkit doctor`: its checks and the next step."""

import json

import pytest

from agentkit.cli import doctor
from agentkit.errors import SandboxError
from agentkit.installation import install_command
from agentkit.sandbox.isolation import COMMAND_NEEDS, Boundary
from agentkit.sandbox.process import ProcessOutcome
from agentkit.testing import FakeServer


def test_doctor_without_a_provider(command):
    """Without a provider, `doctor` exits with code 0 and shows how to store a key."""
    out, err, code = command("doctor")
    assert (code, err) == (0, "")
    provider = next(line for line in out.splitlines() if " provider " in line)
    assert provider.startswith("  -")
    assert "OPENAI_API_KEY" in out
    for name in ("run_python", "run_shell", "httpx2", "pydantic", "mcp"):
        assert f" {name} " in out
    groups = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert groups[:4] == ["Ask a model", "Run code and commands", "Optional features", "Installation"]
    assert groups[4].startswith("Next step: store a key: agentkit keys set openai")


def test_doctor_lists_fallbacks(typed_line, monkeypatch):
    """`doctor` lists the fallback models."""
    monkeypatch.setenv("AGENTKIT_MODEL", "ollama:qwen3 | lmstudio:gemma")
    findings = json.loads(typed_line("doctor", "--json")[0])["findings"]
    founds = [each["found"] for each in findings if each["name"] == "fallback"]
    assert founds == ["lmstudio:gemma at http://127.0.0.1:1234/v1 (decided by model=)"]


def test_doctor_json(command):
    """--json prints the findings as one document without calling the model."""
    with FakeServer() as server:
        out, _, code = command("doctor", "--json", server=server)
        document = json.loads(out)
        findings = {each["name"]: each for each in document["findings"]}
        assert (code, document["ok"]) == (0, True)
        assert findings["provider"]["state"] == "ok"
        assert server.base_url in findings["model"]["found"]
        assert server.requests == []
    assert findings["run_python"]["state"] in {"ok", "missing"}
    assert findings["run_python"]["found"].startswith("runs")


def outcome(output, mechanisms=COMMAND_NEEDS, error=""):
    """Return the outcome of a command with this output in this sandbox."""
    boundary = Boundary(frozenset(mechanisms), COMMAND_NEEDS)
    return ProcessOutcome("ok", 0, output, output, "", truncated=False, seconds=0.1, boundary=boundary, error=error)


def broken():
    """Raise an error."""
    raise SandboxError("No process can be started.")


@pytest.mark.parametrize(
    ("attempt", "state", "expected"),
    [
        (lambda: outcome("42\n"), "ok", "runs isolated"),
        (lambda: outcome("42\n", ["user", "pid"]), "missing", "without mount, net, seccomp"),
        (lambda: outcome(""), "failed", "it printed ''"),
        (lambda: outcome("", error="It was ended."), "failed", "It was ended."),
        (broken, "failed", "No process can be started."),
    ],
)
def test_sandbox_attempt_is_reported(attempt, state, expected):
    """A sandbox attempt is reported as isolated, less isolated with a fix, or broken."""
    finding = doctor._check_program("run_shell", attempt)
    assert (finding.state, expected in finding.found) == (state, True)
    assert bool(finding.fix) is (state == "missing")


@pytest.mark.parametrize(
    ("line", "state", "fix"),
    [
        ("click<9,>=8.1", "ok", ""),
        ("no-such-package-77>=1", "failed", install_command()),
        ("no-such-package-77>=1; extra == 'dev'", None, None),
        ("typing-extensions>=4.12; python_version < '3.12'", None, None),
    ],
)
def test_missing_package_is_reported(line, state, fix):
    """A missing required package is reported with the command that installs it."""
    found = [(each.state, each.fix) for each in doctor._required([line], "")]
    assert found == ([] if state is None else [(state, fix)])


def test_doctor_without_bash(command, monkeypatch, tmp_path):
    """Without bash, `doctor` suggests installing it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    out, _, code = command("doctor", "--json")
    findings = {each["name"]: each for each in json.loads(out)["findings"]}
    assert (code, findings["run_shell"]["fix"]) == (0, "install bash")
    assert findings["python"]["state"] == "ok"


@pytest.mark.parametrize(
    ("provider", "sandbox", "step"),
    [
        ("ok", "failed", "repair run_shell: mend it"),
        ("missing", "missing", "store a key: agentkit keys set openai"),
        ("ok", "missing", "isolate run_shell: mend it"),
        ("ok", "ok", "ask a question: "),
    ],
)
def test_one_next_step_is_named(provider, sandbox, step):
    """The next step repairs a failure first, then chooses a provider, then improves the sandbox."""
    found = {
        "Ask a model": [doctor.Finding("provider", provider, "x")],
        "Run code and commands": [doctor.Finding("run_shell", sandbox, "x", "mend it")],
    }
    assert doctor._next_step(found).startswith(step)
