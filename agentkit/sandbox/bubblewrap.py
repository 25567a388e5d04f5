"""How does a command run inside bubblewrap? As a program that builds the same view and starts faster than ours."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from io import FileIO
from typing import NamedTuple

from agentkit.errors import SandboxError
from agentkit.sandbox.isolation import BUBBLEWRAP, HOST_NAME, NAMESPACES, RESOURCE_LIMITS, SECCOMP
from agentkit.sandbox.kernel import seccomp
from agentkit.sandbox.supervision import ProcessLimits, attend, end

_ALWAYS = ("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--unshare-cgroup-try", "--clearenv")
_PROBE_LIMITS = ProcessLimits(timeout_seconds=10)
_PROBE = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--size", "65536", "--tmpfs", "/tmp")


class Wrapped(NamedTuple):
    """A program in bubblewrap, its two outputs, and where bubblewrap says whether it got as far as starting it."""

    program: subprocess.Popen[bytes]
    stdout: int
    stderr: int
    status: FileIO

    def check(self) -> None:
        """Raise SandboxError when bubblewrap itself failed, rather than the program."""
        code = self.program.returncode
        if code is not None and code > 0 and b"exit-code" not in self.status.read(4096):
            raise SandboxError("bubblewrap could not put up the sandbox for this command, so it was not run.")


def mechanisms(wanted: frozenset[str]) -> frozenset[str]:
    """What bubblewrap puts up of what is wanted; nothing when it is not wanted, not there or does not work here.

    It always leaves the user, pid and mount namespaces, so it is of no use where one of these is not wanted.
    """
    if not {BUBBLEWRAP, "user", "pid", "mount"} <= wanted:
        return frozenset()
    chosen = wanted & {*NAMESPACES, BUBBLEWRAP, SECCOMP}
    if os.uname().machine not in seccomp.MACHINES:
        chosen -= {SECCOMP}
    return chosen | {RESOURCE_LIMITS} if _works(chosen) else frozenset()


@functools.cache
def _works(chosen: frozenset[str]) -> bool:
    """Whether it really starts a program here; containers often forbid it."""
    if shutil.which("bwrap") is None:
        return False
    with started(["true"], [*_PROBE], chosen) as wrapped:
        return attend(wrapped.program, {}, _PROBE_LIMITS) is None and wrapped.program.returncode == 0


@contextlib.contextmanager
def started(command: Iterable[str], view: Iterable[str], chosen: frozenset[str]) -> Iterator[Wrapped]:
    """The command in bubblewrap, with this view of the file system and these mechanisms; its pipes close at the end.

    Raises SandboxError when it cannot be started.
    """
    status, their_status = os.pipe()
    ours = os.fdopen(status, "rb", buffering=0)
    with ours, contextlib.ExitStack() as theirs:
        theirs.callback(os.close, their_status)
        arguments = [shutil.which("bwrap") or "bwrap", *_ALWAYS, "--json-status-fd", str(their_status)]
        arguments += [f"--unshare-{name}" for name in NAMESPACES if name in chosen and name != "mount"]
        arguments += ["--hostname", HOST_NAME] if "uts" in chosen else []
        passed = [their_status]
        if SECCOMP in chosen:
            passed.append(_readable(seccomp.shell_filter(os.uname().machine)))
            theirs.callback(os.close, passed[-1])
            arguments += ["--seccomp", str(passed[-1])]
        try:
            program = subprocess.Popen(  # the command was judged
                [*arguments, *view, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=passed,
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
                yield Wrapped(program, outputs[0], outputs[1], ours)
            finally:
                end(program)


def _readable(data: bytes) -> int:
    """A descriptor from which this can be read; it is small enough to wait in a pipe."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading
