"""Tests for the output of a run: files, pipes, cassettes, and colours."""

import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios

import pytest

from agentkit.sessions.session import Session
from agentkit.testing import FakeServer, call, fail, say

SUM = call("calculator", expression="2+2")


def test_call_line_is_wrapped_between_words(spawn):
    """A long call line is wrapped between words on a terminal, but not in a pipe."""
    wide = call("string_length", text="words " * 20)
    keyboard, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with FakeServer(wide, "Done.", wide, "Done.") as server, os.fdopen(keyboard, "rb", buffering=0) as eyes:
        process = spawn("--no-session", "How long?", server=server, stdout=screen, stderr=screen)
        os.close(screen)
        assert process.wait(timeout=120) == 0
        parts = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "\n", eyes.read(9_999).decode()).split("\n")
        lines = [line for line in parts if "words" in line]
        assert len(lines) > 1
        assert max(map(len, lines)) <= 60
        assert all(line.startswith("    ") for line in lines[1:])
        assert len(spawn("--no-session", "How long?", server=server).communicate(timeout=120)[1].splitlines()) == 1


def test_jsonl_is_an_export_of_the_session(typed_line, tmp_path):
    """--jsonl prints a line for each stored event in the format of an exported session, which can be imported."""
    with FakeServer(SUM, "It is 4.\u202e") as server:
        out, err, code = typed_line("--jsonl", "2+2?", server=server)
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err, "\u202e" in out) == (0, "", False)
    assert [line.get("event") for line in lines[1:]] == [
        "run_started",
        "response_received",
        "tool_call_started",
        "tool_call_finished",
        "response_received",
        "run_ended",
    ]
    (tmp_path / "run.jsonl").write_text(out)
    assert typed_line("sessions", "import", "run.jsonl", "again")[2] == 0
    assert Session.open(name="again").messages[-1].text == "It is 4.\u202e"
    assert "2+2?" in typed_line("show", "run.jsonl")[0]


def test_jsonl_without_a_session_and_with_a_cassette(typed_line, tmp_path):
    """--jsonl works without a session and together with --record."""
    with FakeServer(SUM, "4") as server:
        out = typed_line("--no-session", "--jsonl", "--record", "a.cassette", "2+2?", server=server)[0]
    assert json.loads(out.splitlines()[0])["name"] == "unnamed"
    assert "calculator" in typed_line("show", "a.cassette")[0]
    played, err, code = typed_line("replay", "a.cassette")
    assert (played, code, "calculator(" in err) == ("4\n", 0, True)


def test_record_writes_a_cassette(typed_line, tmp_path):
    """--record writes a cassette, and the answer still goes to stdout."""
    with FakeServer("4") as server:
        assert typed_line("--record", "a.cassette", "2+2?", server=server)[0] == "4\n"
    assert (tmp_path / "a.cassette").exists()


def test_answer_is_written_to_a_file(typed_line, tmp_path):
    """-o replaces the file with the cleaned answer, and stdout is empty."""
    (tmp_path / "out.txt").write_text("old")
    with FakeServer(say("Let me see.", SUM), "\x1b[31mIt is 4.", SUM, "4") as server:
        out, err, code = typed_line("-o", "out.txt", "2+2?", server=server)
        assert (out, code, "calculator(" in err) == ("", 0, True)
        assert (tmp_path / "out.txt").read_text() == "It is 4.\n"
        assert typed_line("-o", "out.json", "--json", "2+2?", server=server)[:2] == ("", "")
    assert json.loads((tmp_path / "out.json").read_text())["output"] == "4"


def test_output_file_is_unchanged_after_a_failure(typed_line, tmp_path):
    """If there is no answer, the file given with -o is not changed."""
    (tmp_path / "out.txt").write_text("old")
    with FakeServer(fail(403, "no")) as server:
        assert typed_line("-o", "out.txt", "hi", server=server)[2] == 1
    assert (tmp_path / "out.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("path", "expected"), [("none/out.txt", "The folder 'none' does not exist."), ("folder", "'folder' is a folder.")]
)
def test_invalid_output_path_is_an_error_before_the_request(path, expected, typed_line, tmp_path):
    """An invalid path for -o is an error before the model is called."""
    (tmp_path / "folder").mkdir()
    with FakeServer() as server:
        _, err, code = typed_line("-o", path, "hi", server=server)
        assert (code, expected in err, server.requests) == (2, True, [])


@pytest.mark.skipif(sys.platform != "linux", reason="no file can be created in /proc")
def test_unwritable_output_file_is_an_error(process):
    """An output file that cannot be created is an error (exit code 1)."""
    with FakeServer("ok") as server:
        _, err, code = process("-o", "/proc/answer.txt", "hi", server=server)
    assert (code, "Error: /proc/answer.txt: " in err) == (1, True)


def test_no_stream_shows_the_whole_answer(typed_line):
    """--no-stream prints the answer in one piece after the tool calls."""
    with FakeServer(SUM, "It is 4.", "") as server:
        out, err, _ = typed_line("--no-stream", "2+2?", server=server)
        assert typed_line("--no-stream", "hi", server=server)[0] == ""
    assert (out, "calculator(" in err) == ("It is 4.\n", True)
    assert not any(request.json.get("stream") for request in server.requests)


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colours_are_for_terminals(variables, is_coloured, command, monkeypatch):
    """Tool lines are coloured on a terminal or with FORCE_COLOR, never with NO_COLOR; answers are never coloured."""
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with FakeServer(SUM, "4") as server:
        out, err, _ = command("2+2?", server=server)
    assert (out, bool(re.search("\x1b\\[", err))) == ("4\n", is_coloured)


def test_slow_call_shows_its_duration(typed_line):
    """A slow call is shown with its duration."""
    with FakeServer(call("run_python", code="import time\ntime.sleep(0.4)"), "Done.") as server:
        err = typed_line("-y", "Wait.", server=server)[1]
    assert re.search(r"\]  \d+\.\d s$", err, re.MULTILINE)


def test_invisible_text_is_not_written(typed_line):
    """Text that consists of invisible characters is not written."""
    with FakeServer(say("\u202e", SUM), "4") as server:
        assert typed_line("2+2?", server=server)[0] == "4\n"
