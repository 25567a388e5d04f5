"""The bubblewrap launcher."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agentkit.errors import SandboxError
from agentkit.sandbox import seccomp
from agentkit.sandbox.isolation import BUBBLEWRAP, HOST_NAME, NAMESPACES, RESOURCE_LIMITS, SECCOMP
from agentkit.sandbox.watchdog import ProcessLimits, attend, end

_ALWAYS = ("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--unshare-cgroup-try", "--clearenv")
_PROBE_LIMITS = ProcessLimits(timeout_seconds=10)
_PROBE = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--size", "65536", "--tmpfs", "/tmp")


_START_SECONDS = 30.0
_MAX_FAILURE_BYTES = 2_000
_GATE = "printf . >&{ready}; read -r -N 1 -u {go} || exit 63; exec {ready}>&- {go}<&-; "
"""The script that bash runs first: it reports that it runs in the sandbox, and waits for permission."""

MAX_MOUNTS = 100
"""Above this number of mounts bubblewrap is slower than our own worker: it reads all of them for each one."""


class Wrapped(NamedTuple):
    """A program in bubblewrap, and its two outputs."""

    program: subprocess.Popen[bytes]
    stdout: int
    stderr: int


class Gate:
    """Delays the command of a shell in bubblewrap until the host has checked the mounts."""

    def __init__(self) -> None:
        self._ready, self._their_ready = os.pipe()
        self._their_go, self._go = os.pipe()
        self.script = _GATE.format(ready=self._their_ready, go=self._their_go)
        self.passed = [self._their_ready, self._their_go]

    def wait(self, wrapped: Wrapped) -> None:
        """Wait until the shell reports. Raises SandboxError, with bubblewrap's error message, if it does not."""
        self._close_theirs()
        poll = select.poll()
        poll.register(self._ready, select.POLLIN)
        if poll.poll(_START_SECONDS * 1000) and os.read(self._ready, 1):
            return
        end(wrapped.program)
        os.set_blocking(wrapped.stderr, False)
        with contextlib.suppress(BlockingIOError):
            words = os.read(wrapped.stderr, _MAX_FAILURE_BYTES).decode("utf-8", "replace").strip()
            raise SandboxError(f"The sandbox cannot be started: {words or 'bubblewrap died'}.")
        raise SandboxError("The sandbox cannot be started: bubblewrap died.")

    def open(self) -> None:
        """Let the shell continue; if it has exited, its exit status reports that."""
        with contextlib.suppress(OSError):
            os.write(self._go, b".")

    def close(self) -> None:
        """Close the pipes; a waiting shell exits."""
        self._close_theirs()
        os.close(self._ready)
        os.close(self._go)

    def _close_theirs(self) -> None:
        while self.passed:
            os.close(self.passed.pop())


def mechanisms(wanted: frozenset[str]) -> frozenset[str]:
    """The requested mechanisms that bubblewrap provides; empty if it is not requested, missing or does not work.

    It always leaves the user, pid and mount namespaces, so it cannot be used unless all of these are requested.
    """
    if not {BUBBLEWRAP, "user", "pid", "mount"} <= wanted:
        return frozenset()
    chosen = wanted & {*NAMESPACES, BUBBLEWRAP, SECCOMP}
    if os.uname().machine not in seccomp.MACHINES:
        chosen -= {SECCOMP}
    return chosen | {RESOURCE_LIMITS} if _is_usable(chosen) else frozenset()


@functools.cache
def _is_usable(chosen: frozenset[str]) -> bool:
    """Whether bubblewrap can start a program on this machine; containers often forbid it."""
    if shutil.which("bwrap") is None:
        return False
    with run_in_bubblewrap(["true"], [*_PROBE], chosen) as wrapped:
        return attend(wrapped.program, {}, _PROBE_LIMITS) is None and wrapped.program.returncode == 0


def forget() -> None:
    """Clear the cached test, so that the next use tests again whether bubblewrap works."""
    _is_usable.cache_clear()


@contextlib.contextmanager
def run_in_bubblewrap(
    command: Iterable[str], view: Iterable[str], chosen: frozenset[str], passed: Iterable[int] = ()
) -> Iterator[Wrapped]:
    """Run a command in bubblewrap with these mounts and mechanisms; it is ended, and its pipes closed, after the block.

    `passed` are descriptors that the command inherits. Raises SandboxError if it cannot be started.
    """
    with contextlib.ExitStack() as theirs:
        arguments = [*_ALWAYS]
        arguments += [f"--unshare-{name}" for name in NAMESPACES if name in chosen and name != "mount"]
        arguments += ["--hostname", HOST_NAME] if "uts" in chosen else []
        own = []
        if SECCOMP in chosen:
            own.append(_pipe_with(seccomp.shell_filter(os.uname().machine)))
            theirs.callback(os.close, own[-1])
            arguments += ["--seccomp", str(own[-1])]
        own.append(_arguments_file([*arguments, *view]))
        theirs.callback(os.close, own[-1])
        try:
            program = subprocess.Popen(  # the command was judged
                [shutil.which("bwrap") or "bwrap", "--args", str(own[-1]), "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[*own, *passed],
                env={"PATH": os.defpath},
                cwd="/",
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise SandboxError(f"The command cannot be started: {error}") from error
        theirs.close()
        with program:
            outputs = [stream.fileno() for stream in (program.stdout, program.stderr) if stream]
            try:
                yield Wrapped(program, outputs[0], outputs[1])
            finally:
                end(program)


def _arguments_file(words: Iterable[str]) -> int:
    """A descriptor from which bubblewrap reads its arguments, since they can exceed the length of a command line."""
    descriptor = os.memfd_create("agentkit-arguments")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.writelines(os.fsencode(word) + b"\0" for word in words)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pipe_with(data: bytes) -> int:
    """A descriptor from which the data can be read; it must fit into the buffer of a pipe."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading
