"""Enforcement of time, memory and output limits on programs of the sandbox."""

from __future__ import annotations

import contextlib
import math
import os
import select
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TypeVar

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError, SandboxError
from agentkit.sandbox import protocol
from agentkit.sandbox.process_tree import descendants, kill_descendants

T = TypeVar("T")

MEGABYTE = 1024 * 1024

_TICK_SECONDS = 0.05
_TREE_TICK_SECONDS = 0.1
_CANCELLING_SECONDS = 5.0
_DRAIN_SECONDS = 0.5
_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The resource limits of a program; output written before a limit ends it is returned.

    `memory_bytes` applies to the whole process tree, `output_bytes` is how much of each output is returned (beginning
    and end). A program that writes `flood_bytes` is ended. Raises ConfigError for an invalid limit.
    """

    timeout_seconds: float = 30.0
    memory_bytes: int = 2048 * MEGABYTE
    processes: int = 256
    output_bytes: int = 50_000
    file_bytes: int = 256 * MEGABYTE
    scratch_bytes: int = 256 * MEGABYTE
    open_files: int = 1024
    flood_bytes: int = 64 * MEGABYTE

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 < value < math.inf:
                raise ConfigError(f"{field.name}= takes a positive number, not {value!r}.")

    def resources(self, *, of_one_process: bool) -> dict[str, int]:
        """The kernel's limits, by their names in the module `resource`.

        A single process is limited in address space and CPU time. For several processes the address space of each says
        little: their memory is measured together, from outside.
        """
        shared = {"CORE": 0, "FSIZE": self.file_bytes, "NOFILE": self.open_files}
        if of_one_process:
            return {**shared, "AS": self.memory_bytes, "CPU": math.ceil(self.timeout_seconds) + 1}
        return {**shared, "DATA": self.memory_bytes, "NPROC": self.processes}


class Capture:
    """Bounded buffer of an output: its beginning, its end and its total length."""

    def __init__(self, max_bytes: int) -> None:
        self.total_bytes = 0
        self._max_head, self._max_tail = protocol.split_limit(max_bytes)
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Add a chunk."""
        self.total_bytes += len(data)
        room = self._max_head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._max_tail + _READ_BYTES:
            self._shorten()

    def tee(self, other: Capture) -> Callable[[bytes], None]:
        """Return a function that adds a chunk to both captures."""

        def add(data: bytes) -> None:
            self.add(data)
            other.add(data)

        return add

    def _shorten(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._max_tail)]

    @property
    def truncated(self) -> bool:
        """Whether the middle of the output was dropped."""
        return self.total_bytes > self._max_head + self._max_tail

    def text(self) -> str:
        """Beginning and end as text, with a line that states how many bytes were omitted."""
        self._shorten()
        head, tail = bytes(self._head), bytes(self._tail)
        if not self.truncated:
            return (head + tail).decode("utf-8", "replace")
        return protocol.abridge(head, tail, self.total_bytes)


class Cancellation:
    """A thread-safe request to end a program."""

    def __init__(self) -> None:
        self._requested = threading.Event()

    def cancel(self) -> None:
        """Request the end of the program and its descendants."""
        self._requested.set()

    @property
    def is_requested(self) -> bool:
        """Whether the end was requested."""
        return self._requested.is_set()


class RemoteProgram(ABC):
    """A program whose processes are out of reach here, such as one in a container, which limits its own resources."""

    def __init__(self) -> None:
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self.returncode

    @abstractmethod
    def end(self) -> None:
        """End all of its processes."""


Program = subprocess.Popen[bytes] | RemoteProgram


@dataclass(frozen=True, slots=True)
class TerminationReason:
    """The reason why a program was ended from outside: a code and a sentence.

    The code is timed_out, cancelled, memory, processes, flood, or refused if its output could not be processed.
    """

    word: str
    sentence: str


def attend(
    program: Program,
    outputs: Mapping[int, Callable[[bytes], None]],
    limits: ProcessLimits,
    cancellation: Cancellation | None = None,
    is_done: Callable[[], bool] = lambda: False,
) -> TerminationReason | None:
    """Read the program's output until it ends or exceeds a limit; returns None if it ended by itself.

    `outputs` maps descriptors to handlers of their data; a handler that raises SandboxError ends the program. When this
    returns or raises, the whole process tree of the program is dead, unless `is_done` has found in its output that it
    waits for more work.
    """
    watch = _Monitor(program, limits, cancellation)
    try:
        stop = _read_all(program, outputs, watch, is_done)
    except SandboxError as error:
        stop = TerminationReason("refused", str(error))
    finally:
        if not is_done():
            end(program)
    _drain(outputs)
    return stop


