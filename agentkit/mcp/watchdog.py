"""A process that ends an MCP server when its client exits.

It forwards the server's input and output as bytes, without parsing them. Its own input ends when the process that
started it closes it or dies, by whatever signal: the server then has GRACE_SECONDS to exit before it is killed with all
its descendants.
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

from agentkit.sandbox.process_tree import kill_descendants

GRACE_SECONDS = 1.0
"""Seconds that a server has to exit on its own after its input has ended."""

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Maximum size of one message of a server: the reader has to hold it in memory."""

NOT_STARTED, TOO_LONG = 127, 126
"""Exit codes for a command that cannot be started, and for a server killed because of an oversized message."""

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
"""Starts the watchdog without running the packages' `__init__` modules, which it does not need."""

_READ_BYTES = 65_536
_SET_CHILD_SUBREAPER = 36
_STDIN, _STDOUT, _STDERR = range(3)


def watchdog_command(words: Sequence[str]) -> list[str]:
    """Return the command that runs a server under the watchdog."""
    interpreter = getattr(sys, "_base_executable", None) or sys.executable
    return [interpreter, "-I", "-S", "-c", _BOOTSTRAP, _HOME, *words]


def main(command: Sequence[str], max_line_bytes: int = MAX_LINE_BYTES, grace_seconds: float = GRACE_SECONDS) -> int:
    """Run the command until it exits or the input ends; return its exit code. No descendants are left."""
    # Become the parent of orphaned descendants of the server, where the system supports it
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    (child_input, input_writer), (output_reader, child_output) = os.pipe(), os.pipe()
    try:
        program = subprocess.Popen(command, stdin=child_input, stdout=child_output)
    except (OSError, ValueError) as error:
        os.write(_STDERR, f"{error}\n".encode("utf-8", "backslashreplace"))
        return NOT_STARTED
    for descriptor in (child_input, child_output):
        os.close(descriptor)
    threading.Thread(target=_forward_input, args=(program, input_writer, grace_seconds), daemon=True).start()
    threading.Thread(target=_kill_leftovers, args=(program,), daemon=True).start()
    if _forward_output(output_reader, max_line_bytes):
        return program.wait()
    _kill(program)
    os.write(_STDERR, f"The server was ended: it sent a message longer than {max_line_bytes:,} bytes.\n".encode())
    return TOO_LONG


def _forward_input(program: subprocess.Popen[bytes], descriptor: int, grace_seconds: float) -> None:
    """Forward the input. When it ends, close the server's input and kill the server after the grace period."""
    while data := os.read(_STDIN, _READ_BYTES):
        with contextlib.suppress(OSError):  # the program has stopped reading; its output is still forwarded
            _write(descriptor, data)
    os.close(descriptor)
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(grace_seconds)
    _kill(program)


def _kill_leftovers(program: subprocess.Popen[bytes]) -> None:
    """Kill the remaining processes of the program, including those that hold its output open."""
    program.wait()
    _kill(program)


def _kill(program: subprocess.Popen[bytes]) -> None:
    """Kill the program and its descendants; the program itself even if the descendants cannot be determined."""
    kill_descendants(os.getpid())
    program.kill()


def _forward_output(descriptor: int, max_line_bytes: int) -> bool:
    """Forward the program's output to its end; return False if a line is too long."""
    length = 0
    while data := os.read(descriptor, _READ_BYTES):
        _, newline, after = data.rpartition(b"\n")
        length = len(after) if newline else length + len(data)
        if length > max_line_bytes:
            return False
        with contextlib.suppress(OSError):  # the reader is gone; the end of the input will follow
            _write(_STDOUT, data)
    return True


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
