"""Execution of untrusted Python, and of trusted modules on untrusted data, in isolated worker processes."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Literal, NamedTuple, Protocol

from agentkit._dataclass import dataclass
from agentkit.errors import SandboxError
from agentkit.sandbox import docker_backend, protocol
from agentkit.sandbox.isolation import DOCKER, MECHANISMS, PYTHON_NEEDS, Boundary, check_isolation, uses_docker
from agentkit.sandbox.launcher import WorkerHandle, start_isolated
from agentkit.sandbox.mounts import SCRATCH, python_mounts
from agentkit.sandbox.watchdog import (
    MEGABYTE,
    Cancellation,
    Capture,
    ProcessLimits,
    TerminationReason,
    attend,
    out_of_memory,
)
from agentkit.sandbox.worker import FAILED, split_list

PYTHON_LIMITS = ProcessLimits(
    timeout_seconds=10.0,
    memory_bytes=512 * MEGABYTE,
    processes=8,
    file_bytes=16 * MEGABYTE,
    scratch_bytes=32 * MEGABYTE,
    open_files=64,
)
"""Default limits of a snippet."""

MAX_CODE_BYTES = 100_000

_STATEFUL_CALLS = 20
_MAX_DIGITS, _NOTE_BYTES = 10, 100
_KINDS = ("syntax", "refused", "raised")
_SIGNALS = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    24: "SIGXCPU",
    31: "SIGSYS",
}
_CPU_SIGNAL, _CALL_SIGNAL, _KILL_SIGNAL = 24, 31, 9


@dataclass(frozen=True, slots=True)
class PythonOutcome:
    """The outcome of a snippet: its status (ok, timed_out, failed), its output and its boundary.

    `value` is the repr of the last line if that is an expression whose value is not None. On failure, `error` is a
    description and `kind` the origin: syntax, refused, raised (by the code), limit, sandbox. `line` is the line of the
    code, or None, and `hint` what to write instead. `output` contains what was printed until then. `variables` is
    "kept" or "lost" for code of a `PythonSession`.
    """

    status: str
    output: str
    stdout: str
    stderr: str
    truncated: bool
    seconds: float
    boundary: Boundary
    value: str = ""
    error: str = ""
    kind: str = "ok"
    line: int | None = None
    hint: str = ""
    variables: str = ""


class WorkerSpec(NamedTuple):
    """The properties of a worker for a snippet, or for a request to a `module` of this package.

    `calls` enables host functions; a `stateful` worker takes one snippet after another. `packages` are the folders of
    other packages that the module imports. `request_bytes` bounds a request.
    """

    limits: ProcessLimits = PYTHON_LIMITS
    requested: frozenset[str] = MECHANISMS
    guard: bool = True
    calls: bool = False
    module: str = ""
    packages: tuple[str, ...] = ()
    request_bytes: int = protocol.MAX_FRAME_BYTES
    stateful: bool = False


def run_python(
    code: str,
    *,
    sandbox: str = "auto",
    limits: ProcessLimits = PYTHON_LIMITS,
    guard: bool = True,
    available: frozenset[str] = MECHANISMS,
    cancellation: Cancellation | None = None,
) -> PythonOutcome:
    """Run a snippet in a separate process, or in a container if `AGENTKIT_SANDBOX` is "docker", and wait for it.

    `sandbox` is a value of `Isolation`. `guard=False` omits the language guard, which leaves the boundary as the only
    protection; `available` restricts the mechanisms, to simulate a machine without them. Raises SandboxError if the
    required isolation is not available.
    """
    spec = WorkerSpec(limits, frozenset() if sandbox == "off" else available, guard)
    if sandbox != "off" and uses_docker():
        return _rejected_outcome(code) or _run_in_container(code, spec, cancellation)
    return _run({"code": code}, spec, sandbox, cancellation)


def run_program(
    code: str,
    functions: Mapping[str, Sequence[str]],
    answer: Answer,
    *,
    sandbox: str = "auto",
    limits: ProcessLimits = PYTHON_LIMITS,
    cancellation: Cancellation | None = None,
) -> PythonOutcome:
    """Like `run_python`, with host functions that the code can call, given by name with the names of their parameters.

    Each call is answered by `answer` in this thread while the code waits; that time does not count towards its timeout.
    """
    spec = WorkerSpec(limits, frozenset() if sandbox == "off" else MECHANISMS, calls=True)
    return _run({"code": code, "functions": json.dumps(functions)}, spec, sandbox, cancellation, answer)


class PythonSession:
    """A worker that keeps variables from call to call, until a call is ended from outside.

    Each call has the limits of a snippet; the computing time of all calls together is limited to that of 20. Calls
    wait for each other. `close` ends the worker, after the current call if there is one.
    """

    def __init__(
        self,
        sandbox: str = "auto",
        limits: ProcessLimits = PYTHON_LIMITS,
        *,
        available: frozenset[str] = MECHANISMS,
    ) -> None:
        wanted = frozenset[str]() if sandbox == "off" else available
        self._sandbox, self._spec = sandbox, WorkerSpec(limits, wanted, calls=True, stateful=True)
        self._lock = threading.Lock()
        self._worker: WorkerHandle | None = None
        self._boundary = Boundary(frozenset(), PYTHON_NEEDS)
        self._is_closed = False

    @property
    def has_variables(self) -> bool:
        """Whether the variables of an earlier call exist."""
        return self._worker is not None and self._worker.program.poll() is None

    def run(self, code: str, cancellation: Cancellation | None = None) -> PythonOutcome:
        """Run code with the variables of earlier calls. Raises SandboxError if the required isolation is missing."""
        refused = _rejected_outcome(code)
        if refused:
            return replace(refused, variables="kept")
        with self._lock:
            try:
                worker = self._worker = self._ready_worker()
                worker.send({"code": code})
                outcome = _collect_outcome(worker, self._spec.limits, self._boundary, cancellation, None)
            except BaseException:
                self._end()
                raise
            if worker.program.poll() is not None or outcome.kind == "limit":
                self._end()
        if self._is_closed:
            self.close()
        return replace(outcome, variables="kept" if self.has_variables else "lost")

    def close(self) -> None:
        """End the worker; the current call ends it when it is done."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _ready_worker(self) -> WorkerHandle:
        """The waiting worker, or a new one. Raises SandboxError."""
        if self._worker is not None and self.has_variables:
            return self._worker
        self._end()
        worker, mechanisms = POOL.take(self._spec)
        self._boundary = Boundary(mechanisms, PYTHON_NEEDS)
        try:
            self._boundary.require(self._sandbox)
        except SandboxError:
            worker.close()
            raise
        return worker

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def python_boundary(available: frozenset[str] = MECHANISMS) -> Boundary:
    """Determine the boundary of snippets on this machine by starting a worker, which then waits for a snippet.

    Raises SandboxError if a worker cannot be started, or if no Docker daemon answers where it is the chosen sandbox.
    """
    if available and uses_docker():
        return Boundary(docker_backend.mechanisms(network=False), frozenset({DOCKER}))
    return Boundary(POOL.achievable_mechanisms(WorkerSpec(requested=available)), PYTHON_NEEDS)


