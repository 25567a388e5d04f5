"""The `agentkit` command as a process of its own."""

import os
import subprocess
import sys

import pytest

OURS = ("OPENAI_", "AZURE_", "AGENTKIT_")


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
