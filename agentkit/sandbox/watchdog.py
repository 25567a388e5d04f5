"""Enforcement of time, memory and output limits, and termination of process trees.

Used by the host and inside the sandbox, so it imports little.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TypeVar

from agentkit._dataclass import dataclass
from agentkit.errors import ConfigError, SandboxError
from agentkit.sandbox import protocol

_KILL = 9
_MOST_ROUNDS, _ROUND_SECONDS = 500, 0.002
_DEAD = (b"Z", b"X")
_STATE, _PARENT, _GROUP, _RESIDENT = 0, 1, 2, 21
"""Places in /proc/PID/stat, counted from the word after the name: state, parent, group, resident pages."""


def descendants(root: int) -> dict[int, int]:
    """The processes below `root`, each with its resident pages; empty where there is no /proc."""
    return {process: int(words[_RESIDENT]) for process, words in _below(root).items()}


def process_count() -> int:
    """How many processes there are, as far as can be seen."""
    return len(_processes())


def kill_descendants(root: int) -> None:
    """End every process below `root`, also those that are started meanwhile, and see them dead.

    Their parents reap them. Whole groups are ended at once, or what multiplies would be faster; `root` and
    its group are left alone. What the kernel cannot end within a second is not waited for.
    """
    spared = {_group(root), os.getpgrp(), 0}
    killed: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        below = _below(root)
        living = {process for process, words in below.items() if words[_STATE] not in _DEAD}
        if not living:
            return
        for group in {int(below[process][_GROUP]) for process in living - killed} - spared:
            _kill(-group)
        for process in living - killed:
            _kill(process)
        killed |= living
        time.sleep(_ROUND_SECONDS)


def _below(root: int) -> dict[int, list[bytes]]:
    """What /proc says of each process below `root`."""
    told = {process: words for process in _processes() if (words := _stat(process))}
    children: dict[int, list[int]] = {}
    for process, words in told.items():
        children.setdefault(int(words[_PARENT]), []).append(process)
    found: dict[int, list[bytes]] = {}
    frontier = children.get(root, [])
    while frontier:
        found.update((process, told[process]) for process in frontier)
        frontier = [child for process in frontier for child in children.get(process, ()) if child not in found]
    return found


def _group(process: int) -> int:
    words = _stat(process)
    return int(words[_GROUP]) if words else 0


def _kill(process: int) -> None:
    try:
        os.kill(process, _KILL)
    except (ProcessLookupError, PermissionError):  # gone already, or with more rights than ours
        return


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _stat(process: int) -> list[bytes]:
    """What /proc says of a process after its name, which may contain anything; empty when it is gone."""
    try:
        descriptor = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    except OSError:
        return []
    try:
        return os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:
        return []
    finally:
        os.close(descriptor)


T = TypeVar("T")

MEGABYTE = 1024 * 1024

_TICK_SECONDS = 0.05
_TREE_TICK_SECONDS = 0.1
_CANCELLING_SECONDS = 5.0
_DRAIN_SECONDS = 0.5
_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a program may use before it is ended; what it had written by then is kept.

    `memory_bytes` bounds the whole tree of processes, `output_bytes` what is kept of each output, its beginning and
    its end. A program that goes on to write `flood_bytes` is ended. Raises ConfigError for what is no limit.
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

        One process may not reserve more than its memory, nor compute longer than its time. Among several, what each
        reserves says little: their memory is counted together, from outside.
        """
        shared = {"CORE": 0, "FSIZE": self.file_bytes, "NOFILE": self.open_files}
        if of_one_process:
            return {**shared, "AS": self.memory_bytes, "CPU": math.ceil(self.timeout_seconds) + 1}
        return {**shared, "DATA": self.memory_bytes, "NPROC": self.processes}


class Capture:
    """What is kept of an output: its beginning and its end, in bounded memory, and how long it was."""

    def __init__(self, most_bytes: int) -> None:
        self.total_bytes = 0
        self._head_room, self._tail_room = protocol.rooms(most_bytes)
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take in the next piece."""
        self.total_bytes += len(data)
        room = self._head_room - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_room + _READ_BYTES:
            self._shorten()

    def also(self, other: Capture) -> Callable[[bytes], None]:
        """What takes a piece into both."""

        def add(data: bytes) -> None:
            self.add(data)
            other.add(data)

        return add

    def _shorten(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_room)]

    @property
    def truncated(self) -> bool:
        """Whether something in the middle was left out."""
        return self.total_bytes > self._head_room + self._tail_room

    def text(self) -> str:
        """Beginning and end as text, with a line that says how many bytes are missing between them."""
        self._shorten()
        head, tail = bytes(self._head), bytes(self._tail)
        if not self.truncated:
            return (head + tail).decode("utf-8", "replace")
        return protocol.abridged(head, tail, self.total_bytes)


class Cancellation:
    """A caller's wish, from any thread, that a program end now."""

    def __init__(self) -> None:
        self._wished = threading.Event()

    def cancel(self) -> None:
        """End the program and all it started, soon."""
        self._wished.set()

    @property
    def is_wished(self) -> bool:
        """Whether the program is to end."""
        return self._wished.is_set()


