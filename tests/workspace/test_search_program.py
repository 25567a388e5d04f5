"""Tests for the search process."""

import io
import json
import subprocess
import sys
from pathlib import Path

from agentkit.workspace import search_program

ASKED = {"pattern": "b+", "most_matches": 2, "seconds": 5}


def test_matches_are_written_one_a_line():
    """Each match is a line of JSON, and the last line is the outcome."""
    lines = list(search_program.matches(ASKED, iter(["a\nb\n", "bb", "b"])))
    assert lines == [
        {"file": 0, "line": 2, "text": "b"},
        {"file": 1, "line": 1, "text": "bb"},
        {"complete": False},
    ]
    assert list(search_program.matches(ASKED, iter(["a"]))) == [{"complete": True}]


def test_invalid_pattern_is_reported():
    """An invalid pattern returns the reason."""
    assert "unterminated" in str(list(search_program.matches({**ASKED, "pattern": "("}, iter([]))))


def test_texts_are_read_by_their_size():
    """Each text follows a line with its size in bytes."""
    assert list(search_program.read_files(io.BytesIO("3\né\n0\n1\nx".encode()))) == ["é\n", "", "x"]


def test_program_runs_standalone():
    """The program runs as a script or as a module and answers one request."""
    request = json.dumps(ASKED).encode() + b"\n4\na\nb\n"
    for program in (["-I", "-S", str(Path(search_program.__file__))], ["-m", search_program.__name__]):
        done = subprocess.run([sys.executable, *program], input=request, capture_output=True, check=True)
        assert [json.loads(line) for line in done.stdout.splitlines()] == [
            {"file": 0, "line": 2, "text": "b"},
            {"complete": True},
        ]