def _run(
    task: Mapping[str, str],
    spec: WorkerSpec,
    sandbox: str,
    cancellation: Cancellation | None,
    answer: Answer | None = None,
) -> PythonOutcome:
    check_isolation(sandbox)
    refused = _rejected_outcome(task["code"])
    if refused:
        return refused
    worker, mechanisms = POOL.take(spec)
    with contextlib.closing(worker):
        boundary = Boundary(mechanisms, PYTHON_NEEDS)
        boundary.require(sandbox)
        worker.send(task)
        POOL.refill(spec)  # the next worker starts while this one runs
        return _collect_outcome(worker, spec.limits, boundary, cancellation, answer)


_CONTAINER_BOOTSTRAP = """
import sys
package = sys.modules["agentkit"] = type(sys)("agentkit")
package.__path__ = [sys.argv[1]]
from agentkit.sandbox.worker import serve_container
serve_container()
"""


def _run_in_container(code: str, spec: WorkerSpec, cancellation: Cancellation | None) -> PythonOutcome:
    """Run a snippet in a container, which sees this package and the guard's, with the Python of the image."""
    boundary = python_boundary()
    setup = {**_setup(spec), "mark": f"\0{secrets.token_hex(16)}\0"}
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    packages = [f"{package}/sandbox", *split_list(setup["guard"])]
    files = [f"{package}/{name}.py" for name in ("errors", "_dataclass")]
    command = ["python3", "-P", "-s", "-S", "-u", "-X", "utf8", "-c", _CONTAINER_BOOTSTRAP, package]
    mounts = [("ro", path, path) for path in (*packages, *files)]
    environment = {"PYTHONHASHSEED": "0"}
    container = docker_backend.Container(command, SCRATCH, mounts, environment, spec.limits, reads=True)
    with (
        tempfile.TemporaryDirectory(prefix="agentkit-") as scratch,
        docker_backend.start_container(container, scratch) as task,
    ):
        task.send(b"\n" + protocol.encode(**setup) + protocol.encode(code=code))
        started = time.perf_counter()
        out, raw = Capture(spec.limits.output_bytes), bytearray()
        stop = attend(task, {task.stdout: out.add, task.stderr: raw.extend}, spec.limits, cancellation)
    printed, _, report = bytes(raw).rpartition(setup["mark"].encode())
    printed, report = (printed, report) if printed or report != bytes(raw) else (report, b"")
    err = Capture(spec.limits.output_bytes)
    err.add(printed)
    verdict = _verdict(protocol.split(report), spec.limits) if stop is None else _stopped_verdict(stop)
    is_cut = verdict.truncated or out.truncated or err.truncated
    return PythonOutcome(
        output=out.text() + err.text(),
        stdout=out.text(),
        stderr=err.text(),
        seconds=time.perf_counter() - started,
        boundary=boundary,
        **verdict._replace(truncated=is_cut)._asdict(),
    )


