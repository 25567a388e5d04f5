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
from agentkit.sandbox.isolation import HOST_NAME
from agentkit.sandbox.watchdog import end
from agentkit.sandbox.worker import listed

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
"""Starts the worker without the package's own `__init__`, of which it needs nothing."""

_START_SECONDS, _REPLY_SECONDS = 30.0, 5.0
_READ_BYTES = 65_536
_NOT_TAKEN = "The code asked for something, and did not take the answer."


def start_isolated(
    setup: Mapping[str, str], wanted: frozenset[str], least: frozenset[str] | None = None
) -> tuple[WorkerHandle, frozenset[str]]:
    """Start a worker that isolates itself and waits for its task; return it and the mechanisms it has put up.

    Without `least`, fewer mechanisms than `wanted` will do. With it, all of these must be put up. Raises SandboxError
    when they are not, or when not even a process can be started.
    """
    fallbacks = (wanted, wanted - {"mount"}, frozenset[str]()) if least is None else (wanted,)
    failure = "it died"
    for mechanisms in dict.fromkeys(fallbacks):
        keeper = WorkerHandle({**setup, "mechanisms": "\0".join(mechanisms)})
        report = keeper.ready()
        if "mechanisms" in report:
            achieved = frozenset(listed(report["mechanisms"]))
            missing = (least or frozenset()) - achieved
            if not missing:
                return keeper, achieved
            report = {"failure": f"no {', '.join(sorted(missing))}"}
        keeper.close()
        failure = report.get("failure", failure)
    raise SandboxError(f"The sandbox cannot be started: {failure}.")


class WorkerHandle:
    """A worker process from the host's side: its pipes, and what it reports.

    `setup` is what the worker's module says it takes. The worker isolates itself at once and then waits for a task.
    `calls` has what its code asks, where the setup says that it may call functions of the host. Raises SandboxError
    when it cannot be started.
    """

    def __init__(self, setup: Mapping[str, str]) -> None:
        self.owner = os.getpid()
        self.reported = bytearray()
        opened: list[int] = []
        try:
            for _ in range(3 if setup.get("calls") else 2):
                opened += os.pipe()
            task, self._control, self.report, report, *asking = opened
            self.program = _start(task, report, *asking[1:])
        except OSError as error:
            _close(*opened)
            raise SandboxError(f"The sandbox cannot be started: {error}") from error
        _close(task, report, *asking[1:])
        self.calls = asking[0] if asking else None
        self.stdout, self.stderr = (pipe.fileno() for pipe in (self.program.stdout, self.program.stderr) if pipe)
        self.send({"host_name": HOST_NAME, **setup, "calls": "".join(map(str, asking[1:]))})

    def send(self, texts: Mapping[str, str]) -> None:
        """Give the worker a frame; that it has died meanwhile shows in what it reports."""
        with contextlib.suppress(OSError):
            protocol.send(self._control, protocol.encode(**texts))

    def reply(self, texts: Mapping[str, str], seconds: float = _REPLY_SECONDS) -> None:
        """Give code in the worker a frame that it waits for. Raises SandboxError when it takes too long to take it."""
        os.set_blocking(self._control, False)
        data, deadline = memoryview(protocol.encode(**texts)), time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._control, select.POLLOUT)
        while data:
            ready = poll.poll(max(0, deadline - time.monotonic()) * 1000)
            if not ready or ready[0][1] & (select.POLLERR | select.POLLHUP):
                raise SandboxError(_NOT_TAKEN)
            try:
                data = data[os.write(self._control, data) :]
            except OSError as error:
                raise SandboxError(_NOT_TAKEN) from error

    def ready(self) -> dict[str, str]:
        """The worker's first report: its `mechanisms`, or its `failure`; empty when it died. Waits for it."""
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
        """End the worker and let go of its pipes. In a process forked from the owner, only let go."""
        if os.getpid() == self.owner:
            end(self.program)
        else:
            self.program.returncode = 0  # another process's child: not ours to wait for
        _close(self._control, self.report, *(() if self.calls is None else (self.calls,)))
        for stream in (self.program.stdout, self.program.stderr):
            if stream:
                stream.close()


_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
"""All that the interpreter is started with, and code does not find: a set of texts has the same order each time."""


def _start(task: int, *passed: int) -> subprocess.Popen[bytes]:
    # the Python that a virtual environment stands on: the worker needs no package of it
    interpreter = [getattr(sys, "_base_executable", None) or sys.executable, "-P", "-s", "-S", "-u", "-X", "utf8"]
    return subprocess.Popen(  # this interpreter and our own worker
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
