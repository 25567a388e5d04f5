"""File search, bounded in files, bytes, matches and time."""

from __future__ import annotations

import fnmatch
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentkit._dataclass import dataclass
from agentkit.errors import ToolError
from agentkit.workspace.change_detection import SKIPPED
from agentkit.workspace.root import Root
from agentkit.workspace.text import decode, redact_text

MAX_FILES = 5_000
MAX_BYTES = 50_000_000
MAX_FILE_BYTES = 2_000_000
MAX_PATTERN_CHARS = 1_000
_MAX_GLOBS = 64
_MAX_NAMED = 5
_MAX_GLOB_CHARS, _MAX_GLOB_PARTS = 500, 50
_PROGRAM = str(Path(__file__).with_name("search_program.py"))


@dataclass(frozen=True, slots=True)
class Query:
    """A search: a regular expression, a path and a `glob` for files; `skips` excludes paths from reading."""

    pattern: str
    path: str = "."
    glob: str | None = None
    most_matches: int = 200
    max_files: int = MAX_FILES
    seconds: float = 10.0
    skips: Callable[[str], object] = lambda _: False


@dataclass(frozen=True, slots=True)
class Match:
    """A matching line."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Matches:
    """The results of a search. `left_out` is the reason why they could be incomplete, or empty.

    `timed_out` is true if the search was stopped.
    """

    matches: tuple[Match, ...]
    files: int
    left_out: str = ""
    timed_out: bool = False


def search(root: Root, query: Query) -> Matches:
    """Search the text files of a folder. Raises ToolError for an invalid pattern, path or glob."""
    if not query.pattern or len(query.pattern) > MAX_PATTERN_CHARS:
        raise ToolError(f"A pattern has 1 to {MAX_PATTERN_CHARS:,} characters.")
    deadline = time.monotonic() + query.seconds
    texts: list[tuple[str, bytes]] = []
    large: list[str] = []
    incomplete = ""
    bytes_left = MAX_BYTES
    for place, text in _texts(root, query, large):
        bytes_left -= len(text or b"")
        if bytes_left < 0 or len(texts) == query.max_files or time.monotonic() > deadline:
            incomplete = f"Only the first {len(texts):,} files were searched; give a narrower path or glob."
            break
        if text is not None:
            texts.append((place, text))
    lines = _run_search(query, [text for _, text in texts], deadline)
    ends = [line for line in lines if "file" not in line]
    if ends and "error" in ends[0]:
        raise ToolError(f"The pattern is not a regular expression of Python: {ends[0]['error']}.")
    matches = tuple(Match(texts[line["file"]][0], line["line"], line["text"]) for line in lines if "file" in line)
    if not ends:
        incomplete = (
            f"The search did not end within {query.seconds:g} seconds; simplify the pattern or narrow the path."
        )
    elif not ends[0]["complete"]:
        incomplete = f"There are more than {query.most_matches:,} matches; these are the first."
    incomplete = " ".join(filter(None, [incomplete, _large_files_note(large)]))
    return Matches(matches, len(texts), incomplete, not ends)


def _texts(root: Root, query: Query, large: list[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield every file with its redacted UTF-8 text; None for binary, excluded or unreadable files.

    Files that are too large to be searched whole are added to `large`.
    """
    globs = _expand_braces(query.glob) if query.glob else ()
    _, place = root.locate(query.path)
    is_file = bool(place) and root.inspect(place, 0).kind == "file"
    if is_file:
        root.file_components(query.path)
    found = [(place, 0)] if is_file else _list_files(root, query.path)
    for each, size in found:
        is_asked = (not globs or _matches_globs(each, globs)) and not query.skips(each)
        if is_asked and size > MAX_FILE_BYTES:
            large.append(each)
        yield each, _text(root, each, large) if is_asked and size <= MAX_FILE_BYTES else None


def _text(root: Root, place: str, large: list[str]) -> bytes | None:
    try:
        read = root.read(place, MAX_FILE_BYTES)
        text = redact_text(decode(read.content, place, read.size).text).encode("utf-8", "replace")
    except ToolError:  # binary, deleted meanwhile, or not permitted
        return None
    if read.size > MAX_FILE_BYTES:
        large.append(place)
    return text


def _large_files_note(large: Sequence[str]) -> str:
    if not large:
        return ""
    more = f" and {len(large) - _MAX_NAMED:,} more" if len(large) > _MAX_NAMED else ""
    return (
        f"Files of more than {MAX_FILE_BYTES:,} bytes were not searched, or only at their beginning: "
        f"{', '.join(large[:_MAX_NAMED])}{more}."
    )


def _list_files(root: Root, path: str) -> Iterator[tuple[str, int]]:
    root.entries(path)  # raises if the path is invalid
    return root.files(path, SKIPPED)


def _expand_braces(glob: str) -> list[str]:
    """Expand braces in a glob: `*.{js,ts}` becomes `*.js` and `*.ts`."""
    if len(glob) > _MAX_GLOB_CHARS or glob.count("/") >= _MAX_GLOB_PARTS:
        raise ToolError(f"A glob has at most {_MAX_GLOB_CHARS} characters and {_MAX_GLOB_PARTS} parts.")
    globs = [glob.removeprefix("./")]
    while any(re.search(r"\{[^{}]*\}", each) for each in globs):
        globs = [
            f"{before}{choice}{after}"
            for before, choices, after in (re.split(r"\{([^{}]*)\}", each, maxsplit=1) for each in globs)
            for choice in choices.split(",")
        ]
        if len(globs) > _MAX_GLOBS:
            raise ToolError(f"The glob has more than {_MAX_GLOBS} alternatives.")
    return globs


def _matches_globs(place: str, globs: Sequence[str]) -> bool:
    names = place.split("/")
    return any(
        _matches_parts(names, glob.split("/")) if "/" in glob else fnmatch.fnmatchcase(names[-1], glob)
        for glob in globs
    )


def _matches_parts(names: Sequence[str], globs: Sequence[str]) -> bool:
    """Whether the names match the parts of a glob; `**` matches any number of names."""
    reached = {0}  # the numbers of names that can be consumed so far
    for glob in globs:
        if glob == "**":
            reached = set(range(min(reached, default=len(names) + 1), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and fnmatch.fnmatchcase(names[at], glob)}
    return len(names) in reached


def _run_search(query: Query, texts: Sequence[bytes], deadline: float) -> list[dict[str, Any]]:
    """Return the output of the search process until the deadline, after which the process is killed."""
    parameters = {"pattern": query.pattern, "most_matches": query.most_matches, "seconds": math.ceil(query.seconds) + 1}
    request = b"".join([json.dumps(parameters).encode() + b"\n", *(b"%d\n%b" % (len(text), text) for text in texts)])
    with subprocess.Popen(  # this interpreter with a fixed program
        [sys.executable, "-I", "-S", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(request, timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
    return [json.loads(line) for line in output.split(b"\n")[:-1]]
