"""Start, CPU pinning and end of the measured processes: the server on one core, the libraries on another."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parent.parent
WORKERS = Path(__file__).parent / "workers"
QUIET = {
    "AGENTKIT_MODEL": "gpt-4.1-mini",
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENAI_API_KEY": "sk-no-key-is-needed",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONHASHSEED": "0",
    "UNDERTHESEA_TRACE_DISABLED": "1",
}
"""Environment of every worker: no telemetry, no tracing, and an invalid key."""

_LONGEST_SECONDS, _PATIENCE_SECONDS = 600.0, 30.0
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR")


def cores() -> tuple[set[int], set[int]]:
    """The cores of the server and of the measured process; the same one on a single-core machine."""
    usable = sorted(os.sched_getaffinity(0))
    return {usable[-1]}, {usable[0]}


class Process:
    """A child process with pipes, pinned to a core, with its resource usage at the end."""

    def __init__(self, command: Sequence[str | Path], on: set[int], variables: Mapping[str, str] | None = None) -> None:
        own = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        stdin, self.stdin = os.pipe()
        stdout_end, stdout = os.pipe()
        self.stdout = stdout_end
        self.begun_ns = time.perf_counter_ns()
        self.pid = os.posix_spawn(
            command[0],
            [str(word) for word in command],
            {**own, **QUIET, "PYTHONPATH": str(ROOT), **(variables or {})},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )
        os.sched_setaffinity(self.pid, on)
        os.close(stdin)
        os.close(stdout)

    def stopwatch_ns(self) -> int:
        """The nanoseconds since the process was started."""
        return time.perf_counter_ns() - self.begun_ns

    def read(self, until: bytes = b"", within_seconds: float = _LONGEST_SECONDS) -> bytes:
        """Read the output to its end or to the given bytes.

        Raises TimeoutError, after killing the process, if it takes too long.
        """
        read, end = b"", time.monotonic() + within_seconds
        while not (until and until in read):
            if not select.select([self.stdout], [], [], max(end - time.monotonic(), 0))[0]:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError(f"no answer within {within_seconds:.0f} seconds")
            piece = os.read(self.stdout, 65_536)
            if not piece:
                break
            read += piece
        return read

    def write(self, data: bytes) -> None:
        """Write to the input of the process."""
        os.write(self.stdin, data)

    def wait(self) -> tuple[int, float]:
        """Wait for the end, and return the exit status and the CPU seconds.

        Closes the input; a process that does not end then is killed.
        """
        os.close(self.stdin)
        ending = os.pidfd_open(self.pid)
        if not select.select([ending], [], [], _PATIENCE_SECONDS)[0]:
            os.kill(self.pid, signal.SIGKILL)
        os.close(ending)
        _, status, used = os.wait4(self.pid, 0)
        os.close(self.stdout)
        return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


class Worker:
    """One library in one process, which runs one task at a time."""

    def __init__(self, python: Path, adapter: str, on: set[int], variables: Mapping[str, str]) -> None:
        self._process = Process([python, WORKERS / "worker.py", adapter], on, variables)

    def do(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """The worker's answer: `wall`, `cpu`, `values`, `peak`, `resident`; or `error`; or `missing`."""
        try:
            self._process.write(json.dumps(task).encode() + b"\n")
            line = self._process.read(b"\n")
        except (BrokenPipeError, TimeoutError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return dict(json.loads(line)) if line else {"error": "the worker ended"}

    def close(self) -> None:
        """End the worker."""
        self._process.wait()


class Server:
    """The deterministic server of the benchmarks, over HTTP and TLS, in a separate process on its own core."""

    def __init__(self, *, with_tls: bool = True) -> None:
        self._with_tls = with_tls
        self._exits = ExitStack()
        self._ports: dict[str, int] = {}
        self.variables: dict[str, str] = {}
        """The environment variables with which a client trusts the certificate."""

    def __enter__(self) -> Self:
        folder = Path(self._exits.enter_context(tempfile.TemporaryDirectory(prefix="agentkit-benchmarks-")))
        certificate = [self._certify(folder)] if self._with_tls else []
        process = Process([sys.executable, "-m", "benchmarks.server", *certificate], cores()[0])
        self._exits.callback(process.wait)
        self._ports = json.loads(process.read(b"\n"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exits.close()

    def url(self, script: str, scheme: str = "http") -> str:
        """The base URL of a script."""
        return f"{scheme}://127.0.0.1:{self._ports[scheme]}/{script}/v1"

    def tally(self) -> dict[str, Any]:
        """The requests that the server received since the last tally."""
        connection = http.client.HTTPConnection("127.0.0.1", self._ports["http"])
        connection.request("GET", "/tally")
        counts: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return counts

    def _certify(self, folder: Path) -> Path:
        """Create a certificate. Clients also load the default certificates, because this is part of the cost of TLS."""
        import trustme

        authority = trustme.CA()
        trusted, own = folder / "trusted.pem", folder / "server.pem"
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(own))
        usual = Path(ssl.get_default_verify_paths().cafile or os.devnull)
        trusted.write_bytes(authority.cert_pem.bytes() + usual.read_bytes())
        names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
        self.variables = dict.fromkeys(names, str(trusted))
        return own