def _stopped_verdict(stop: TerminationReason) -> _Result:
    return _Result("timed_out" if stop.word == "timed_out" else "failed", error=stop.sentence, kind="limit")


def _rejected_outcome(code: str) -> PythonOutcome | None:
    """The outcome of code that is rejected before it reaches a sandbox."""
    objection = _rejection_reason(code)
    if not objection:
        return None
    nothing = Boundary(frozenset(), PYTHON_NEEDS)
    return PythonOutcome(
        "failed", "", "", "", truncated=False, seconds=0.0, boundary=nothing, error=objection, kind="refused"
    )


def _rejection_reason(code: str) -> str:
    """Return why the code is rejected before it reaches a sandbox.

    The code is not parsed here: only the sandbox does that.
    """
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        return "The code contains a lone surrogate, so it is not valid text."
    if "\0" in code:
        return "The code contains a NUL character, which Python does not allow."
    if size > MAX_CODE_BYTES:
        return f"The code is {size:,} bytes long, and at most {MAX_CODE_BYTES:,} are run."
    return ""


class _Result(NamedTuple):
    """The outcome of a snippet without its output."""

    status: str = "ok"
    value: str = ""
    error: str = ""
    kind: str = "ok"
    line: int | None = None
    hint: str = ""
    truncated: bool = False


def _collect_outcome(
    worker: WorkerHandle,
    limits: ProcessLimits,
    boundary: Boundary,
    cancellation: Cancellation | None,
    answer: Answer | None,
) -> PythonOutcome:
    started = time.perf_counter()
    combined, stdout, stderr = (Capture(limits.output_bytes) for _ in range(3))
    report, claim = bytearray(), bytearray()
    handlers = {
        worker.stdout: stdout.tee(combined),
        worker.stderr: stderr.tee(combined),
        worker.report: report.extend,
        **call_handlers(worker, answer),
    }
    if worker.calls is not None and answer is None:
        handlers[worker.calls] = claim.extend
    stop = attend(worker.program, handlers, limits, cancellation, lambda: bool(protocol.split(bytes(claim))))
    claims = protocol.split(bytes(claim))
    verdict = _verdict(protocol.split(bytes(report)), limits) if stop is None else _stopped_verdict(stop)
    verdict = _claimed_verdict(claims[0], limits) if claims else verdict
    return PythonOutcome(
        output=combined.text(),
        stdout=stdout.text(),
        stderr=stderr.text(),
        seconds=time.perf_counter() - started,
        boundary=boundary,
        **verdict._replace(truncated=verdict.truncated or combined.truncated)._asdict(),
    )