@dataclass(frozen=True, slots=True)
class TerminationReason:
    """Why a program was ended from outside, in a word and a sentence.

    The word is timed_out, cancelled, memory, processes, flood, or refused where what it wrote could not be taken.
    """

    word: str
    sentence: str


def attend(
    program: subprocess.Popen[bytes],
    outputs: Mapping[int, Callable[[bytes], None]],
    limits: ProcessLimits,
    cancellation: Cancellation | None = None,
) -> TerminationReason | None:
    """Read what the program writes until it ends or must be ended; None when it ended by itself.

    `outputs` are the descriptors to read, each with what takes its data, and raises SandboxError for what ends the
    program. However this returns or raises, no process of the program's tree lives on.
    """
    watch = _Watch(program, limits, cancellation)
    try:
        stop = _read_all(program, outputs, watch)
    except SandboxError as error:
        stop = TerminationReason("refused", str(error))
    finally:
        end(program)
    _drain(outputs)
    return stop


def _read_all(
    program: subprocess.Popen[bytes], outputs: Mapping[int, Callable[[bytes], None]], watch: _Watch
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
            watch.excuse(time.monotonic() - began)
            watch.written_bytes += len(data)
            if not data:
                poll.unregister(descriptor)
                is_open.discard(descriptor)
        if program.poll() is not None:
            return None
        stop = watch.stop()
        if stop:
            return stop


def _drain(outputs: Mapping[int, Callable[[bytes], None]]) -> None:
    """Read what is left in the pipes, without waiting for a stray process that holds them open."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    for descriptor, take in outputs.items():
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while time.monotonic() < deadline and poll.poll(0):
            data = os.read(descriptor, _READ_BYTES)
            if not data:
                break
            take(data)


class _Watch:
    """What is measured while a program runs, and the first limit that it breaks."""

    def __init__(
        self, program: subprocess.Popen[bytes], limits: ProcessLimits, cancellation: Cancellation | None
    ) -> None:
        self.written_bytes = 0
        self._program, self._limits, self._cancellation = program, limits, cancellation
        self._deadline = time.monotonic() + limits.timeout_seconds
        self._next_count = time.monotonic() + _TREE_TICK_SECONDS

    def excuse(self, seconds: float) -> None:
        """Leave out a time that the host has taken, and not the program."""
        self._deadline += seconds

    def stop(self) -> TerminationReason | None:
        limits = self._limits
        if self._cancellation is not None and self._cancellation.is_wished:
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
        """Look at the whole tree, from time to time."""
        tree = descendants(self._program.pid)
        self._next_count = time.monotonic() + _TREE_TICK_SECONDS
        if len(tree) > self._limits.processes:
            return TerminationReason("processes", f"It had more than {self._limits.processes} processes and was ended.")
        if sum(tree.values()) * os.sysconf("SC_PAGE_SIZE") > self._limits.memory_bytes:
            return TerminationReason("memory", out_of_memory(self._limits))
        return None


def out_of_memory(limits: ProcessLimits) -> str:
    """The sentence for a program that wanted more memory than it may have."""
    return f"It ran out of memory: it may have {_megabytes(limits.memory_bytes)}."


def _megabytes(count: int) -> str:
    return f"{count / MEGABYTE:,.4g} MB"


async def run_cancellable(work: Callable[[Cancellation], T]) -> T:
    """The value of blocking work, in a thread of its own. When the caller is cancelled, so is the work, and awaited."""
    import asyncio

    loop = asyncio.get_running_loop()
    finished = asyncio.Event()
    cancellation = Cancellation()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(cancellation))
        except BaseException as error:  # raised again where it is awaited
            errors.append(error)
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
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


def end(program: subprocess.Popen[bytes]) -> None:
    """Kill a program with all its descendants, and reap it. The descendants come first, so that none gets away."""
    if program.poll() is None:
        kill_descendants(program.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, 9)
        program.kill()
    program.wait()
