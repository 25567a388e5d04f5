"""Tests for the search in the files of a workspace."""

import time

import psutil
import pytest

from agentkit.errors import ToolError
from agentkit.workspace.root import Root
from agentkit.workspace.search import Match, Query, search


@pytest.fixture
def root(tmp_path):
    """A small project."""
    for path, text in {
        "app.py": "import os\n\ndef main():\n    pass  # TODO: finish\n",
        "src/util.py": "def main_part():\n    return 'TODO'\n",
        "src/web/page.ts": "// todo: style\n",
        "src/web/page.js": "// TODO\r\n",
        "node_modules/x.js": "TODO",
        "notes.md": "Việc TODO: học\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0TODO")
    (tmp_path / "link.py").symlink_to("app.py")
    return Root(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "path", "glob", "found"),
    [
        ("TODO", ".", None, ["app.py:4", "notes.md:1", "src/util.py:2", "src/web/page.js:1"]),
        ("(?i)todo", "src", None, ["src/util.py:2", "src/web/page.js:1", "src/web/page.ts:1"]),
        (r"^def \w+", ".", "*.py", ["app.py:3", "src/util.py:1"]),
        ("(?i)todo", ".", "*.{js,ts}", ["src/web/page.js:1", "src/web/page.ts:1"]),
        ("(?i)todo", ".", "src/**/*.ts", ["src/web/page.ts:1"]),
        ("TODO", ".", "**/util.py", ["src/util.py:2"]),
        ("TODO", ".", "./src/*.py", ["src/util.py:2"]),
        ("TODO", ".", "src/*/**", ["src/util.py:2", "src/web/page.js:1"]),
        ("TODO", ".", "lib/*.py", []),
        ("TODO", "app.py", None, ["app.py:4"]),
        ("TODO$", ".", None, ["src/web/page.js:1"]),
        ("học", ".", None, ["notes.md:1"]),
    ],
)
def test_lines_that_match_are_found(pattern, path, glob, found, root):
    """Each matching line has its file and number; binary files, links and package folders are skipped."""
    matches = search(root, Query(pattern, path, glob))
    assert sorted(f"{match.path}:{match.line}" for match in matches.matches) == found
    assert matches.left_out == ""


def test_files_can_be_excluded(root):
    """Excluded files are not searched."""
    matches = search(root, Query("TODO", skips=lambda place: place.endswith((".py", ".md"))))
    assert [match.path for match in matches.matches] == ["src/web/page.js"]
    assert matches.files == 2


@pytest.mark.parametrize("pattern", ["(", "*", "(?P<x>", "[z-a]", "(?<=a+)b", "a{99999999999999999999}"])
def test_invalid_pattern_is_explained(pattern, root):
    """An invalid regular expression is reported with the reason."""
    with pytest.raises(ToolError, match="is not a regular expression of Python"):
        search(root, Query(pattern))


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (Query(""), "1 to 1,000 characters"),
        (Query("x" * 1_001), "1 to 1,000 characters"),
        (Query("x", "missing"), "'missing' does not exist"),
        (Query("x", "../x"), "outside the workspace"),
        (Query("x", glob="{a,b}" * 9), "more than 64 alternatives"),
    ],
)
def test_invalid_query_is_rejected(query, problem, root):
    """An invalid query raises an error that explains the problem."""
    with pytest.raises(ToolError, match=problem):
        search(root, query)


def test_slow_pattern_is_stopped(root, tmp_path):
    """A catastrophic pattern is stopped in time, and earlier matches are returned."""
    (tmp_path / "a.txt").write_text("aa\n")
    (tmp_path / "b.txt").write_text("a" * 60 + "!\n")
    started = time.monotonic()
    matches = search(root, Query(r"^(a+)+$", glob="*.txt", seconds=1))
    assert time.monotonic() - started < 8
    assert matches.matches == (Match("a.txt", 1, "aa"),)
    assert matches.timed_out
    assert "did not end within 1 seconds" in matches.left_out
    assert [child for child in psutil.Process().children() if "matching.py" in " ".join(child.cmdline())] == []