def _verdict(frames: list[dict[str, str]], limits: ProcessLimits) -> _Result:
    """Determine the outcome: the worker reports how the process ended, and claims count only after a normal exit."""
    if not frames:
        return _Result("failed", error="The sandbox broke down: its supervisor died.", kind="sandbox")
    code = int(frames[-1]["code"])
    claims = protocol.split(frames[-1]["claim"].encode("utf-8", "surrogateescape"))
    claim = claims[0] if claims else {}
    if code == 0 and "kind" in claim:
        return _claimed_verdict(claim, limits)
    if code == FAILED and "failure" in claim:
        failure = protocol.shorten(claim["failure"], limits.output_bytes)
        return _Result("failed", error=f"The sandbox broke down: {failure}", kind="sandbox")
    if code < 0:
        return _signal_verdict(-code, limits)
    return _Result("failed", error=f"It ended its process (exit code {code}) before it finished.", kind="raised")


def _claimed_verdict(claim: dict[str, str], limits: ProcessLimits) -> _Result:
    """Convert the claim of the process about the code's end, which the code itself can have written."""
    max_bytes = limits.output_bytes + _NOTE_BYTES
    claim = {name: protocol.shorten(text, max_bytes) for name, text in claim.items()}
    is_cut = bool(claim.get("cut"))
    if claim.get("kind") == "ok":
        return _Result(value=claim.get("value", ""), truncated=is_cut)
    kind = claim["kind"] if claim.get("kind") in _KINDS else "raised"
    message, line = claim.get("message", ""), claim.get("line", "")
    if claim.get("raised") == "MemoryError":
        message, kind = out_of_memory(limits), "limit"
    number = int(line) if line.isascii() and line.isdecimal() and len(line) < _MAX_DIGITS else None
    return _Result("failed", "", message or "It failed.", kind, number, claim.get("hint", ""), is_cut)


def _signal_verdict(signal: int, limits: ProcessLimits) -> _Result:
    if signal == _CPU_SIGNAL:
        sentence = f"It timed out: it ran for more than {limits.timeout_seconds:g} seconds."
        return _Result("timed_out", error=sentence, kind="limit")
    if signal == _CALL_SIGNAL:
        return _Result(
            "failed", error="It was stopped by a rule of the sandbox: a forbidden system call.", kind="limit"
        )
    name = _SIGNALS.get(signal, f"signal {signal}")
    return _Result("failed", error=f"It crashed: its process was ended by {name}.", kind="limit")


@functools.lru_cache(maxsize=8)
def _setup(spec: WorkerSpec) -> dict[str, str]:
    """Return the setup frame of a worker for such snippets."""
    sandbox = os.path.dirname(os.path.realpath(__file__))
    guard = _guard_packages() if spec.guard else []
    packages = [os.path.dirname(sandbox) if spec.module else sandbox, *guard, *spec.packages]
    resources = spec.limits.resources(of_one_process=True)
    resources["CPU"] *= _STATEFUL_CALLS if spec.stateful else 1
    return {
        **python_mounts(packages, scratch_bytes=spec.limits.scratch_bytes).texts(),
        "task": "module" if spec.module else "python",
        "module": spec.module,
        "paths": "\0".join(dict.fromkeys(os.path.dirname(package) for package in spec.packages)),
        "request_bytes": str(spec.request_bytes),
        "folder": SCRATCH,
        "network": "",
        "output_bytes": str(spec.limits.output_bytes),
        "guard": "\0".join(guard),
        "calls": "yes" if spec.calls else "",
        "stateful": "yes" if spec.stateful else "",
        "resources": "\0".join(f"{name}={amount}" for name, amount in resources.items()),
    }


def _guard_packages() -> list[str]:
    """The package folders of the guard, which are mounted in the worker. Raises SandboxError if they are missing."""
    found = find_spec("RestrictedPython")
    if found is None or not found.submodule_search_locations:
        raise SandboxError("The Python guard needs a missing package: pip install 'RestrictedPython>=9,<10'")
    return [os.path.realpath(folder) for folder in found.submodule_search_locations]


