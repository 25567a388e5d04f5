"""Tests for containers as a sandbox, with a Docker daemon of this machine or a server with its protocol."""

import contextlib
import gc
import http.server
import itertools
import json
import os
import re
import socketserver
import subprocess
import threading
from typing import ClassVar

import pytest

from agentkit.errors import ConfigError, SandboxError
from agentkit.sandbox import docker_backend
from agentkit.sandbox.process import Confinement, command_boundary, run_command
from agentkit.sandbox.python import python_boundary, run_python
from agentkit.sandbox.watchdog import Cancellation, ProcessLimits

TOKEN = "CANARY-5d1e"


class Daemon(http.server.BaseHTTPRequestHandler):
    """The part of Docker's HTTP interface that the backend uses; a container is a process of this machine."""

    containers: ClassVar = {}
    numbers = itertools.count(1)

    def log_message(self, *_):
        """Print nothing."""

    def answer(self, body=None, status=200):
        """Send a JSON answer."""
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def container(self):
        """Return the container named by the request."""
        return self.containers[re.search(r"/containers/(\w+)", self.path)[1]]

    def do_GET(self):
        """Answer a request about the daemon."""
        self.answer({"ApiVersion": "1.44", "MinAPIVersion": "1.24"})

    def do_DELETE(self):
        """End a container."""
        process = self.container().get("process")
        if process and process.poll() is None:
            process.kill()
        self.answer(status=204)

    def do_POST(self):
        """Create, start, attach to or wait for a container."""
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}") if length else {}
        if "/containers/create" in self.path:
            name = f"c{next(self.numbers)}"
            self.containers[name] = {"settings": body, "started": threading.Event()}
            self.answer({"Id": name, "Warnings": []}, 201)
        elif "/attach" in self.path:
            self.attach()
        elif "/start" in self.path:
            self.start()
        elif "/wait" in self.path:
            self.answer({"StatusCode": self.container()["process"].wait() % 256})

    def start(self):
        """Run the command of the container."""
        settings = self.container()["settings"]
        variables = dict(each.split("=", 1) for each in settings["Env"])
        self.container()["process"] = subprocess.Popen(
            settings["Cmd"],
            cwd=settings["WorkingDir"],
            env={"PATH": os.environ["PATH"], **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.container()["started"].set()
        self.answer(status=204)

    def attach(self):
        """Pass the streams of the container through the connection, each piece after a header of eight bytes."""
        self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        self.wfile.flush()
        container, lock = self.container(), threading.Lock()
        container["started"].wait(10)
        process = container["process"]

        def forward(stream, number):
            while data := os.read(stream.fileno(), 65_536):
                with lock, contextlib.suppress(OSError):
                    self.connection.sendall(bytes([number, 0, 0, 0]) + len(data).to_bytes(4, "big") + data)

        def feed():
            with contextlib.suppress(OSError):
                while data := self.connection.recv(65_536):
                    os.write(process.stdin.fileno(), data)

        outputs = [threading.Thread(target=forward, args=pair) for pair in ((process.stdout, 1), (process.stderr, 2))]
        for thread in (*outputs, threading.Thread(target=feed, daemon=True)):
            thread.start()
        for thread in outputs:
            thread.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                stream.close()


@pytest.fixture
def daemon(monkeypatch):
    """A daemon on this machine."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Daemon)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_address[1]}")
    docker_backend.forget()
    yield Daemon
    server.shutdown()
    server.server_close()
    docker_backend.forget()


@pytest.fixture
def workspace(tmp_path):
    """A workspace with a secret and a protected file."""
    folder = tmp_path / "w"
    (folder / ".github").mkdir(parents=True)
    (folder / ".env").write_text(TOKEN)
    (folder / "a.txt").write_text("one\n")
    return folder


def test_command_runs_in_a_container(daemon, workspace):
    """Output, exit code and boundary are those of the container, whose variables contain no secret of the host."""
    outcome = run_command("cat a.txt; echo two >&2; echo $HOME; exit 3", str(workspace), Confinement(backend="docker"))
    assert (outcome.status, outcome.return_code) == ("ok", 3)
    assert (outcome.stdout, outcome.stderr) == ("one\n/tmp\n", "two\n")
    assert outcome.boundary.is_strong
    assert outcome.boundary.describe() == "pid, net, ipc, uts and mount namespaces, Docker, seccomp, resource limits"


def test_container_is_isolated(daemon, workspace):
    """A container has no network, capabilities or writable root, limited resources, and hidden secrets."""
    limits = ProcessLimits(memory_bytes=2**28, processes=7)
    run_command("true", str(workspace), Confinement(backend="docker", limits=limits, image="tools:1"))
    settings = list(daemon.containers.values())[-1]["settings"]
    host = settings["HostConfig"]
    assert (settings["Image"], settings["WorkingDir"]) == ("tools:1", str(workspace))
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
    assert (host["Memory"], host["PidsLimit"], host["SecurityOpt"]) == (2**28, 7, ["no-new-privileges:true"])
    mounts = {each["Target"]: each for each in host["Mounts"]}
    assert not mounts[str(workspace)]["ReadOnly"]
    assert mounts[f"{workspace}/.env"]["ReadOnly"]
    assert mounts[f"{workspace}/.env"]["Source"] != f"{workspace}/.env"
    outside = [path for path in mounts if not path.startswith(str(workspace))]
    assert all(path.endswith("/agentkit-gitconfig") for path in outside)


def test_read_only_workspace_in_a_container(daemon, workspace):
    """Without write permission, the workspace is read-only in the container; network access can be granted."""
    run_command("true", str(workspace), Confinement(backend="docker", writable=False, network=True))
    host = list(daemon.containers.values())[-1]["settings"]["HostConfig"]
    assert host["NetworkMode"] == "bridge"
    assert {each["Target"]: each["ReadOnly"] for each in host["Mounts"]}[str(workspace)]


@pytest.mark.parametrize(
    ("limits", "cancels", "status"), [({"timeout_seconds": 0.5}, False, "timed_out"), ({}, True, "failed")]
)
def test_container_is_removed_when_stopped(limits, cancels, status, daemon, workspace):
    """A container that times out or is cancelled is removed, and its output so far is returned."""
    cancellation = Cancellation()
    if cancels:
        threading.Timer(0.5, cancellation.cancel).start()
    confinement = Confinement(backend="docker", limits=ProcessLimits(**limits))
    outcome = run_command("echo begun; exec sleep 20", str(workspace), confinement, cancellation)
    assert (outcome.status, outcome.return_code, outcome.stdout) == (status, None, "begun\n")
    assert list(daemon.containers.values())[-1]["process"].wait(5) != 0


@pytest.mark.parametrize(
    ("code", "output", "error"),
    [
        ("print(6 * 7)", "42\n", ""),
        ("import sys\nprint('a', file=sys.stderr)\n1 / 0", "a\n", "ZeroDivisionError"),
        ("import os", "", "module 'os' is not available here"),
    ],
)
def test_python_runs_in_a_container(code, output, error, daemon, monkeypatch):
    """Python code runs in a container with the same guard, and errors are reported in the same way."""
    monkeypatch.setenv("AGENTKIT_SANDBOX", "docker")
    outcome = run_python(code)
    assert outcome.output == output
    assert error in outcome.error
    assert python_boundary().is_strong
    assert outcome.boundary.describe().endswith("Docker, seccomp, resource limits")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "unix:///nobody/listens"])
def test_missing_daemon_raises_an_error(address, workspace, monkeypatch):
    """Without a daemon, a command fails with the reason and is not run in another sandbox."""
    monkeypatch.setenv("DOCKER_HOST", address)
    docker_backend.forget()
    with pytest.raises(SandboxError, match="Docker cannot be used"):
        run_command("touch made", str(workspace), Confinement(backend="docker"))
    assert not (workspace / "made").exists()
    docker_backend.forget()
    gc.collect()


def test_remote_daemon_is_rejected(monkeypatch):
    """A daemon on another machine is rejected, as it has no access to the workspace."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    docker_backend.forget()
    with pytest.raises(SandboxError, match="another machine"):
        command_boundary(Confinement(backend="docker"))
    docker_backend.forget()


def test_unknown_backends_are_rejected(monkeypatch):
    """An unknown sandbox is an error, whether the code or the environment names it."""
    with pytest.raises(ConfigError, match="Unknown sandbox 'podman'"):
        Confinement(backend="podman")
    monkeypatch.setenv("AGENTKIT_SANDBOX", "vm")
    with pytest.raises(SandboxError, match="names the unknown sandbox 'vm'"):
        command_boundary()


@pytest.mark.slow
def test_real_container_confines_commands_and_python(workspace, monkeypatch):
    """With a Docker daemon, a command sees the workspace, no secret and no network, and Python code runs."""
    try:
        command_boundary(Confinement(backend="docker"))
    except SandboxError as error:
        pytest.skip(f"no Docker daemon answers here: {error}")
    command = "cat a.txt; cat .env; echo x > new.txt; (exec 3<>/dev/tcp/192.0.2.1/80) 2>&1; touch /usr/x; ls -A /root"
    outcome = run_command(command, str(workspace), Confinement(backend="docker"))
    assert outcome.stdout.startswith("one\n")
    assert TOKEN not in outcome.output
    assert (workspace / "new.txt").read_text() == "x\n"
    assert "Read-only file system" in outcome.stderr
    monkeypatch.setenv("AGENTKIT_SANDBOX", "docker")
    assert run_python("print(6 * 7)").output == "42\n"
