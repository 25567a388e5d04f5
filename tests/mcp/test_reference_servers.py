"""Tests with the reference servers of the protocol: everything, filesystem, memory, git, fetch and time."""

import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentkit import Agent, Limits
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedLLM, call

pytestmark = pytest.mark.slow

PACKAGES = ("server-everything", "server-filesystem", "server-memory")
PATIENCE_SECONDS = 20


@pytest.fixture(scope="module")
def programs(request):
    """The commands of the servers installed by npm, by name; they are installed once, in pytest's cache."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed.")
    folder = request.config.cache.mkdir("mcp-reference-servers")
    found = {name: folder / f"node_modules/.bin/mcp-{name}" for name in PACKAGES}
    if not all(path.exists() for path in found.values()):
        wanted = [f"@modelcontextprotocol/{name}" for name in PACKAGES]
        command = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), *wanted]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install the servers: {done.stderr.strip()[-200:]}")
    return {name: ["node", str(path)] for name, path in found.items()}


@pytest.fixture(scope="module")
def everything(programs):
    """The server that uses every feature of the protocol."""
    reports = []
    with MCPServer(
        programs["server-everything"], level="safe", on_progress=lambda *about: reports.append(about)
    ) as server:
        server.reports = reports
        yield server


def ran(server, *script, approve=None, limits=None):
    """Return the result of a run in which a scripted model calls the server's tools."""
    return Agent("tester", tools=[server], approve=approve, llm=ScriptedLLM(*script)).run("Go.", limits=limits)


def test_approver_answers_the_server(everything):
    """The approver of the run fills in the server's form; without an approver it is declined."""
    questions = []

    def approve(request):
        questions.append(request)
        return {**request.arguments, "name": "Ann", "integer": 7}

    done = ran(everything, call("trigger-elicitation-request"), "Done.", approve=approve)
    content = done.tool_calls[0].result.content
    assert "- Name: Ann" in content
    assert "- Favorite Integer: 7" in content
    assert questions[0].tool == "ask_user"
    assert questions[0].arguments["firstLine"] == "It was a dark and stormy night."
    assert "name: Your full, legal name" in str(questions[0])
    assert "one of Monica, Rachel" in str(questions[0])

    done = ran(everything, call("trigger-elicitation-request"), "Done.")
    assert "declined" in done.tool_calls[0].result.content


def test_model_answers_the_server(everything):
    """Sampling needs approval, is answered by the model of the run, and counts towards its budget."""
    sampling = call("trigger-sampling-request", prompt="Say hello.", maxTokens=20)
    done = ran(everything, sampling, "Hello from the model.", "Done.", approve=lambda _: True)
    assert "Hello from the model." in done.tool_calls[0].result.content
    assert (done.text, done.usage.requests) == ("Done.", 3)

    questions = []
    done = ran(everything, sampling, "Done.", approve=lambda request: questions.append(request) or "Not now.")
    assert "Not now." in done.tool_calls[0].result.content
    assert done.usage.requests == 2
    assert questions[0].tool == "ask_model"
    assert questions[0].arguments["max_tokens"] == 20

    script = [line for number in range(9) for line in (sampling, f"Hello {number}.")]
    done = ran(everything, *script, "Done.", approve=lambda _: True, limits=Limits(output_tokens=60))
    assert done.status == "limit"
    assert done.tool_calls[0].result.usage.requests == 1


def test_tool_called_as_a_task(everything):
    """A tool that requires a task is called as one, and its request reaches the approver."""
    questions = []
    query = call("simulate-research-query", topic="python", ambiguous=True)
    done = ran(
        everything, query, "Done.", approve=lambda each: questions.append(each) or {"interpretation": "technical"}
    )
    result = done.tool_calls[0].result
    assert result.ok
    assert "# Research Report: python" in result.content
    assert "interpretation" in questions[0].arguments


def test_progress_and_contents(everything):
    """Progress is reported, and images, resources and prompts can be read."""
    everything.call("trigger-long-running-operation", duration=0.2, steps=2)
    assert [(done, total) for tool, done, total, _ in everything.reports if tool.startswith("trigger-long")] == [
        (1, 2),
        (2, 2),
    ]
    assert [type(part).__name__ for part in everything.call("get-tiny-image")] == ["str", "Image", "str"]
    assert "architecture" in everything.read("demo://resource/static/document/architecture.md").casefold()
    assert "Paris" in everything.prompt("args-prompt", city="Paris")


def test_changed_resource_is_reported(everything):
    """A subscription calls back when the server reports a change of the resource."""
    uri, changed = "demo://resource/dynamic/text/1", threading.Event()
    everything.subscribe(uri, lambda _: changed.set())
    everything.call("toggle-subscriber-updates")
    assert changed.wait(PATIENCE_SECONDS)
    everything.call("toggle-subscriber-updates")
    everything.subscribe(uri, None)


def test_filesystem(programs, tmp_path):
    """Files are read and written in the folder of the server only."""
    with MCPServer([*programs["server-filesystem"], str(tmp_path)], level="safe") as server:
        server.call("write_file", path=str(tmp_path / "a.txt"), content="Hello.")
        assert (tmp_path / "a.txt").read_text() == "Hello."
        assert server.call("read_text_file", path=str(tmp_path / "a.txt")) == "Hello."
        refused = server.tools.find("read_text_file").invoke({"path": "/etc/passwd"})
        assert not refused.ok
        assert "outside allowed directories" in refused.error


def test_memory(programs, tmp_path):
    """A graph of entities is stored in the file of the server."""
    file = tmp_path / "memory.jsonl"
    with MCPServer(programs["server-memory"], environment={"MEMORY_FILE_PATH": str(file)}, level="safe") as server:
        entity = {"name": "agentkit", "entityType": "package", "observations": ["It is written in Python."]}
        server.call("create_entities", entities=[entity])
        assert "written in Python" in server.call("search_nodes", query="agentkit")
    assert "agentkit" in file.read_text()


def test_git(tmp_path):
    """The state of a repository is read."""
    pytest.importorskip("mcp_server_git", reason="mcp-server-git is not installed.")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("new")
    with MCPServer([sys.executable, "-m", "mcp_server_git", "--repository", str(tmp_path)], level="safe") as server:
        assert "new.txt" in server.call("git_status", repo_path=str(tmp_path))
        server.call("git_add", repo_path=str(tmp_path), files=["new.txt"])
        assert "new file:   new.txt" in server.call("git_status", repo_path=str(tmp_path))


def test_fetch():
    """A page is fetched as Markdown."""
    pytest.importorskip("mcp_server_fetch", reason="mcp-server-fetch is not installed.")

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"<html><body><article><h1>Tea</h1><p>It is green.</p></article></body></html>"
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
        threading.Thread(target=page.serve_forever, daemon=True).start()
        command = [sys.executable, "-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"]
        with MCPServer(command, level="safe") as server:
            assert "It is green." in server.call("fetch", url=f"http://127.0.0.1:{page.server_port}/")
        page.shutdown()


def test_time():
    """A time is converted."""
    with MCPServer([sys.executable, "-m", "mcp_server_time"], level="safe") as server:
        began = time.monotonic()
        result = server.call("convert_time", source_timezone="Asia/Ho_Chi_Minh", time="12:00", target_timezone="UTC")
        assert "T05:00:00" in result
        assert time.monotonic() - began < PATIENCE_SECONDS
