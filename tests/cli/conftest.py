"""The `agentkit` command as a process of its own, or within this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentkit.cli.main import run

OURS = ("OPENAI_", "AZURE_", "ANTHROPIC_", "AGENTKIT_")


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path_factory):
    """Every test has settings of its own: none."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


@pytest.fixture
def spawn():
    """Start `agentkit ARGUMENTS` without a key and, unless told, without standard input."""

    def start(*arguments, server=None, **options):
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(OURS) or name == "AGENTKIT_STATE"
        }
        if server is not None:
            env["OPENAI_BASE_URL"] = server.base_url
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen([sys.executable, "-m", "agentkit", *arguments], text=True, env=env, **streams)

    return start


@pytest.fixture
def command(spawn):
    """Run `agentkit ARGUMENTS` to its end; gives stdout, stderr and the exit code."""

    def complete(*arguments, server=None, piped=None):
        options = {} if piped is None else {"stdin": subprocess.PIPE}
        process = spawn(*arguments, server=server, **options)
        out, err = process.communicate(piped, timeout=120)
        return out, err, process.returncode

    return complete


@pytest.fixture
def own_user_file():
    """Write the user's own file of settings; gives its path."""

    def write(text):
        path = Path(os.environ["XDG_CONFIG_HOME"]) / "agentkit" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def typed_line(monkeypatch, tmp_path):
    """Run `agentkit ARGUMENTS` in this process, in an empty folder; gives stdout, stderr and the exit code."""
    for name in [name for name in os.environ if name.startswith(OURS) and name != "AGENTKIT_STATE"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def complete(*arguments, server=None, piped=b""):
        if server is not None:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with CliRunner().isolation(piped) as (out, err, _):
            code = run(list(map(str, arguments)))
            return out.getvalue().decode(), err.getvalue().decode(), code

    return complete
