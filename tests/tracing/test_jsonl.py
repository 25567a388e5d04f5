"""Tests for traces in JSONL files: lines, permissions, and failures."""

import json
import logging
import os
import resource
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentkit import ConfigError
from agentkit.events import RunLeft, TextDelta
from agentkit.tracing import JSONLines
from agentkit.tracing.jsonl import append
from agentkit.tracing.listeners import is_context_listener

LINES = 40

WRITER = """
import sys
from pathlib import Path
from agentkit.tracing.jsonl import append
for number in range(40):
    append(Path(sys.argv[1]), f"{sys.argv[2]} {number} {'x' * 20_000}\\n".encode())
"""


def read(path):
    """Return the lines of a trace as data."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_run_is_written_line_by_line(make_agent, tmp_path):
    """Each stored event of a run is a line, in order; a request has its duration."""
    path = tmp_path / "trace.jsonl"
    listener = JSONLines(path)
    assert not is_context_listener(listener)  # durations come with the origin, without a context around each request
    make_agent(listeners=[listener]).run("go")
    lines = read(path)
    assert [line["event"] for line in lines][:3] == ["RunStarted", "ResponseReceived", "ToolCallStarted"]
    assert lines[-1]["event"] == "RunFinished"
    assert all(line["seconds"] >= 0 for line in lines if line["event"] == "ResponseReceived")
    assert len({line["run"] for line in lines}) == 1
    assert [line["verdict"] for line in lines if "verdict" in line] == ["allow", "allow", "deny"]


def test_file_is_private(make_agent, tmp_path):
    """The file is created with mode 0600, and permissions of others are removed."""
    path = tmp_path / "trace.jsonl"
    JSONLines(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    make_agent("Done.", listeners=[JSONLines(path)]).run("go")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_are_redacted(make_agent, tmp_path):
    """Secrets are redacted even if content is enabled."""
    path = tmp_path / "trace.jsonl"
    make_agent(listeners=[JSONLines(path, content=True)]).run("my key is sk-abcdefghij0123456789ABCDEFG")
    assert "abcdefghij" not in path.read_text("utf-8")
    assert "[redacted: API key]" in path.read_text("utf-8")


def test_moved_file_is_recreated(make_agent, tmp_path):
    """A new file is created if the file was moved away."""
    path = tmp_path / "trace.jsonl"
    agent = make_agent("One.", "Two.", listeners=[JSONLines(path)])
    agent.run("go")
    path.rename(tmp_path / "old.jsonl")
    agent.run("go")
    assert len(read(path)) == len(read(tmp_path / "old.jsonl")) == 3


@pytest.mark.parametrize("kind", ["symbolic link", "fifo", "folder", "missing folder"])
def test_path_that_is_not_a_regular_file_raises(kind, tmp_path):
    """A link, a pipe, a folder or a missing folder raises an error."""
    path = tmp_path / "trace.jsonl"
    match kind:
        case "symbolic link":
            path.symlink_to(tmp_path / "elsewhere")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path = tmp_path / "nowhere" / "trace.jsonl"
    with pytest.raises(ConfigError, match=r"Cannot write the trace to .* Use a regular file"):
        JSONLines(path)
    assert not (tmp_path / "elsewhere").exists()


def test_pipe_with_a_reader_raises(tmp_path):
    """A pipe raises an error even if it has a reader."""
    path = tmp_path / "trace.jsonl"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(ConfigError, match="not a regular file"):
            JSONLines(path)
    finally:
        os.close(reader)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner")
def test_file_of_another_user_raises(tmp_path):
    """A file that belongs to another user raises an error."""
    path = tmp_path / "trace.jsonl"
    path.touch()
    os.chown(path, 65_534, 65_534)
    with pytest.raises(ConfigError, match="another user"):
        JSONLines(path)


def test_link_replacing_the_file_is_not_followed(make_agent, tmp_path, caplog):
    """A link that later replaces the file is not followed, and one warning is logged."""
    path = tmp_path / "trace.jsonl"
    agent = make_agent("Done.", listeners=[JSONLines(path)])
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING):
        assert agent("go") == "Done."
    assert not (tmp_path / "elsewhere").exists()
    (record,) = caplog.records
    assert f"Cannot write the trace to {path}" in record.getMessage()


def test_full_disk_does_not_end_the_run(make_agent, tmp_path, caplog):
    """A line that cannot be written completely is dropped, and one warning is logged."""
    path = tmp_path / "trace.jsonl"
    agent = make_agent("x" * 5_000, listeners=[JSONLines(path, content=True)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with caplog.at_level(logging.WARNING):
            assert agent("go") == "x" * 5_000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [line["event"] for line in read(path)] == ["RunStarted"]
    assert len(caplog.records) == 1


def test_locked_file_raises(tmp_path):
    """append() raises BlockingIOError if the file stays locked."""
    import fcntl

    path = tmp_path / "trace.jsonl"
    with path.open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            append(path, b"{}\n")
    append(path, b"{}\n")
    assert path.read_text("utf-8") == "{}\n"


def test_concurrent_writers_write_complete_lines(tmp_path):
    """Lines written by several processes and threads are all complete."""
    path = tmp_path / "trace.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, f"p{number}"]) for number in range(3)]
    with ThreadPoolExecutor(4) as pool:
        for name in ("t1", "t2", "t3", "t4"):
            pool.submit(lambda name=name: [append(path, f"{name} {n} {'x' * 20_000}\n".encode()) for n in range(LINES)])
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    lines = [line.split(" ") for line in path.read_text("utf-8").splitlines()]
    names = ("p0", "p1", "p2", "t1", "t2", "t3", "t4")
    assert {(name, int(number)) for name, number, _ in lines} == {(name, n) for name in names for n in range(LINES)}
    assert len(lines) == len(names) * LINES
    assert {len(text) for _, _, text in lines} == {20_000}


def test_abandoned_run_ends_with_run_left(make_agent, tmp_path):
    """The last line of an abandoned run is RunLeft."""
    path = tmp_path / "trace.jsonl"
    for event in make_agent("A long answer.", listeners=[JSONLines(path)]).stream("go"):
        if isinstance(event, TextDelta):
            break
    assert read(path)[-1]["event"] == RunLeft.__name__