class WorkerPool:
    """A pool of isolated workers waiting for a snippet. Each worker runs one snippet; idle workers are closed.

    Thread-safe. In a process forked from its owner the pool is empty, and the owner's workers are left alone.
    """

    def __init__(self, size: int = 1, idle_seconds: float = 60.0) -> None:
        self._size, self._idle_seconds = size, idle_seconds
        self._waiting: list[tuple[WorkerSpec, WorkerHandle]] = []
        self._achieved: dict[WorkerSpec, frozenset[str]] = {}
        self._locks: dict[int, threading.Lock] = {}
        self._timer: threading.Timer | None = None
        self._closing: object = None

    def take(self, spec: WorkerSpec) -> tuple[WorkerHandle, frozenset[str]]:
        """Return a worker that waits for its snippet and its mechanisms; the caller must close the worker."""
        for worker in iter(lambda: self._pick(spec), None):
            report = worker.ready()
            if "mechanisms" in report:
                return worker, frozenset(split_list(report["mechanisms"]))
            worker.close()
        worker, mechanisms = start_isolated(_setup(spec), spec.requested)
        self._achieved[spec] = mechanisms
        return worker, mechanisms

    def achievable_mechanisms(self, spec: WorkerSpec) -> frozenset[str]:
        """The mechanisms that workers for such snippets get on this machine."""
        if spec not in self._achieved:
            worker, mechanisms = start_isolated(_setup(spec), spec.requested)
            self._achieved[spec] = mechanisms
            self._put(spec, worker)
        return self._achieved[spec]

    def refill(self, spec: WorkerSpec) -> None:
        """Start a worker for the next snippet of this kind without waiting for it."""
        if not any(waiting == spec for waiting, _ in self._waiting):
            mechanisms = self._achieved.get(spec, spec.requested) & spec.requested
            with contextlib.suppress(SandboxError):  # the next snippet reports the error
                self._put(spec, WorkerHandle({**_setup(spec), "mechanisms": "\0".join(mechanisms)}))

    def close(self) -> None:
        """Close the waiting workers. The next snippet starts a new one."""
        with self._lock:
            closing, self._waiting[:] = self._waiting[:], []
            if self._timer:
                self._timer.cancel()
        _close_all(closing)

    @property
    def _lock(self) -> threading.Lock:
        """The lock of this process: after a fork, a copied lock could be held by a thread that does not exist."""
        return self._locks.setdefault(os.getpid(), threading.Lock())

    def _pick(self, spec: WorkerSpec) -> WorkerHandle | None:
        with self._lock:
            foreign = [entry for entry in self._waiting if entry[1].owner != os.getpid()]
            found = next((entry for entry in self._waiting if entry[0] == spec and entry not in foreign), None)
            self._waiting[:] = [entry for entry in self._waiting if entry not in foreign and entry is not found]
        _close_all(foreign)
        return found[1] if found else None

    def _put(self, spec: WorkerSpec, worker: WorkerHandle) -> None:
        """Add a waiting worker for a limited time, replacing the oldest one if the pool is full."""
        with self._lock:
            self._closing = self._closing or weakref.finalize(self, _close_all, self._waiting)
            self._waiting.append((spec, worker))
            closing = self._waiting[: max(0, len(self._waiting) - self._size)]
            del self._waiting[: len(closing)]
            if self._timer:
                self._timer.cancel()
            self._timer = threading.Timer(self._idle_seconds, self.close)
            self._timer.daemon = True
            self._timer.start()
        _close_all(closing)


def _close_all(entries: list[tuple[WorkerSpec, WorkerHandle]]) -> None:
    while entries:
        entries.pop()[1].close()


POOL = WorkerPool()
"""The only state between calls: starting a worker takes longer than most snippets, so one is prepared in advance."""


Status = Literal["ok", "timed_out", "memory", "flood", "failed"]


class ModuleOutcome(NamedTuple):
    """The outcome of a module's function: its frames, `status`, and an `error` for `failed`.

    `frames` are complete only when the status is `ok`.
    """

    status: Status
    frames: list[dict[str, str]]
    error: str = ""


