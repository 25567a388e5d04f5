"""A process that ends an MCP server when its client exits.

It hands on what is written to the server and what the server answers, in bytes, and reads none of it. Its own input
ends when whoever started it closes it or dies, by whatever signal: then the server is given a moment, and ended with
all that it has started.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from agentkit.sandbox.watchdog import kill_descendants

GRACE_SECONDS = 1.0
"""How long a server may take to end by itself when its input has ended."""

MOST_LINE_BYTES = 8 * 1024 * 1024
"""How long one message of a server may be: whoever reads it must hold it as a whole."""

NOT_STARTED, TOO_LONG = 127, 126
"""The exit codes for a command that cannot be started, and for a server that was ended for a message too long."""

_HOME = str(Path(__file__).resolve().parents[1])
_BOOTSTRAP = """
import sys
package = sys.modules["agentkit"] = type(sys)("agentkit")
package.__path__ = [sys.argv[1]]
for name in ("mcp", "sandbox"):
    part = sys.modules["agentkit." + name] = type(sys)("agentkit." + name)
    part.__path__ = [sys.argv[1] + "/" + name]
from agentkit.mcp.watchdog import main
sys.exit(main(sys.argv[2:]))
"""
"""Starts the keeper without the packages' own `__init__`, of which it needs nothing."""

_READ_BYTES = 65_536
_SET_CHILD_SUBREAPER = 36
_STDIN, _STDOUT, _STDERR = range(3)


def kept(words: Sequence[str]) -> list[str]:
    """The command that runs a server behind a keeper."""
    interpreter = getattr(sys, "_base_executable", None) or sys.executable
    return [interpreter, "-I", "-S", "-c", _BOOTSTRAP, _HOME, *words]


def main(command: Sequence[str], most_line_bytes: int = MOST_LINE_BYTES, grace_seconds: float = GRACE_SECONDS) -> int:
    """Run the command until it ends or the input does; its exit code. Nothing that it started is left."""
    _adopt_orphans()
    (its_input, into), (out, its_output) = os.pipe(), os.pipe()
    try:
        program = subprocess.Popen(command, stdin=its_input, stdout=its_output)
    except (OSError, ValueError) as error:
        os.write(_STDERR, f"{error}\n".encode("utf-8", "backslashreplace"))
        return NOT_STARTED
    for descriptor in (its_input, its_output):
        os.close(descriptor)
    threading.Thread(target=_feed, args=(program, into, grace_seconds), daemon=True).start()
    threading.Thread(target=_bury, args=(program,), daemon=True).start()
    if _tell(out, most_line_bytes):
        return program.wait()
    _end(program)
    os.write(_STDERR, f"It was ended: a message of it was longer than {most_line_bytes:,} bytes.\n".encode())
    return TOO_LONG


def _adopt_orphans() -> None:
    """Become the parent of whatever the server starts and leaves behind, where the system has that."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _feed(program: subprocess.Popen[bytes], into: int, grace_seconds: float) -> None:
    """Hand the input on. When it ends, so does the program's, and after a moment the program."""
    while data := os.read(_STDIN, _READ_BYTES):
        with contextlib.suppress(OSError):  # the program does not read any more: what it still writes is handed on
            _write(into, data)
    os.close(into)
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(grace_seconds)
    _end(program)


def _bury(program: subprocess.Popen[bytes]) -> None:
    """End what the program leaves behind, or that would hold its output open."""
    program.wait()
    _end(program)


def _end(program: subprocess.Popen[bytes]) -> None:
    """End the program with all that it started; itself also where nobody can tell what it started."""
    kill_descendants(os.getpid())
    program.kill()


def _tell(out: int, most_line_bytes: int) -> bool:
    """Hand on what the program writes, to its end; whether all lines were short enough."""
    length = 0
    while data := os.read(out, _READ_BYTES):
        _, newline, after = data.rpartition(b"\n")
        length = len(after) if newline else length + len(data)
        if length > most_line_bytes:
            return False
        with contextlib.suppress(OSError):  # nobody reads any more: the end of the input will follow
            _write(_STDOUT, data)
    return True


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