def test_matches_are_bounded(root, tmp_path):
    """Only the first matches are returned, with a note that there are more."""
    (tmp_path / "many.txt").write_text("x\n" * 300)
    matches = search(root, Query("x", "many.txt", most_matches=20))
    assert len(matches.matches) == 20
    assert matches.left_out == "There are more than 20 matches; these are the first."


def test_files_and_bytes_are_bounded(root, tmp_path):
    """The number and size of searched files are limited, with a note about the number."""
    (tmp_path / "large.txt").write_bytes(b"TODO" * 600_000)
    assert "large.txt" not in [match.path for match in search(root, Query("TODO")).matches]
    matches = search(root, Query("x", max_files=3))
    assert matches.files == 3
    assert matches.left_out.startswith("Only the first 3 files were searched; give a narrower path or glob.")


def test_large_files_are_named(root, tmp_path):
    """Files that are too large are listed; the beginning of one that is named explicitly is searched."""
    for number in range(7):
        (tmp_path / f"large{number}.log").write_bytes(b"x\n" * 1_000_001 + b"end")
    found = search(root, Query("end", glob="*.log")).left_out
    assert found.endswith("large0.log, large1.log, large2.log, large3.log, large4.log and 2 more.")
    one = search(root, Query("^x", "large0.log", most_matches=9))
    assert (len(one.matches), "only at their beginning: large0.log." in one.left_out) == (9, True)


def test_whole_lines_are_searched(root, tmp_path):
    """A match at the end of a long line is found."""
    (tmp_path / "long.json").write_text("a" * 1_500_000 + "needle")
    (match,) = search(root, Query("needle$", "long.json")).matches
    assert match.text.endswith("needle")


def test_long_lines_are_shown_around_the_match(root, tmp_path):
    """The part of a long line around the match is returned."""
    (tmp_path / "long.txt").write_text("a" * 5_000 + "here" + "b" * 5_000)
    (match,) = search(root, Query("here", "long.txt")).matches
    assert "here" in match.text
    assert len(match.text) <= 300


@pytest.mark.parametrize("glob", ["[" * 40_000, "**/" * 80_000, "*/" * 51, "{a,b}" * 101])
def test_long_globs_are_rejected(glob, tmp_path):
    """A glob that would be slow to match is rejected before the search starts."""
    (tmp_path / "a").write_text("x")
    with pytest.raises(ToolError, match="at most 500 characters and 50 parts"):
        search(Root(tmp_path), Query("x", glob=glob))


def test_time_limit_applies_to_skipped_files(tmp_path):
    """The time limit also applies to files that are skipped."""
    for number in range(20):
        (tmp_path / str(number)).write_text("x")
    questions = []
    found = search(Root(tmp_path), Query("x", seconds=-1, skips=lambda place: questions.append(place) or True))
    assert len(questions) == 1
    assert "first 0 files" in found.left_out or found.timed_out


def test_secrets_are_redacted_before_the_search(tmp_path):
    """Inner lines of a key and parts of a token are not found, and line numbers do not change."""
    body = "\n".join("MIIBVgIBADANBgkqhkiG9w0BAQEFAASC" for _ in range(5))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    (tmp_path / "a").write_text(f"first\n{key}\n{'x' * 90} ghp_{'a1' * 150}\nlast\n")
    assert search(Root(tmp_path), Query("MIIB|a1a1")).matches == ()
    (last,) = search(Root(tmp_path), Query("^last")).matches
    assert last.line == 10


def test_file_path_ending_in_dots_is_rejected(tmp_path):
    """A path to a file that ends in `..` is rejected."""
    (tmp_path / "a").write_text("x")
    (tmp_path / "d").mkdir()
    with pytest.raises(ToolError, match="name a file"):
        search(Root(tmp_path), Query("x", "d/../a/b/.."))