def run_module(
    module: str,
    request: Mapping[str, str],
    limits: ProcessLimits,
    *,
    packages: tuple[str, ...] = (),
    request_bytes: int = protocol.MAX_FRAME_BYTES,
    available: frozenset[str] = MECHANISMS,
) -> ModuleOutcome:
    """Call `work(request)` of a module of this package in a process that serves one request.

    The process has the strongest isolation that this machine offers, without network and without the user's files; on
    a machine that offers none, it is a plain process with resource limits. `available` removes mechanisms, for tests.
    Raises SandboxError when no process can be started.
    """
    spec = WorkerSpec(limits, available, guard=False, module=module, packages=packages, request_bytes=request_bytes)
    worker, _ = MODULE_POOL.take(spec)
    report, written = bytearray(), bytearray()
    with contextlib.closing(worker):
        worker.send(request)
        MODULE_POOL.refill(spec)
        handlers = {worker.report: report.extend, worker.stdout: written.extend, worker.stderr: _discard}
        stop = attend(worker.program, handlers, limits)
    frames = protocol.split(bytes(written))
    if stop is not None:
        known: dict[str, Status] = {"timed_out": "timed_out", "memory": "memory", "flood": "flood"}
        return ModuleOutcome(known.get(stop.word, "failed"), frames, stop.sentence)
    return _module_outcome(protocol.split(bytes(report)), frames)


def _module_outcome(reports: list[dict[str, str]], frames: list[dict[str, str]]) -> ModuleOutcome:
    """The outcome of a process that ended by itself, from what its worker reports."""
    if not reports:
        return ModuleOutcome("failed", frames, "its process was killed")
    code = int(reports[-1]["code"])
    claims = protocol.split(reports[-1]["claim"].encode("utf-8", "surrogateescape"))
    claim = claims[0] if claims else {}
    if code == 0 and claim.get("kind") == "ok":
        return ModuleOutcome("ok", frames)
    failure = claim.get("failure", f"its process ended with code {code}")
    if code == -_CPU_SIGNAL:
        return ModuleOutcome("timed_out", frames)
    if code == -_KILL_SIGNAL or failure.startswith("MemoryError"):
        return ModuleOutcome("memory", frames)
    return ModuleOutcome("failed", frames, failure)


def _discard(_: bytes) -> None:
    """Discard warnings that libraries print."""


MODULE_POOL = WorkerPool()
"""Keeps one process ready for the next request of the same kind, separate from the pool for Python code."""


Answer = Callable[[str, str], Mapping[str, str]]
"""Answers a call, given the function's name and its arguments as JSON.

Returns a `value`, as the only item of a JSON list, or an `error`. Name and arguments are untrusted.
"""

_LENGTH = 4
_NO_CALL = "The code sent an invalid function call."


class CallingWorker(Protocol):
    """A process of the sandbox whose code can call host functions."""

    calls: int | None
    program: subprocess.Popen[bytes]

    def reply(self, texts: Mapping[str, str]) -> None:
        """Send a reply that the code waits for. Raises SandboxError if it is not read."""
        ...


def call_handlers(worker: CallingWorker, answer: Answer | None) -> dict[int, Callable[[bytes], None]]:
    """The descriptor of calls, if they are enabled, mapped to the handler of the data read from it."""
    return {} if answer is None or worker.calls is None else {worker.calls: _CallHandler(worker, answer).take}


class _CallHandler:
    """Assembles calls from chunks of data and replies to each complete one."""

    def __init__(self, worker: CallingWorker, answer: Answer) -> None:
        self._worker, self._answer = worker, answer
        self._received = bytearray()

    def take(self, data: bytes) -> None:
        """Process a chunk. Raises SandboxError for a malformed call or a reply that is not read."""
        if self._worker.program.poll() is not None:
            return
        self._received += data
        length = int.from_bytes(self._received[:_LENGTH], "big")
        awaited = length if length <= protocol.MAX_FRAME_BYTES else 0
        if len(self._received) < _LENGTH + awaited:
            return
        requests = protocol.split(bytes(self._received))
        self._received.clear()  # code that waits for a reply sends nothing else
        if len(requests) != 1 or requests[0].keys() != {"tool", "arguments"}:
            raise SandboxError(_NO_CALL)
        self._worker.reply(self._answer(requests[0]["tool"], requests[0]["arguments"]))
