"""Start of worker processes that isolate themselves before they receive work."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from agentkit.errors import SandboxError
from agentkit.sandbox import protocol
from agentkit.sandbox.isolation import HOST_NAME, check_platform
from agentkit.sandbox.watchdog import end
from agentkit.sandbox.worker import split_list

_HOME = str(Path(__file__).resolve().parents[1])
_BOOTSTRAP = """
import os
import sys
os.environ.clear()
package = sys.modules["agentkit"] = type(sys)("agentkit")
package.__path__ = [sys.argv[1]]
from agentkit.sandbox.worker import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
"""Starts the worker without importing the package's `__init__`."""

_START_SECONDS, _REPLY_SECONDS = 30.0, 5.0
_READ_BYTES = 65_536
_NOT_READ = "The code made a request and did not read the response."


def start_isolated(
    setup: Mapping[str, str], requested: frozenset[str], required: frozenset[str] | None = None
) -> tuple[WorkerHandle, frozenset[str]]:
    """Start a worker that isolates itself and waits for its task; return it with its effective mechanisms.

    `requested` are the mechanisms to set up. Without `required`, a worker with fewer of them is accepted; with
    `required`, the worker must have all of those.
    Raises SandboxError if they are not available or a process cannot be started.
    """
    check_platform()
    fallbacks = (requested, requested - {"mount"}, frozenset[str]()) if required is None else (requested,)
    failure = "it died"
    for mechanisms in dict.fromkeys(fallbacks):
        worker = WorkerHandle({**setup, "mechanisms": "\0".join(mechanisms)})
        report = worker.ready()
        if "mechanisms" in report:
            achieved = frozenset(split_list(report["mechanisms"]))
            missing = (required or frozenset()) - achieved
            if not missing:
                return worker, achieved
            report = {"failure": f"no {', '.join(sorted(missing))}"}
        worker.close()
        failure = report.get("failure", failure)
    raise SandboxError(f"The sandbox cannot be started: {failure}.")


class WorkerHandle:
    """A worker process as seen by the host: its pipes and its reports.

    `setup` is documented in the worker module. The worker isolates itself immediately and then waits for a task.
    `calls` is the descriptor of calls from its code, if the setup enables host functions. Raises SandboxError if the
    worker cannot be started.
    """

    def __init__(self, setup: Mapping[str, str]) -> None:
        self.owner = os.getpid()
        self.reported = bytearray()
        opened: list[int] = []
        try:
            for _ in range(3 if setup.get("calls") else 2):
                opened += os.pipe()
            task, self._control, self.report, report, *call_pipe = opened
            self.program = _start(task, report, *call_pipe[1:])
        except OSError as error:
            _close(*opened)
            raise SandboxError(f"The sandbox cannot be started: {error}") from error
        _close(task, report, *call_pipe[1:])
        self.calls = call_pipe[0] if call_pipe else None
        self.stdout, self.stderr = (pipe.fileno() for pipe in (self.program.stdout, self.program.stderr) if pipe)
        self.send({"host_name": HOST_NAME, **setup, "calls": "".join(map(str, call_pipe[1:]))})

    def send(self, texts: Mapping[str, str]) -> None:
        """Send a frame to the worker; if the worker has died, its report shows that."""
        with contextlib.suppress(OSError):
            protocol.send(self._control, protocol.encode(**texts))

    def reply(self, texts: Mapping[str, str], seconds: float = _REPLY_SECONDS) -> None:
        """Send a reply that code in the worker waits for. Raises SandboxError if it is not read within `seconds`."""
        os.set_blocking(self._control, False)
        data, deadline = memoryview(protocol.encode(**texts)), time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._control, select.POLLOUT)
        while data:
            ready = poll.poll(max(0, deadline - time.monotonic()) * 1000)
            if not ready or ready[0][1] & (select.POLLERR | select.POLLHUP):
                raise SandboxError(_NOT_READ)
            try:
                data = data[os.write(self._control, data) :]
            except OSError as error:
                raise SandboxError(_NOT_READ) from error

    def ready(self) -> dict[str, str]:
        """Wait for the worker's first report: its `mechanisms` or its `failure`; empty if it died."""
        poll = select.poll()
        poll.register(self.report, select.POLLIN)
        deadline = time.monotonic() + _START_SECONDS
        while not protocol.split(bytes(self.reported)):
            data = os.read(self.report, _READ_BYTES) if poll.poll(max(0, deadline - time.monotonic()) * 1000) else b""
            if not data:
                return {}
            self.reported += data
        return protocol.split(bytes(self.reported))[0]

    def close(self) -> None:
        """End the worker and close its pipes. In a process forked from the owner, only close the pipes."""
        if os.getpid() == self.owner:
            end(self.program)
        else:
            self.program.returncode = 0  # a child of another process, which cannot be waited for
        _close(self._control, self.report, *(() if self.calls is None else (self.calls,)))
        for stream in (self.program.stdout, self.program.stderr):
            if stream:
                stream.close()


_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
"""The interpreter's whole environment, which code cannot access: sets of strings have a reproducible order."""


def _start(task: int, *passed: int) -> subprocess.Popen[bytes]:
    # the base interpreter of a virtual environment: the worker needs none of its packages
    interpreter = [getattr(sys, "_base_executable", None) or sys.executable, "-P", "-s", "-S", "-u", "-X", "utf8"]
    return subprocess.Popen(  # this interpreter with agentkit's worker
        [*interpreter, "-c", _BOOTSTRAP, _HOME, str(os.getpid()), str(passed[0])],
        stdin=task,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=passed,
        env=_ENVIRONMENT,
        cwd="/",
        start_new_session=True,
    )


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
