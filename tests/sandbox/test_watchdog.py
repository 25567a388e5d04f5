"""Tests for the limits, output and termination of programs."""

import asyncio
import subprocess
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.errors import ConfigError
from agentkit.sandbox.process_tree import descendants, kill_descendants, process_count
from agentkit.sandbox.watchdog import (
    Cancellation,
    Capture,
    ProcessLimits,
    attend,
    run_cancellable,
)


def start(script):
    """Start a shell script in a separate session."""
    return subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def attended(script, cancellation=None, **limits):
    """Return why a script was stopped, its output and its exit code."""
    with start(script) as program:
        capture = Capture(1000)
        takers = {program.stdout.fileno(): capture.add, program.stderr.fileno(): capture.add}
        stop = attend(program, takers, ProcessLimits(**limits), cancellation)
        return stop, capture.text(), program.returncode


def test_finished_program_is_not_stopped():
    """A program that exits normally is not stopped, and its output is complete."""
    assert attended("echo out; echo err >&2; exit 3") == (None, "out\nerr\n", 3)


def test_late_program_is_killed_and_its_output_returned():
    """A program that exceeds the time limit is killed, and its output so far is returned."""
    stop, output, code = attended("echo before; sleep 60", timeout_seconds=0.3)
    assert (stop.word, output, code) == ("timed_out", "before\n", -9)
    assert "after 0.3 seconds" in stop.sentence


def test_program_with_endless_output_is_ended():
    """A program that writes endlessly is ended, and its output is truncated."""
    stop, output, _ = attended("yes", flood_bytes=1_000_000)
    assert stop.word == "flood"
    assert "bytes left out" in output
    assert len(output) < 1200


def test_program_with_many_processes_is_ended():
    """A program that starts too many processes is ended with all of them."""
    stop, _, _ = attended("for n in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait", processes=4, timeout_seconds=20)
    assert stop.word == "processes"


def test_memory_limit_applies_to_the_process_tree():
    """The memory limit applies to the sum over all processes of a program."""
    stop, _, _ = attended("sleep 20 & sleep 20 & sleep 20; wait", memory_bytes=2_000_000, timeout_seconds=20)
    assert stop.word == "memory"
    assert "MB" in stop.sentence


def test_program_can_be_cancelled():
    """A program ends soon after another thread cancels it."""
    cancellation = Cancellation()
    threading.Timer(0.2, cancellation.cancel).start()
    started = time.monotonic()
    assert attended("sleep 60", cancellation)[0].word == "cancelled"
    assert time.monotonic() - started < 20


def test_background_process_does_not_delay_the_result():
    """A background process that keeps the output open does not delay the result."""
    started = time.monotonic()
    stop, output, _ = attended("sleep 5 & echo done")
    assert (stop, output) == (None, "done\n")
    assert time.monotonic() - started < 4


def test_program_ends_if_reading_its_output_fails():
    """If the consumer of the output raises an error, the program is ended."""

    def fail(_):
        raise RuntimeError

    with start("echo x; sleep 60") as program:
        with pytest.raises(RuntimeError):
            attend(program, {program.stdout.fileno(): fail}, ProcessLimits())
        assert program.returncode == -9


def test_process_tree_is_ended():
    """All descendants of a process are found and ended."""
    with start("(sleep 60 & sleep 60) & sleep 60; wait") as program:
        while len(descendants(program.pid)) < 4:
            time.sleep(0.01)
        assert process_count() > 4
        kill_descendants(program.pid)
        program.communicate(timeout=20)
        assert descendants(program.pid) == {}


@given(st.lists(st.binary(max_size=30)), st.integers(1, 60))
def test_capture_preserves_beginning_and_end(pieces, room):
    """Long output is truncated to its limit: four fifths from the beginning, one fifth from the end."""
    capture = Capture(room)
    for piece in pieces:
        capture.add(piece)
    content = b"".join(pieces)
    assert capture.total_bytes == len(content)
    assert capture.truncated == (len(content) > room)
    if not capture.truncated:
        assert capture.text() == content.decode("utf-8", "replace")


def test_capture_reports_omitted_bytes():
    """Truncated output states how many bytes were omitted."""
    capture = Capture(10)
    capture.add(b"a" * 8 + b"x" * 200_000)
    capture.add(b"bc")
    assert capture.text() == "aaaaaaaa\n… 200,000 of 200,010 bytes left out …\nbc"


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "1", None])
def test_limit_must_be_positive(value):
    """A limit that is not a positive number is rejected."""
    with pytest.raises(ConfigError, match="timeout_seconds"):
        ProcessLimits(timeout_seconds=value)


def test_blocking_work_can_be_awaited():
    """Awaiting work in a thread returns its value or raises its error."""

    def fail(_):
        raise KeyError("x")

    assert asyncio.run(run_cancellable(lambda _: 5)) == 5
    with pytest.raises(KeyError):
        asyncio.run(run_cancellable(fail))


def test_cancelled_work_is_notified_and_awaited():
    """Cancelling an awaited call ends its work before the cancellation propagates."""
    ended = []

    def work(cancellation):
        while not cancellation.is_requested:
            time.sleep(0.01)
        ended.append(True)

    async def main():
        await asyncio.wait_for(run_cancellable(work), 0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert ended == [True]