def _read_all(
    program: Program, outputs: Mapping[int, Callable[[bytes], None]], watch: _Monitor, is_done: Callable[[], bool]
) -> TerminationReason | None:
    poll = select.poll()
    for descriptor in outputs:
        poll.register(descriptor, select.POLLIN)
    is_open = set(outputs)
    while True:
        for descriptor, _ in poll.poll(_TICK_SECONDS * 1000 if is_open else 1):
            data = os.read(descriptor, _READ_BYTES)
            began = time.monotonic()
            outputs[descriptor](data)
            watch.exclude(time.monotonic() - began)
            watch.written_bytes += len(data)
            if not data:
                poll.unregister(descriptor)
                is_open.discard(descriptor)
        if program.poll() is not None or is_done():
            return None
        stop = watch.stop()
        if stop:
            return stop


def _drain(outputs: Mapping[int, Callable[[bytes], None]]) -> None:
    """Read the remaining data in the pipes, without waiting for a stray process that holds them open."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    for descriptor, take in outputs.items():
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while time.monotonic() < deadline and poll.poll(0):
            data = os.read(descriptor, _READ_BYTES)
            if not data:
                break
            take(data)


class _Monitor:
    """Measures a running program and detects the first exceeded limit."""

    def __init__(self, program: Program, limits: ProcessLimits, cancellation: Cancellation | None) -> None:
        self.written_bytes = 0
        self._program, self._limits, self._cancellation = program, limits, cancellation
        self._deadline = time.monotonic() + limits.timeout_seconds
        self._next_count = time.monotonic() + _TREE_TICK_SECONDS

    def exclude(self, seconds: float) -> None:
        """Exclude time spent by the host from the program's timeout."""
        self._deadline += seconds

    def stop(self) -> TerminationReason | None:
        limits = self._limits
        if self._cancellation is not None and self._cancellation.is_requested:
            return TerminationReason("cancelled", "It was cancelled.")
        if time.monotonic() >= self._deadline:
            return TerminationReason(
                "timed_out", f"It timed out after {limits.timeout_seconds:g} seconds and was ended."
            )
        if self.written_bytes > limits.flood_bytes:
            return TerminationReason(
                "flood", f"It wrote more than {_megabytes(limits.flood_bytes)} of output and was ended."
            )
        if time.monotonic() >= self._next_count:
            return self._count()
        return None

    def _count(self) -> TerminationReason | None:
        """Measure the whole process tree."""
        if isinstance(self._program, RemoteProgram):
            return None
        tree = descendants(self._program.pid)
        self._next_count = time.monotonic() + _TREE_TICK_SECONDS
        if len(tree) > self._limits.processes:
            return TerminationReason("processes", f"It had more than {self._limits.processes} processes and was ended.")
        if sum(tree.values()) * os.sysconf("SC_PAGE_SIZE") > self._limits.memory_bytes:
            return TerminationReason("memory", out_of_memory(self._limits))
        return None


def out_of_memory(limits: ProcessLimits) -> str:
    """The message for a program that exceeded its memory limit."""
    return f"It ran out of memory: the limit is {_megabytes(limits.memory_bytes)}."


def _megabytes(count: int) -> str:
    return f"{count / MEGABYTE:,.4g} MB"


async def run_cancellable(work: Callable[[Cancellation], T]) -> T:
    """Run blocking work in a new thread. If the caller is cancelled, the work is cancelled and awaited."""
    import asyncio

    loop = asyncio.get_running_loop()
    finished = asyncio.Event()
    cancellation = Cancellation()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(cancellation))
        except BaseException as error:  # raised again in the awaiting task
            errors.append(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed and no task waits
            loop.call_soon_threadsafe(finished.set)

    threading.Thread(target=run, name="agentkit-sandbox", daemon=True).start()
    try:
        await finished.wait()
    except asyncio.CancelledError:
        cancellation.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(finished.wait(), _CANCELLING_SECONDS)
        raise
    if errors:
        raise errors[0]
    return results[0]


def end(program: Program) -> None:
    """Kill a program and its descendants, and reap it. Descendants are killed first so that none can escape."""
    if isinstance(program, RemoteProgram):
        program.end()
        return
    if program.poll() is None:
        kill_descendants(program.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, 9)
        program.kill()
    program.wait()
