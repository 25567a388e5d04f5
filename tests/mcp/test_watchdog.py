"""Tests for the watchdog, which ends a server's process with its parent."""

import os
import signal
import subprocess
import sys

import pytest

from agentkit.mcp.watchdog import NOT_STARTED, TOO_LONG

KEEPER = """
import sys
from agentkit.mcp.watchdog import main
sys.exit(main(sys.argv[2:], max_line_bytes=100_000, grace_seconds=float(sys.argv[1])))
"""


@pytest.fixture
def keep():
    """Return a function that starts a command with its watchdog and a grace period."""
    started = []

    def start(*command, grace_seconds=5.0):
        words = [sys.executable, "-c", KEEPER, str(grace_seconds), *command]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        started.append(subprocess.Popen(words, bufsize=0, **pipes))
        return started[-1]

    yield start
    for keeper in started:
        keeper.kill()
        keeper.wait()
        for pipe in (keeper.stdin, keeper.stdout, keeper.stderr):
            pipe.close()


def test_bytes_are_passed_through(keep):
    """Input and output are passed through, and the exit code is that of the server."""
    keeper = keep("bash", "-c", "cat; echo trouble >&2; exit 7")
    out, err = keeper.communicate(b"one\ntwo\n")
    assert (out, err, keeper.returncode) == (b"one\ntwo\n", b"trouble\n", 7)


def test_missing_command(keep):
    """A command that cannot be started is reported by name."""
    keeper = keep("/nowhere/server")
    _, err = keeper.communicate()
    assert b"/nowhere/server" in err
    assert keeper.returncode == NOT_STARTED


def test_server_is_killed_after_the_grace_period(keep):
    """A server that keeps running after its input has ended is killed after the grace period."""
    keeper = keep("bash", "-c", "trap '' TERM; while :; do sleep 1; done", grace_seconds=0.1)
    keeper.communicate()
    assert keeper.returncode == -signal.SIGKILL % 256


def test_child_processes_end_with_the_server(keep, is_alive, eventually):
    """Processes that a server has started in another session end with it."""
    keeper = keep("bash", "-c", "setsid sleep 1000 & echo $!; read line")
    child = int(keeper.stdout.readline())
    assert is_alive(child)
    keeper.communicate(b"\n")
    eventually(lambda: not is_alive(child))


def test_background_process_is_ended(keep, is_alive, eventually):
    """A background process that a server leaves behind is ended."""
    keeper = keep("bash", "-c", "sleep 1000 & echo $!")
    child = int(keeper.stdout.readline())
    assert keeper.wait(60) == 0
    eventually(lambda: not is_alive(child))


def test_server_ends_with_its_killed_parent(keep, is_alive, eventually, tmp_path):
    """If a program is killed by SIGKILL, its server ends with its children, even if it ignores its input."""
    script = f"echo $$ > {tmp_path}/pid; setsid sleep 1000 & trap '' TERM; while :; do sleep 1; done"
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            "time.sleep(1000)",
            *(sys.executable, "-c", KEEPER, "0.1", "bash", "-c", script),
        ]
    )
    pid = int(eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    eventually(lambda: not is_alive(pid))


def test_oversized_message_ends_the_server(keep):
    """A message that is too long ends the server, and the reason is reported."""
    keeper = keep("bash", "-c", "echo short; head -c 200000 /dev/zero; sleep 1000")
    out, err = keeper.communicate()
    assert out.startswith(b"short\n")
    assert b"longer than 100,000 bytes" in err
    assert keeper.returncode == TOO_LONG


def test_total_length_of_messages_is_unlimited(keep):
    """Many short messages may have any total length."""
    keeper = keep("bash", "-c", "for i in {1..20}; do head -c 50000 /dev/zero; echo; done")
    out, _ = keeper.communicate()
    assert (len(out), keeper.returncode) == (20 * 50_001, 0)


def test_server_that_reads_nothing(keep):
    """Input that a server does not read is dropped, and its output is still passed on."""
    keeper = keep("bash", "-c", "exec <&-; echo closed; sleep 0.2; echo still there")
    assert keeper.stdout.readline() == b"closed\n"
    out, _ = keeper.communicate(b"x" * 1_000_000)
    assert out == b"still there\n"


def test_server_whose_output_is_not_read(keep):
    """A server whose output is not read ends with its input."""
    keeper = keep("bash", "-c", "read line; echo nobody; exit 3")
    keeper.stdout.close()
    keeper.stdin.write(b"\n")
    keeper.stdin.close()
    assert keeper.wait(60) == 3
